package worker

import (
	"math/bits"
	"slices"

	"hcclps/internal/vec"
)

// uniquer finds the distinct keys of a reading. Its memory serves batch after
// batch.
type uniquer struct {
	slots []int32    // open addressing: a key's number in order of first sight, plus 1; 0: empty
	found []numbered // the distinct keys so far
	spare []numbered // memory of the sort

	place []int32  // of a number, or of one of a reading's keys
	marks []uint64 // a bit for each of a reading's keys
}

// numbered is a key and its number in order of first sight.
type numbered struct {
	key    uint64
	number int32
}

// unite fills in the keys of a reading, and where its uses have them.
func (u *uniquer) unite(r *reading) {
	u.found = u.found[:0]
	u.resize(64 << bits.Len(uint(len(r.keys)/32))) // as many as the last time will do
	for _, o := range r.uses {
		o.index = u.number(o.bags.Keys, o.index[:0])
	}
	u.sort()
	r.keys = r.keys[:0]
	u.place = slices.Grow(u.place[:0], len(u.found))[:len(u.found)]
	for i, f := range u.found {
		r.keys = append(r.keys, f.key)
		u.place[f.number] = int32(i)
	}
	for _, o := range r.uses {
		for j, n := range o.index {
			o.index[j] = u.place[n]
		}
	}
	for _, o := range r.uses {
		u.part(o, len(r.keys))
	}
}

// number appends the number of each key to index.
func (u *uniquer) number(keys []uint64, index []int32) []int32 {
	for _, k := range keys {
		if 2*len(u.found) >= len(u.slots) {
			u.resize(2 * len(u.slots))
		}
		s := u.slot(k)
		if *s == 0 {
			u.found = append(u.found, numbered{k, int32(len(u.found))})
			*s = int32(len(u.found))
		}
		index = append(index, *s-1)
	}
	return index
}

// slot is that of a key, or the empty one where it goes.
func (u *uniquer) slot(k uint64) *int32 {
	mask := uint64(len(u.slots) - 1)
	for i := vec.Mix64(k, 0); ; i++ {
		s := &u.slots[i&mask]
		if *s == 0 || u.found[*s-1].key == k {
			return s
		}
	}
}

// resize gives the table so many slots, a power of two, which is more than it has
// keys.
func (u *uniquer) resize(slots int) {
	u.slots = slices.Grow(u.slots[:0], slots)[:slots]
	clear(u.slots)
	for i, f := range u.found {
		*u.slot(f.key) = int32(i + 1)
	}
}

// sort sorts what was found by key: by one byte after another from the lowest
// on (LSD radix sort), but for those in which all keys agree.
func (u *uniquer) sort() {
	from := u.found
	to := slices.Grow(u.spare[:0], len(from))[:len(from)]
	var differ uint64
	for _, f := range from {
		differ |= f.key ^ from[0].key
	}
	for shift := 0; shift < 64; shift += 8 {
		if byte(differ>>shift) == 0 {
			continue
		}
		var next [256]int32
		for _, f := range from {
			next[byte(f.key>>shift)]++
		}
		at := int32(0)
		for b, n := range next {
			next[b] = at
			at += n
		}
		for _, f := range from {
			b := byte(f.key >> shift)
			to[next[b]] = f
			next[b]++
		}
		from, to = to, from
	}
	u.found, u.spare = from, to
}

// part makes o.index, places among a reading's keys, places among those of them
// that o uses.
func (u *uniquer) part(o *operand, keys int) {
	o.at = o.at[:0]
	if len(o.reading.uses) == 1 {
		for i := range keys {
			o.at = append(o.at, int32(i))
		}
		return
	}
	words := (keys + 63) / 64
	u.marks = slices.Grow(u.marks[:0], words)[:words]
	clear(u.marks)
	for _, at := range o.index {
		u.marks[at/64] |= 1 << (at % 64)
	}
	for w, m := range u.marks {
		for ; m != 0; m &= m - 1 {
			o.at = append(o.at, int32(64*w+bits.TrailingZeros64(m)))
		}
	}
	for i, at := range o.at {
		u.place[at] = int32(i)
	}
	for j, at := range o.index {
		o.index[j] = u.place[at]
	}
}
