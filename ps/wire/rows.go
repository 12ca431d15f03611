package wire

import (
	"hcclps/internal/vec"
)

// Row is a row as Scan answers it.
type Row struct {
	Key       uint64
	Step      uint32 // last step that touched it, +1
	Sightings uint16
	Writer    uint16
	Values    []float32 // weights, then optimizer slots
}

func (r *Row) fields(c *coder) {
	c.u64(&r.Key)
	c.u32(&r.Step)
	meta := uint32(r.Sightings) | uint32(r.Writer)<<16
	c.u32(&meta)
	r.Sightings, r.Writer = uint16(meta), uint16(meta>>16)
	b := vec.BytesOfFloats(r.Values)
	c.bytes(&b)
	if c.read {
		r.Values = append([]float32(nil), vec.Floats(b)...)
	}
}

// AppendRow adds a row to the body of an answer to Scan.
func AppendRow(dst []byte, r Row) []byte {
	c := coder{buf: dst}
	r.fields(&c)
	return c.buf
}

// DecodeRows reads such a body; the rows do not alias it.
func DecodeRows(b []byte) ([]Row, error) {
	c := coder{buf: b, read: true}
	var rows []Row
	for c.off < len(b) && c.err == nil {
		var r Row
		r.fields(&c)
		rows = append(rows, r)
	}
	return rows, c.end()
}
