package shard

import (
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"hcclps/ps/cold"
	"hcclps/ps/table"
	"hcclps/ps/wire"
)

// TestReplicasDifferInWhatIsCold: one replica has memory for a part of the rows, the others for all: all are the same after pushes, a snapshot, and
// a restart of that replica from a snapshot that is larger than its memory.
func TestReplicasDifferInWhatIsCold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, ids...)
		stores := map[string]*cold.Store{}
		c.change = func(id string, cfg *Config) {
			bytes := int64(1 << 30)
			if id == "b" {
				bytes = 6 << 20
			}
			cfg.Memory = table.NewMemory(bytes)
			store, err := cold.Open(cold.Config{Dir: filepath.Join(c.dirs[id], "cold"), Memory: cfg.Memory})
			c.must(err)
			cfg.Cold = store.Table
			stores[id] = store
		}
		closeStore := func(id string) { c.must(stores[id].Close()) }
		c.startAll()
		p := wire.JobParams{World: 1, Sync: wire.BSP, Parts: 1}
		c.open(p)
		const id, dim = 2, 32
		c.table(2, testTable(id, dim))
		step := uint64(0)
		push := func(from, n uint64) {
			k := make([]uint64, 0, n)
			for i := range n {
				k = append(k, from+i*3)
			}
			c.ok(&wire.Pull{Target: target(0), Step: step, Own: step}, wire.AppendSection(nil, wire.Section{Table: id, Keys: k}))
			body := wire.AppendSection(nil, wire.Section{Table: id, Dim: dim, Keys: k, Values: slices.Repeat([]float32{1, 2}, dim/2*int(n))})
			c.ok(&wire.Push{Target: target(0), Step: step, Parts: 1, Rows: 1}, body)
			step++
		}
		for i := range uint64(16) {
			push(i*9000, 3000)
			push(i%7*5000, 500)
		}
		c.same()
		check := func(when string) {
			for id, n := range c.nodes {
				rows, misses := n.group.Cold()
				if id == "b" && rows < 10_000 || id != "b" && rows != 0 {
					t.Errorf("%s: %d rows of replica %s are cold, %d misses", when, rows, id, misses)
				}
			}
		}
		check("trained")
		c.must(c.nodes["b"].group.Snapshot(t.Context()))
		push(0, 3000)
		c.stop("b", true)
		closeStore("b")
		push(4000, 3000)
		c.start("b")
		push(8000, 3000)
		c.same()
		check("started again")
		c.stopAll()
		for id := range stores {
			closeStore(id)
		}
	})
}
