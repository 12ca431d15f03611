package compress

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// rowCodec is a codec for rows of a table: scales are of a row, or of some if rows are short.
func rowCodec(c Codec, dim int) (Codec, error) {
	block := dim
	if dim < shortRow {
		block = shortBlock / dim * dim
	}
	switch c := c.(type) {
	case none, fp16, bf16:
		return c, nil
	case int8s:
		return int8s{block: block}, nil
	case oneBit:
		return oneBit{chunk: block}, nil
	case twoBit:
		return twoBit{chunk: block, threshold: c.threshold}, nil
	default:
		return nil, fmt.Errorf("codec %s is not one for rows: want none, fp16, bf16, int8, onebit or twobit: %w", c, ErrMismatch)
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

// AppendRows appends a frame of rows: keys ascend strictly, and row i, of dim elements, is that of key i. Rows are coded each with its own scale, short ones some with one; topk and randomk
// are not for rows.
func AppendRows(dst []byte, c Codec, keys []uint64, rows []float32, dim int) ([]byte, error) {
	return appendRows(dst, c, keys, rows, dim, Codec.Append)
}

// appendRows appends a frame whose rows are coded by a method of the codec.
func appendRows(dst []byte, c Codec, keys []uint64, rows []float32, dim int, code func(Codec, []byte, []float32, uint64) ([]byte, error)) ([]byte, error) {
	if err := checkRows(len(keys), dim); err != nil {
		return dst, fmt.Errorf("encode rows: %w", err)
	}
	rc, err := rowCodec(c, dim)
	if err != nil {
		return dst, fmt.Errorf("encode rows: %w", err)
	}
	if len(rows) != len(keys)*dim {
		return dst, fmt.Errorf("encode rows: %d keys and %d elements, want %d a row: %w", len(keys), len(rows), dim, ErrMismatch)
	}
	for i := 1; i < len(keys); i++ {
		if keys[i] <= keys[i-1] {
			return dst, fmt.Errorf("encode rows: key %d of %d is %d after %d, want them to ascend: %w", i, len(keys), keys[i], keys[i-1], ErrMismatch)
		}
	}
	h := Header{Kind: KindOf(c), Rows: true, Shape: []int{len(keys), dim}}
	most := maxKeysLen(len(keys)) + binary.MaxVarintLen64 + rc.MaxLen(len(rows))
	return h.append(dst, most, func(dst []byte) ([]byte, error) {
		from := len(dst)
		dst = appendAscending(dst, keys)
		dst = slices.Insert(dst, from, binary.AppendUvarint(nil, uint64(len(dst)-from))...)
		return code(rc, dst, rows, 0)
	})
}

// split is the code of the keys, that of the rows, and the codec of the rows.
func (f Frame) split() (keys, rows []byte, c Codec, err error) {
	if !f.Rows {
		return nil, nil, nil, fmt.Errorf("decode rows: a frame of shape %v without keys: %w", f.Shape, ErrMismatch)
	}
	n, dim := f.Shape[0], f.Shape[1]
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
	if want := c.MaxLen(n * dim); len(rows) != want {
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
