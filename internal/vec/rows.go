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
