package compress

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"hcclps/internal/vec"
)

// A frame is, little endian:
//
//	3   magic "hcf"
//	1   version, 1
//	1   kind of the codec
//	1   number of dimensions, 0 to 8; with bit 7 a frame of rows
//	    each dimension, a varint
//	    length of the code, a varint
//	    the code
//	4   CRC-32C of all before
//
// Varints are as short as they can be. The shape of a frame of rows is [rows, dimension], or [rows, dimension, elements
// of the last row] if that is shorter; its code is the length of the code of the keys, a varint, the keys as ascending
// numbers, and the code of the rows.
const (
	magic      = "hcf"
	version    = 1
	maxDims    = 8
	rowsBit    = 0x80
	trailerLen = 4
	// maxElements bounds a shape, so that lengths stay in range.
	maxElements = 1 << 40
)

// Header says what a frame holds.
type Header struct {
	Kind  Kind
	Rows  bool  // rows of a table, with their keys
	Shape []int // no dimensions is one element
	Len   int   // bytes of the code
}

// Elements is the number of elements of the shape.
func (h Header) Elements() int {
	if h.Rows && len(h.Shape) == 3 {
		return (h.Shape[0]-1)*h.Shape[1] + h.Shape[2]
	}
	return elements(h.Shape)
}

func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// checkShape wants a shape whose number of elements is in range.
func checkShape(shape []int) error {
	if len(shape) > maxDims {
		return fmt.Errorf("shape %v has more than %d dimensions: %w", shape, maxDims, ErrMismatch)
	}
	n := 1
	for _, d := range shape {
		if d < 0 || d > maxElements || d > 0 && n > maxElements/d {
			return fmt.Errorf("shape %v has more than %d elements: %w", shape, maxElements, ErrMismatch)
		}
		n *= max(d, 1) // a zero must not hide what follows it
	}
	return nil
}

// appendTo appends the header as a frame begins.
func (h Header) appendTo(dst []byte) []byte {
	dst = append(dst, magic...)
	dims := byte(len(h.Shape))
	if h.Rows {
		dims |= rowsBit
	}
	dst = append(dst, version, byte(h.Kind), dims)
	for _, d := range h.Shape {
		dst = binary.AppendUvarint(dst, uint64(d))
	}
	return binary.AppendUvarint(dst, uint64(h.Len))
}

// seal appends the checksum of what dst has from an offset on.
func seal(dst []byte, from int) []byte {
	return binary.LittleEndian.AppendUint32(dst, vec.CRC32C(0, dst[from:]))
}

// MaxFrame is the most bytes that a frame of a shape takes.
func MaxFrame(c Codec, shape ...int) int {
	h := Header{Shape: shape, Len: c.MaxLen(elements(shape))}
	return len(h.appendTo(nil)) + h.Len + trailerLen
}

// AppendFrame appends a frame with the code of x, which has the elements of the shape. Codecs are those of Parse.
func AppendFrame(dst []byte, c Codec, shape []int, x []float32, seed uint64) ([]byte, error) {
	return appendFrame(dst, c, shape, len(x), func(dst []byte) ([]byte, error) { return c.Append(dst, x, seed) })
}

// appendFrame appends a frame whose code is what code appends.
func appendFrame(dst []byte, c Codec, shape []int, n int, code func([]byte) ([]byte, error)) ([]byte, error) {
	h := Header{Kind: KindOf(c), Shape: shape}
	if err := h.fits(c, n); err != nil {
		return dst, fmt.Errorf("encode frame: %w", err)
	}
	return h.append(dst, c.MaxLen(n), code)
}

// fits wants a known codec and a shape of n elements.
func (h Header) fits(c Codec, n int) error {
	if h.Kind == 0 {
		return fmt.Errorf("codec %s is not one of Parse: %w", c, ErrMismatch)
	}
	if err := checkShape(h.Shape); err != nil {
		return err
	}
	if got := h.Elements(); got != n {
		return fmt.Errorf("shape %v has %d elements, the vector %d: %w", h.Shape, got, n, ErrMismatch)
	}
	return nil
}

// append appends a frame whose code, of at most so many bytes, is what code appends.
func (h Header) append(dst []byte, most int, code func([]byte) ([]byte, error)) ([]byte, error) {
	from := len(dst)
	h.Len = most
	head := len(h.appendTo(nil))
	dst = slices.Grow(dst, head+most+trailerLen)
	dst = h.appendTo(dst)
	at := len(dst)
	dst, err := code(dst)
	if err != nil {
		return dst[:from], err
	}
	if n := len(dst) - at; n != most { // a shorter length may be a shorter varint
		h.Len = n
		moved := h.appendTo(dst[:from])
		dst = append(moved, dst[at:at+n]...)
	}
	return seal(dst, from), nil
}

// Frame is a frame that was opened. Its code lies where the frame does.
type Frame struct {
	Header
	Code []byte
}

// Open checks the frame that b begins with and returns also what follows it. The error is ErrMalformed and says where. A shape is allocated, nothing else.
func Open(b []byte) (f Frame, rest []byte, err error) {
	h, at, err := parseHeader(b)
	if err == nil && at == 0 {
		err = fmt.Errorf("%d bytes end in the header: %w", len(b), ErrMalformed)
	}
	if err != nil {
		return Frame{}, nil, fmt.Errorf("open frame: %w", err)
	}
	end := at + h.Len
	if len(b)-at-trailerLen < h.Len {
		return Frame{}, nil, fmt.Errorf("open frame: %d bytes, want %d and those of the header, %d, and the checksum: %w", len(b), h.Len, at, ErrMalformed)
	}
	if got, want := vec.CRC32C(0, b[:end]), binary.LittleEndian.Uint32(b[end:]); got != want {
		return Frame{}, nil, fmt.Errorf("open frame: checksum of %d bytes is %#x, the frame says %#x: %w", end, got, want, ErrMalformed)
	}
	return Frame{h, b[at:end:end]}, b[end+trailerLen:], nil
}

// parseHeader returns the header and where the code begins, or 0 if b ends before.
func parseHeader(b []byte) (h Header, at int, err error) {
	if n := min(len(b), len(magic)); string(b[:n]) != magic[:n] {
		return h, 0, fmt.Errorf("bytes 0 to 2 are %q, want %q: %w", b[:n], magic, ErrMalformed)
	}
	if len(b) > 3 && b[3] != version {
		return h, 0, fmt.Errorf("byte 3: version %d, this program knows %d: %w", b[3], version, ErrMalformed)
	}
	if len(b) < 6 {
		return h, 0, nil
	}
	h.Kind, h.Rows = Kind(b[4]), b[5]&rowsBit != 0
	dims := int(b[5] &^ rowsBit)
	if h.Kind < None || h.Kind > RandomK {
		return h, 0, fmt.Errorf("byte 4: codec %d is unknown: %w", b[4], ErrMalformed)
	}
	if dims > maxDims || h.Rows && dims != 2 && dims != 3 {
		return h, 0, fmt.Errorf("byte 5: %d dimensions: %w", dims, ErrMalformed)
	}
	at = 6
	h.Shape = make([]int, dims)
	for i := range dims + 1 {
		v, used := uvarint(b[at:])
		if used == 0 && len(b)-at < binary.MaxVarintLen64 {
			return h, 0, nil
		}
		if used <= 0 || v > math.MaxInt>>1 {
			return h, 0, fmt.Errorf("byte %d: not a length: %w", at, ErrMalformed)
		}
		at += used
		if i < dims {
			h.Shape[i] = int(v)
		} else {
			h.Len = int(v)
		}
	}
	return h, at, h.plausible()
}

// plausible wants a length that the kind can have for the shape.
func (h Header) plausible() error {
	if checkShape(h.Shape) != nil || h.Rows && len(h.Shape) == 3 && (h.Shape[0] < 1 || h.Shape[2] < 1 || h.Shape[2] >= h.Shape[1]) {
		return fmt.Errorf("shape %v: %w", h.Shape, ErrMalformed)
	}
	c, n := h.Kind.decoder(), h.Elements()
	wrong := false
	switch {
	case h.Rows:
		// The parts say.
	case Block(c) > 0:
		wrong = h.Len != c.MaxLen(n)
	default: // a share may be all
		wrong = h.Len > build(h.Kind.String(), 1).MaxLen(n)
	}
	if wrong {
		return fmt.Errorf("%d bytes of %s for shape %v: %w", h.Len, h.Kind, h.Shape, ErrMalformed)
	}
	return nil
}

// Decode decodes the elements into dst, or adds them to it. dst has as many as the shape, else the error is
// ErrMismatch; it is ErrMalformed for a code that no encoder has made.
func (f Frame) Decode(dst []float32, mode Mode) error {
	if n := f.Elements(); n != len(dst) {
		return fmt.Errorf("decode frame: shape %v has %d elements, the destination %d: %w", f.Shape, n, len(dst), ErrMismatch)
	}
	if f.Rows {
		return f.decodeRows(dst, mode)
	}
	return f.Kind.decoder().Decode(dst, f.Code, mode)
}
