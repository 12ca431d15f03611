package worker

import (
	"math/bits"
	"slices"

	"hcclps/internal/vec"
)

// uniquer finds the distinct keys of a batch with a small open-addressing
// table that is reused from batch to batch.
type uniquer struct {
	slots []int32 // position in keys + 1; 0: empty
}

// find appends the distinct keys of in, ascending, to keys, and for each of in
// its position in keys to index.
func (u *uniquer) find(in, keys []uint64, index []int32) ([]uint64, []int32) {
	size := 1 << bits.Len(uint(2*len(in)))
	if len(u.slots) < size {
		u.slots = make([]int32, size)
	}
	slots := u.slots[:size]
	clear(slots)
	mask := uint64(size - 1)
	at := func(k uint64) *int32 {
		for i := vec.Mix64(k, 0); ; i++ {
			s := &slots[i&mask]
			if *s == 0 || keys[*s-1] == k {
				return s
			}
		}
	}
	for _, k := range in {
		if s := at(k); *s == 0 {
			keys = append(keys, k)
			*s = int32(len(keys))
		}
	}
	slices.Sort(keys)
	clear(slots)
	for i, k := range keys {
		j := vec.Mix64(k, 0)
		for slots[j&mask] != 0 {
			j++
		}
		slots[j&mask] = int32(i + 1)
	}
	for _, k := range in {
		index = append(index, *at(k)-1)
	}
	return keys, index
}
