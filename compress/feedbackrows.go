package compress

import (
	"fmt"
	"slices"

	"hcclps/internal/vec"
)

// AppendRows appends a frame of some rows of a tensor that is kept as rows of dim elements, the last of which may be
// shorter: those of the given numbers, which ascend, with their residuals. The number of a row is its key in the frame.
// Calls for rows that differ may go on at the same time, if Check has passed the vector before.
func (f *Feedback) AppendRows(dst []byte, g []float32, dim int, rows []int32, seed uint64) ([]byte, error) {
	if len(g) != len(f.rest) || dim < 1 {
		return dst, fmt.Errorf("encode rows with residual: %d elements in rows of %d, the residual has %d: %w", len(g), dim, len(f.rest), ErrMismatch)
	}
	keys := make([]uint64, len(rows))
	n := 0
	for i, r := range rows {
		if r < 0 || int(r) > (len(g)-1)/dim {
			return dst, fmt.Errorf("encode rows with residual: row %d of %d elements in rows of %d: %w", r, len(g), dim, ErrMismatch)
		}
		keys[i] = uint64(r)
		n += len(rowOf(g, dim, r))
	}
	return appendRows(dst, f.codec, keys, dim, n, func(rc Codec, dst []byte) ([]byte, error) {
		if b := Block(rc); b > 0 && dim%b == 0 || len(rows) == 1 {
			return f.inPlace(dst, rc, g, dim, rows, seed)
		}
		return f.gathered(dst, rc, g, dim, rows, seed)
	})
}

// Check says whether a vector can be encoded with the residual: it has the right length, and no element that is not finite or too large.
func (f *Feedback) Check(g []float32) error { return f.check(g) }

// rowOf is a row of a tensor.
func rowOf(x []float32, dim int, row int32) []float32 {
	first := int(row) * dim
	return x[first:min(first+dim, len(x))]
}

// inPlace encodes row after row where the residual lies: the codes of rows, one after another, are the code of all.
func (f *Feedback) inPlace(dst []byte, rc Codec, g []float32, dim int, rows []int32, seed uint64) ([]byte, error) {
	bits, isBits := rc.(oneBit)
	for _, r := range rows {
		rest, add := rowOf(f.rest, dim, r), rowOf(g, dim, r)
		if isBits {
			dst = bits.appendSum(dst, rest, add)
			continue
		}
		vec.Add(rest, add)
		var err error
		if dst, err = rc.AppendRest(dst, rest, seed); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// gathered encodes the rows as one vector.
func (f *Feedback) gathered(dst []byte, rc Codec, g []float32, dim int, rows []int32, seed uint64) ([]byte, error) {
	var all []float32
	all = slices.Grow(all, len(rows)*dim)
	for _, r := range rows {
		at := len(all)
		all = append(all, rowOf(f.rest, dim, r)...)
		vec.Add(all[at:], rowOf(g, dim, r))
	}
	dst, err := rc.AppendRest(dst, all, seed)
	if err != nil {
		return dst, err
	}
	for _, r := range rows {
		all = all[copy(rowOf(f.rest, dim, r), all):]
	}
	return dst, nil
}
