package vec

import "unsafe"

// GatherRows copies the first dim elements of every row to dst, one row after another; a row that is nil leaves its place in dst as it is. It is what
// follows Prefetch. Each pointer is to dim elements at least, and len(dst) at least len(rows) x dim.
func GatherRows(dst []float32, rows []*float32, dim int) {
	if len(rows) == 0 || dim == 0 {
		return
	}
	dst = dst[:len(rows)*dim]
	if !gatherRowsFast(&dst[0], &rows[0], len(rows), dim) {
		gatherRowsPlain(dst, rows, dim)
	}
}

func gatherRowsPlain(dst []float32, rows []*float32, dim int) {
	for i, row := range rows {
		if row != nil {
			copy(dst[i*dim:][:dim], unsafe.Slice(row, dim))
		}
	}
}

// AddRows adds row i of src to row at[i] of dst, one after another, so that rows
// may come up more than once. len(src) must be at least len(at) x dim.
func AddRows(dst []float32, at []int32, src []float32, dim int) {
	src = src[:len(at)*dim]
	if dim == 1 {
		for i, v := range src {
			dst[at[i]] += v
		}
		return
	}
	for i, n := range at {
		Add(dst[int(n)*dim:][:dim], src[i*dim:])
	}
}
