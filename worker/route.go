package worker

import (
	"hcclps/ps/layout"
)

// cut deals ascending keys out to shards and parts: positions[shard][part]
// lists indexes into keys, still ascending by key. Its memory is reused.
type cut struct {
	shards, parts int
	home          []int32   // [partition]: shard x parts + part
	positions     [][]int32 // [shard x parts + part]
}

func (c *cut) deal(l layout.Layout, parts int, keys []uint64) {
	if shards := len(l.Shards); shards != c.shards || parts != c.parts {
		c.arrange(shards, parts)
	}
	for i := range c.positions {
		c.positions[i] = c.positions[i][:0]
	}
	for i, k := range keys {
		at := c.home[layout.Partition(k, l.HashSeed)]
		c.positions[at] = append(c.positions[at], int32(i))
	}
}

// arrange finds the home of every partition, once for all keys to come.
func (c *cut) arrange(shards, parts int) {
	c.shards, c.parts = shards, parts
	c.home, c.positions = make([]int32, layout.Partitions), make([][]int32, shards*parts)
	for p := range c.home {
		c.home[p] = int32(int(layout.ShardOf(p, shards))*parts + layout.PartOf(p, shards, parts))
	}
}

func (c *cut) of(shard, part int) []int32 { return c.positions[shard*c.parts+part] }
