package metric

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// What a worker has counted travels as
//
//	kind     1 byte: 1 Binary, 2 Regression, 3 Grouped
//	version  1 byte: 1
//	body     little endian
//
// Binary: number of scores with label 1 and with label 0, 8 bytes each; the
// scores, float32. Regression: number of rows, 8 bytes; two exact sums (squares,
// sizes), each the number of parts, 8 bytes, the special value and the parts,
// float64. Grouped: number of rows, 8 bytes; of each the group, 8 bytes, score
// and label, float32.
const (
	kindBinary     = 1
	kindRegression = 2
	kindGrouped    = 3
	wireVersion    = 1
)

var errShort = errors.New("its length does not fit its counts")

// body checks the head of an encoded metric.
func body(b []byte, kind byte) ([]byte, error) {
	switch {
	case len(b) < 2:
		return nil, errShort
	case b[0] != kind:
		return nil, fmt.Errorf("it is of kind %d, not %d", b[0], kind)
	case b[1] != wireVersion:
		return nil, fmt.Errorf("it has version %d; this program knows %d", b[1], wireVersion)
	}
	return b[2:], nil
}

// count takes the number of items of size bytes off b.
func count(b []byte, size int) (int, []byte, error) {
	if len(b) < 8 {
		return 0, nil, errShort
	}
	n := binary.LittleEndian.Uint64(b)
	if n > uint64(len(b)-8)/uint64(size) {
		return 0, nil, errShort
	}
	return int(n), b[8:], nil
}

// Append appends the encoded form of b to dst.
func (b *Binary) Append(dst []byte) []byte {
	dst = append(dst, kindBinary, wireVersion)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(b.pos)))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(b.neg)))
	for _, scores := range [][]float32{b.pos, b.neg} {
		for _, s := range scores {
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(s))
		}
	}
	return dst
}

// DecodeBinary reads what Append wrote.
func DecodeBinary(data []byte) (*Binary, error) {
	rest, err := body(data, kindBinary)
	var pos, neg int
	if err == nil {
		pos, rest, err = count(rest, 4)
	}
	if err == nil {
		neg, rest, err = count(rest, 4)
	}
	if err == nil && uint64(len(rest)) != 4*(uint64(pos)+uint64(neg)) {
		err = errShort
	}
	if err != nil {
		return nil, fmt.Errorf("decode binary metric: %w", err)
	}
	return &Binary{pos: floats(rest[:4*pos]), neg: floats(rest[4*pos:])}, nil
}

func floats(b []byte) []float32 {
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

// Append appends the encoded form of r to dst.
func (r *Regression) Append(dst []byte) []byte {
	dst = append(dst, kindRegression, wireVersion)
	dst = binary.LittleEndian.AppendUint64(dst, r.rows)
	return r.sizes.append(r.squares.append(dst))
}

func (s *exactSum) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(s.parts)))
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(s.special))
	for _, p := range s.parts {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(p))
	}
	return dst
}

// DecodeRegression reads what Append wrote.
func DecodeRegression(data []byte) (*Regression, error) {
	r := &Regression{}
	rest, err := body(data, kindRegression)
	if err == nil && len(rest) < 8 {
		err = errShort
	}
	if err == nil {
		r.rows = binary.LittleEndian.Uint64(rest)
		rest, err = r.squares.decode(rest[8:])
	}
	if err == nil {
		rest, err = r.sizes.decode(rest)
	}
	if err == nil && len(rest) > 0 {
		err = errShort
	}
	if err != nil {
		return nil, fmt.Errorf("decode regression metric: %w", err)
	}
	return r, nil
}

// decode adds the parts one by one: whatever they are, the sum is well formed.
func (s *exactSum) decode(b []byte) ([]byte, error) {
	n, b, err := count(b, 8)
	if err != nil || len(b) < 8*(n+1) {
		return nil, errShort
	}
	s.special = math.Float64frombits(binary.LittleEndian.Uint64(b))
	if s.special-s.special == 0 && s.special != 0 {
		return nil, fmt.Errorf("special value %v is finite", s.special)
	}
	for i := range n {
		p := math.Float64frombits(binary.LittleEndian.Uint64(b[8*(i+1):]))
		if p-p != 0 || math.Abs(p) > maxPart {
			return nil, fmt.Errorf("part %v of a sum of float32 errors", p)
		}
		s.add(p)
	}
	return b[8*(n+1):], nil
}

// maxPart is above any sum of 2^63 squares of differences of float32.
const maxPart = 0x1p330

// Append appends the encoded form of g to dst.
func (g *Grouped) Append(dst []byte) []byte {
	dst = append(dst, kindGrouped, wireVersion)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(g.rows)))
	for _, r := range g.rows {
		dst = binary.LittleEndian.AppendUint64(dst, r.group)
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(r.score))
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(r.label))
	}
	return dst
}

// DecodeGrouped reads what Append wrote.
func DecodeGrouped(data []byte) (*Grouped, error) {
	rest, err := body(data, kindGrouped)
	var n int
	if err == nil {
		n, rest, err = count(rest, 16)
	}
	if err == nil && len(rest) != 16*n {
		err = errShort
	}
	if err != nil {
		return nil, fmt.Errorf("decode grouped metric: %w", err)
	}
	g := &Grouped{rows: make([]groupedRow, n)}
	for i := range g.rows {
		b := rest[16*i:]
		g.rows[i] = groupedRow{
			group: binary.LittleEndian.Uint64(b),
			score: math.Float32frombits(binary.LittleEndian.Uint32(b[8:])),
			label: math.Float32frombits(binary.LittleEndian.Uint32(b[12:])),
		}
	}
	return g, nil
}
