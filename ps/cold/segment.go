package cold

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
)

// A segment is what one value of the database holds: units that were written together. All numbers are little endian.
//
//	offset  bytes
//	0       4      number of units n
//	4       4      length of a unit in bytes
//	8              of each unit, ascending by number: its number, its CRC-32C (over the segment's key, the number, and the unit), and its bytes
const (
	headBytes    = 8
	entryBytes   = 8
	segmentBytes = 64 << 10 // about, of units
	maxUnits     = 1 << 14
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// perSegment is how many units of a length a segment takes.
func perSegment(size int) int { return max(1, min(segmentBytes/max(size, 1), maxUnits)) }

// appendSegment writes a segment. data are the units of ids.
func appendSegment(dst, key []byte, ids []uint32, data []byte) []byte {
	size := len(data) / len(ids)
	dst = le.AppendUint32(dst, uint32(len(ids)))
	dst = le.AppendUint32(dst, uint32(size))
	for i, id := range ids {
		unit := data[i*size:][:size]
		dst = le.AppendUint32(dst, id)
		dst = le.AppendUint32(dst, checksum(key, id, unit))
		dst = append(dst, unit...)
	}
	return dst
}

// entryAt is where the i-th unit of a segment begins, with its number.
func entryAt(i, size int) int { return headBytes + i*(entryBytes+size) }

func checksum(key []byte, id uint32, unit []byte) uint32 {
	var b [4]byte
	le.PutUint32(b[:], id)
	return crc32.Update(crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, b[:]), castagnoli, unit)
}

// segment is a value, its lengths checked.
type segment struct {
	key, value []byte
	n, size    int
}

func decodeSegment(key, value []byte) (segment, error) {
	if len(value) < headBytes {
		return segment{}, fmt.Errorf("%d bytes", len(value))
	}
	s := segment{key: key, value: value, n: int(le.Uint32(value)), size: int(le.Uint32(value[4:]))}
	if s.n < 1 || s.n > maxUnits || len(value) != headBytes+s.n*(entryBytes+s.size) {
		return segment{}, fmt.Errorf("%d bytes for %d units of %d", len(value), s.n, s.size)
	}
	return s, nil
}

// id is the number of its i-th unit.
func (s segment) id(i int) uint32 { return le.Uint32(s.value[entryAt(i, s.size):]) }

// unit is its i-th unit, checked. It lies in the value.
func (s segment) unit(i int) ([]byte, error) {
	entry := s.value[entryAt(i, s.size):][:entryBytes+s.size]
	unit := entry[entryBytes:]
	have, want := checksum(s.key, s.id(i), unit), le.Uint32(entry[4:])
	if have != want {
		return nil, fmt.Errorf("unit %d: checksum %08x, want %08x", s.id(i), have, want)
	}
	return unit, nil
}

// sound says that all its units are as they were written.
func (s segment) sound() bool {
	for i := range s.n {
		if _, err := s.unit(i); err != nil {
			return false
		}
	}
	return true
}

// find copies a unit of the length of to.
func (s segment) find(id uint32, to []byte) error {
	lo, hi := 0, s.n
	for lo < hi {
		if mid := (lo + hi) / 2; s.id(mid) < id {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == s.n || s.id(lo) != id {
		return fmt.Errorf("unit %d is not in its segment", id)
	}
	if s.size != len(to) {
		return fmt.Errorf("unit %d has %d bytes, want %d", id, s.size, len(to))
	}
	unit, err := s.unit(lo)
	copy(to, unit)
	return err
}

// places says which segment each unit is in, and how much of each segment is.
type places struct {
	where    []uint32             // by unit: its segment, 0 if it has none
	index    []uint16             // by unit: how many are before it there
	segments map[uint32]occupancy // by number, from 1
	size     int                  // bytes of a unit
	last     uint32               // number that was given out
	dead     []uint32             // without a unit, to be deleted
	sparse   []uint32             // with few
}

// occupancy is the units of a segment: written, and still there; and where they were seen.
type occupancy struct {
	units, live uint16
	spot        spot
}

const (
	placeBytes   = 6  // of memory a unit
	segmentPlace = 48 // and a segment, about
	sparseBelow  = 4  // a segment is sparse below that part of its units
)

// put moves a unit to a segment, behind so many others.
func (p *places) put(id, to uint32, index int) {
	if int(id) >= len(p.where) {
		p.where = slices.Grow(p.where, int(id)+1-len(p.where))[:id+1]
		p.index = slices.Grow(p.index, int(id)+1-len(p.index))[:id+1]
	}
	from := p.where[id]
	p.where[id], p.index[id] = to, uint16(index)
	if from == 0 {
		return
	}
	o := p.segments[from]
	o.live--
	if o.live == 0 {
		delete(p.segments, from)
		p.dead = append(p.dead, from)
		return
	}
	if o.live == o.units/sparseBelow {
		p.sparse = append(p.sparse, from)
	}
	p.segments[from] = o
}

// of is the segment of a unit, 0 if it has none.
func (p *places) of(id uint32) uint32 {
	if int(id) >= len(p.where) {
		return 0
	}
	return p.where[id]
}

// seen is where a unit of so many bytes is, or nowhere.
func (p *places) seen(id uint32, size int) spot {
	to := p.segments[p.of(id)].spot
	if to.file != 0 {
		to.at += uint32(entryAt(int(p.index[id]), size))
	}
	return to
}

// span is where a segment is, and its length.
func (p *places) span(segment uint32) (spot, int) {
	o := p.segments[segment]
	return o.spot, entryAt(int(o.units), p.size)
}

// see notes where a segment is.
func (p *places) see(segment uint32, at spot) {
	if o, ok := p.segments[segment]; ok {
		o.spot = at
		p.segments[segment] = o
	}
}

// bytes is the memory of all.
func (p *places) bytes() int64 {
	return int64(cap(p.where))*placeBytes + int64(len(p.segments))*segmentPlace
}

// sortUnits brings units into ascending order.
func sortUnits(ids, from []uint32, data []byte) {
	if slices.IsSorted(ids) {
		return
	}
	size := len(data) / len(ids)
	order := make([]int, len(ids))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(int64(ids[a]) - int64(ids[b])) })
	oldIDs, oldFrom, oldData := slices.Clone(ids), slices.Clone(from), slices.Clone(data)
	for i, o := range order {
		ids[i], from[i] = oldIDs[o], oldFrom[o]
		copy(data[i*size:][:size], oldData[o*size:][:size])
	}
}
