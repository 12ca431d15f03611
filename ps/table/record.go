package table

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// record is one row in place: its bytes, Stride of them.
type record []byte

func (r record) key() uint64       { return binary.LittleEndian.Uint64(r) }
func (r record) step() uint32      { return binary.LittleEndian.Uint32(r[8:]) }
func (r record) sightings() uint16 { return binary.LittleEndian.Uint16(r[12:]) }
func (r record) writer() uint16    { return binary.LittleEndian.Uint16(r[14:]) }

func (r record) setKey(key uint64) { binary.LittleEndian.PutUint64(r, key) }

// stamp writes who wrote last, and counts the sighting, up to 65,535.
func (r record) stamp(st Stamp) {
	binary.LittleEndian.PutUint32(r[8:], st.Step)
	if n := r.sightings(); n < math.MaxUint16 {
		binary.LittleEndian.PutUint16(r[12:], n+1)
	}
	binary.LittleEndian.PutUint16(r[14:], st.Writer)
}

// values are the weights and slots in place. Records begin at multiples of four bytes.
func (r record) values() []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&r[headBytes])), (len(r)-headBytes)/4)
}
