package compress

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// rowCodec is a codec for rows of a table: scales are of a row, of some if rows are short, or of blocks if whole ones
// make a row. Codecs without scales take all rows as one vector.
func rowCodec(c Codec, dim int) (Codec, error) {
	block := dim
	switch own := Block(c); {
	case dim < shortRow:
		block = shortBlock / dim * dim
	case own > 0 && dim%own == 0:
		block = own
	}
	switch c := c.(type) {
	case none, fp16, bf16, *topK, randomK:
		return c, nil
	case int8s:
		return int8s{block: block}, nil
	case oneBit:
		return oneBit{chunk: block}, nil
	case twoBit:
		return twoBit{chunk: block, threshold: c.threshold}, nil
	default:
		return nil, fmt.Errorf("codec %s is not one of Parse: %w", c, ErrMismatch)
	}
}

const (
	shortRow   = 8  // elements; a scale of its own would cost a shorter row too much
	shortBlock = 32 // elements of short rows that share a scale
)

// RowsLen is the most bytes that the frame of n rows takes.
func RowsLen(c Codec, n, dim int) (int, error) {
	if err := checkRows(n, dim); err != nil {
		return 0, err
	}
	rc, err := rowCodec(c, dim)
	if err != nil {
		return 0, err
	}
	h := Header{Shape: []int{n, dim}, Len: maxKeysLen(n) + binary.MaxVarintLen64 + rc.MaxLen(n*dim)}
	return len(h.appendTo(nil)) + h.Len + trailerLen, nil
}

func maxKeysLen(n int) int { return binary.MaxVarintLen64 + 8*n + (n+group-1)/group }

func checkRows(n, dim int) error {
	if dim < 1 {
		return fmt.Errorf("rows of %d elements: %w", dim, ErrMismatch)
	}
	return checkShape([]int{n, dim})
}

// AppendRows appends a frame of rows: keys ascend strictly, and row i, of dim elements, is that of key i; the last one
// may be shorter. Rows are coded each with its own scale, short ones some with one; topk and randomk take a share of
// the elements of all of them.
func AppendRows(dst []byte, c Codec, keys []uint64, rows []float32, dim int, seed uint64) ([]byte, error) {
	return appendRows(dst, c, keys, dim, len(rows), func(rc Codec, dst []byte) ([]byte, error) { return rc.Append(dst, rows, seed) })
}

// appendRows appends a frame whose n elements are coded by code, with the codec of rows.
func appendRows(dst []byte, c Codec, keys []uint64, dim, n int, code func(rc Codec, dst []byte) ([]byte, error)) ([]byte, error) {
	if err := checkRows(len(keys), dim); err != nil {
		return dst, fmt.Errorf("encode rows: %w", err)
	}
	rc, err := rowCodec(c, dim)
	if err != nil {
		return dst, fmt.Errorf("encode rows: %w", err)
	}
	if most := len(keys) * dim; n > most || n <= most-dim && most > 0 {
		return dst, fmt.Errorf("encode rows: %d keys and %d elements, want %d a row: %w", len(keys), n, dim, ErrMismatch)
	}
	for i := 1; i < len(keys); i++ {
		if keys[i] <= keys[i-1] {
			return dst, fmt.Errorf("encode rows: key %d of %d is %d after %d, want them to ascend: %w", i, len(keys), keys[i], keys[i-1], ErrMismatch)
		}
	}
	h := Header{Kind: KindOf(c), Rows: true, Shape: []int{len(keys), dim}}
	if short := len(keys)*dim - n; short > 0 {
		h.Shape = append(h.Shape, dim-short)
	}
	most := maxKeysLen(len(keys)) + binary.MaxVarintLen64 + rc.MaxLen(n)
	return h.append(dst, most, func(dst []byte) ([]byte, error) {
		from := len(dst)
		dst = appendAscending(dst, keys)
		dst = slices.Insert(dst, from, binary.AppendUvarint(nil, uint64(len(dst)-from))...)
		return code(rc, dst)
	})
}

// split is the code of the keys, that of the rows, and the codec of the rows.
func (f Frame) split() (keys, rows []byte, c Codec, err error) {
	if !f.Rows {
		return nil, nil, nil, fmt.Errorf("decode rows: a frame of shape %v without keys: %w", f.Shape, ErrMismatch)
	}
	dim := f.Shape[1]
	if dim == 0 {
		return nil, nil, nil, fmt.Errorf("decode rows: rows without elements: %w", ErrMalformed)
	}
	if c, err = rowCodec(f.Kind.decoder(), dim); err != nil {
		return nil, nil, nil, fmt.Errorf("decode rows: %w: %w", err, ErrMalformed)
	}
	size, used := uvarint(f.Code)
	if used <= 0 || size > uint64(len(f.Code)-used) {
		return nil, nil, nil, fmt.Errorf("decode rows: byte 0 of the code: not the length of the keys: %w", ErrMalformed)
	}
	keys, rows = f.Code[used:][:size], f.Code[used:][size:]
	if want := c.MaxLen(f.Elements()); Block(c) > 0 && len(rows) != want {
		return nil, nil, nil, fmt.Errorf("decode rows: %d bytes of rows for shape %v, want %d: %w", len(rows), f.Shape, want, ErrMalformed)
	}
	return keys, rows, c, nil
}

// Keys appends the keys of a frame of rows to dst. On an error dst is returned as it was.
func (f Frame) Keys(dst []uint64) ([]uint64, error) {
	code, _, _, err := f.split()
	if err != nil {
		return dst, err
	}
	n, at := f.Shape[0], len(dst)
	dst = slices.Grow(dst, n)
	rest, err := eachAscending(code, n, ^uint64(0), func(_ int, key uint64) { dst = append(dst, key) })
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("decode keys: %d bytes too many: %w", len(rest), ErrMalformed)
	}
	if err != nil {
		return dst[:at], err
	}
	return dst, nil
}

func (f Frame) decodeRows(dst []float32, mode Mode) error {
	_, rows, c, err := f.split()
	if err != nil {
		return err
	}
	return c.Decode(dst, rows, mode)
}
