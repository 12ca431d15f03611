package update

import (
	"cmp"
	"slices"

	"hcclps/internal/vec"
	"hcclps/ps/table"
)

// A block of the filter is a cache line of 64 counters.
const (
	blockFloats = 16
	blockShift  = 6
	probes      = 4 // counters of a key
	maxCounter  = 255
)

// bloom admits when all counters of a key have reached a number: a counting Bloom filter (Fan et al., SIGCOMM 1998) in blocks (Putze et al., WEA
// 2007), of whose counters only the lowest are raised (Estan and Varghese, SIGCOMM 2002). Its blocks are rows of a table, so
// that memory is used where keys are, and snapshots treat it as one. A block is in the partition of its keys, however many shards there are.
type bloom struct {
	seen     *table.Table
	least    uint8
	bits     uint // binary logarithm of the counters of all partitions
	hashSeed uint64

	at     []inBlock
	blocks []uint64
	none   []float32
	raise  raising
}

// inBlock is a key of a section and its block.
type inBlock struct {
	block uint64 // its key
	key   int32  // place
	slots uint32 // probes counters, 6 bits each
}

// place finds the counters of a key. The first bits of its hash choose the block, and the hash of the block begins with them.
func (b *bloom) place(key uint64) (block uint64, slots uint32) {
	h := vec.Mix64(key, b.hashSeed)
	choice := b.bits - blockShift
	top := h >> (64 - choice)
	block = vec.Unmix64(top<<(64-choice)|vec.Mix64(top, 1)>>choice, b.hashSeed)
	return block, uint32(vec.Mix64(h, b.hashSeed+1) >> 40)
}

func (b *bloom) sight(keys []uint64, st table.Stamp, admit func(i int)) error {
	b.at, b.blocks = b.at[:0], b.blocks[:0]
	for i, key := range keys {
		block, slots := b.place(key)
		b.at = append(b.at, inBlock{block, int32(i), slots})
	}
	slices.SortFunc(b.at, func(x, y inBlock) int { return cmp.Or(cmp.Compare(x.block, y.block), cmp.Compare(x.key, y.key)) })
	for i := range b.at {
		if i == 0 || b.at[i].block != b.at[i-1].block {
			b.blocks = append(b.blocks, b.at[i].block)
		}
	}
	if len(b.none) == 0 {
		b.none = make([]float32, 64*blockFloats)
	}
	b.raise = raising{least: b.least, keys: b.at, ready: b.raise.ready[:0]}
	for blocks := b.blocks; len(blocks) > 0; {
		now := blocks[:min(64, len(blocks))]
		if err := b.seen.Apply(now, b.none[:len(now)*blockFloats], st, &b.raise); err != nil {
			return err
		}
		blocks = blocks[len(now):]
	}
	slices.Sort(b.raise.ready)
	for _, i := range b.raise.ready {
		admit(int(i))
	}
	return nil
}

func (b *bloom) sightings(key uint64) uint32 {
	block, slots := b.place(key)
	r, ok := b.seen.Row(block)
	if !ok {
		return 0
	}
	counters, least := vec.BytesOfFloats(r.Values), uint8(maxCounter)
	for i := range probes {
		least = min(least, counters[slots>>(blockShift*i)&63])
	}
	return uint32(least)
}

// raising is the updater that counts the keys of a block.
type raising struct {
	least uint8
	keys  []inBlock // of this block and those to come
	ready []int32   // places of keys that have enough
}

// Update implements table.Updater.
func (r *raising) Update(row, _ []float32) {
	counters := vec.BytesOfFloats(row)
	for block := r.keys[0].block; len(r.keys) > 0 && r.keys[0].block == block; r.keys = r.keys[1:] {
		k := r.keys[0]
		if raise(counters, k.slots) >= r.least {
			r.ready = append(r.ready, k.key)
		}
	}
}

// raise counts one more sighting of the key with these counters, and returns how many there may have been.
func raise(counters []byte, slots uint32) uint8 {
	least := uint8(maxCounter)
	for i := range probes {
		least = min(least, counters[slots>>(blockShift*i)&63])
	}
	if least == maxCounter {
		return least
	}
	for i := range probes {
		if c := &counters[slots>>(blockShift*i)&63]; *c == least {
			*c++
		}
	}
	return least + 1
}
