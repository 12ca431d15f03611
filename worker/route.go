package worker

import (
	"hcclps/ps/layout"
)

// cut deals ascending keys out to shards and parts: positions[shard][part]
// lists indexes into keys, still ascending by key. Its memory is reused.
type cut struct {
	parts     int
	positions [][]int32 // [shard x parts + part]
}

func (c *cut) deal(l layout.Layout, parts int, keys []uint64) {
	c.parts = parts
	if n := len(l.Shards) * parts; len(c.positions) != n {
		c.positions = make([][]int32, n)
	}
	for i := range c.positions {
		c.positions[i] = c.positions[i][:0]
	}
	for i, k := range keys {
		p := l.Partition(k)
		at := int(layout.ShardOf(p, len(l.Shards)))*parts + layout.PartOf(p, len(l.Shards), parts)
		c.positions[at] = append(c.positions[at], int32(i))
	}
}

func (c *cut) of(shard, part int) []int32 { return c.positions[shard*c.parts+part] }
