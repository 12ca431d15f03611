package wire

import (
	"encoding/binary"
	"slices"

	"hcclps/internal/vec"
)

// A body is a run of sections, one a table in ascending table id:
//
//	u32 table | u32 rows | u32 dim (0: keys only) | u8 codec (0: raw) | 3 x 0
//	rows x u64 key, strictly ascending
//	rows x dim x f32 value, row by row
//	zeros to a multiple of 8 bytes
//
// With codec 1 the keys and values are in a frame of rows of package compress,
// and what follows the head is
//
//	u64 bytes of the frame
//	the frame
//	zeros to a multiple of 8 bytes
const (
	sectionHead = 16
	framed      = 1 // the codec of a frame
)

// Section is the part of one table in a body. Keys, Values and Code alias the
// message when it lies 8-byte aligned in memory.
type Section struct {
	Table  uint32
	Dim    int // 0: keys only
	Keys   []uint64
	Values []float32 // [len(Keys), Dim]
	Code   []byte    // instead of keys and values: a frame of so many
	Rows   int       // rows, with their keys; see ps/update.Decode
}

// CodedSize is the number of bytes AppendSection writes of a section with a code
// of n bytes.
func CodedSize(n int) int { return (sectionHead + 8 + n + 7) &^ 7 }

// SectionSize is the number of bytes AppendSection writes.
func SectionSize(rows, dim int) int { return sectionHead + PlainSize(rows, dim) }

// PlainSize is the bytes of keys and values: of a section behind its head, or of
// what a code decodes to, which a Push announces.
func PlainSize(rows, dim int) int { return (8*rows + 4*rows*dim + 7) &^ 7 }

// AppendSection writes one section. dst must hold whole sections only.
func AppendSection(dst []byte, s Section) []byte {
	if s.Code != nil {
		return appendCoded(dst, s)
	}
	dst = binary.LittleEndian.AppendUint32(dst, s.Table)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(s.Keys)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(s.Dim))
	dst = append(dst, 0, 0, 0, 0)
	dst = append(dst, vec.BytesOfUint64s(s.Keys)...)
	dst = append(dst, vec.BytesOfFloats(s.Values)...)
	for len(dst)%8 != 0 {
		dst = append(dst, 0)
	}
	return dst
}

func appendCoded(dst []byte, s Section) []byte {
	dst = append(AppendCodedHead(dst, s), s.Code...)
	for len(dst)%8 != 0 {
		dst = append(dst, 0)
	}
	return dst
}

// AppendCodedHead is the beginning of what AppendSection writes of a section with
// a code, up to where the code follows.
func AppendCodedHead(dst []byte, s Section) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, s.Table)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(s.Rows))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(s.Dim))
	dst = append(dst, framed, 0, 0, 0)
	return binary.LittleEndian.AppendUint64(dst, uint64(len(s.Code)))
}

// AppendPicked is AppendSection of the rows of s at the given positions only,
// each row copied once. at ascends strictly.
func AppendPicked(dst []byte, s Section, at []int32) []byte {
	dst = AppendPickedKeys(slices.Grow(dst, SectionSize(len(at), s.Dim)), s, at)
	for _, pos := range at {
		dst = append(dst, vec.BytesOfFloats(s.Values[int(pos)*s.Dim:][:s.Dim])...)
	}
	for len(dst)%8 != 0 {
		dst = append(dst, 0)
	}
	return dst
}

// AppendPickedKeys is the beginning of what AppendPicked writes, up to where the
// values follow. It does not read them.
func AppendPickedKeys(dst []byte, s Section, at []int32) []byte {
	dst = slices.Grow(dst, sectionHead+8*len(at))
	dst = binary.LittleEndian.AppendUint32(dst, s.Table)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(at)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(s.Dim))
	dst = append(dst, 0, 0, 0, 0)
	for _, pos := range at {
		dst = binary.LittleEndian.AppendUint64(dst, s.Keys[pos])
	}
	return dst
}

// DecodeSections reads a body, checking every length and order.
func DecodeSections(b []byte) ([]Section, error) {
	c := coder{buf: b, read: true}
	var out []Section
	for c.off < len(b) && c.err == nil {
		if s, ok := decodeSection(&c); ok {
			if n := len(out); n > 0 && out[n-1].Table >= s.Table {
				c.fail("table %d after table %d", s.Table, out[n-1].Table)
			}
			out = append(out, s)
		}
	}
	return out, c.end()
}

func decodeSection(c *coder) (Section, bool) {
	var s Section
	var rows, dim, codec uint32
	c.u32(&s.Table)
	c.u32(&rows)
	c.u32(&dim)
	c.u32(&codec)
	if codec == framed {
		return decodeCoded(c, s.Table, rows, dim)
	}
	if codec != 0 {
		c.fail("codec %#x is unknown to this version", codec)
	}
	if uint64(rows)*(8+4*uint64(dim)) > uint64(len(c.buf)) {
		c.fail("%d rows of %d values do not fit in %d bytes", rows, dim, len(c.buf))
	}
	s.Dim = int(dim)
	s.Keys = vec.Uint64s(c.take(8 * int(rows)))
	s.Values = vec.Floats(c.take(4 * int(rows) * s.Dim))
	c.pad()
	for i := 1; i < len(s.Keys); i++ {
		if s.Keys[i] <= s.Keys[i-1] {
			c.fail("table %d: key %d after key %d", s.Table, s.Keys[i], s.Keys[i-1])
			break
		}
	}
	return s, c.err == nil
}

// decodeCoded reads what follows the head of a coded section. Its frame is not looked at.
func decodeCoded(c *coder, table, rows, dim uint32) (Section, bool) {
	var n uint64
	c.u64(&n)
	if n > uint64(len(c.buf)) {
		c.fail("table %d: a code of %d bytes does not fit in %d bytes", table, n, len(c.buf))
		return Section{}, false
	}
	s := Section{Table: table, Dim: int(dim), Rows: int(rows), Code: c.take(int(n))}
	c.pad()
	return s, c.err == nil
}
