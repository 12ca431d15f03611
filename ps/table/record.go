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
	if st.Halving != 0 {
		binary.LittleEndian.PutUint16(r[12:], Halved(r.sightings(), r.step(), st.Step, st.Halving))
	}
	binary.LittleEndian.PutUint32(r[8:], st.Step)
	if n := r.sightings(); n < math.MaxUint16 {
		binary.LittleEndian.PutUint16(r[12:], n+1)
	}
	binary.LittleEndian.PutUint16(r[14:], st.Writer)
}

// Halved is what is left, at step now, of the sightings of a row that was written last at a step, if they are halved at every multiple of
// halving. A row stamped with Stamp.Halving was brought up to its last step so.
func Halved(sightings uint16, step, now, halving uint32) uint16 {
	if now <= step {
		return sightings
	}
	return sightings >> min(16, now/halving-step/halving)
}

// values are the weights and slots in place. Records begin at multiples of four bytes.
func (r record) values() []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&r[headBytes])), (len(r)-headBytes)/4)
}
