package shard

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/ps/table"
	"hcclps/ps/wire"
)

// newNarrow is a cluster with room for few copies of pages, that has taken a step of many; push is the next one.
func newNarrow(t *testing.T) (c *cluster, push func()) {
	t.Helper()
	const id, dim = 2, 32
	c = newCluster(t, ids...)
	c.change = func(_ string, cfg *Config) { cfg.CopyBudget = table.NewBudget(64 << 10) }
	c.startAll()
	c.open(wire.JobParams{World: 1, Sync: wire.BSP, Parts: 1})
	c.table(2, testTable(id, dim))
	keys := make([]uint64, 2000)
	for i := range keys {
		keys[i] = uint64(i) * 3
	}
	step := uint64(0)
	push = func() {
		body := wire.AppendSection(nil, wire.Section{Table: id, Dim: dim, Keys: keys, Values: slices.Repeat([]float32{1, 2}, dim/2*len(keys))})
		c.ok(&wire.Push{Target: target(0), Step: step, Parts: 1, Rows: 1}, body)
		step++
	}
	push()
	c.same()
	return c, push
}

// TestSlowSnapshotsAreGivenUp: behind a snapshot that does not move and has used up the budget of copies one entry waits, and no more do.
func TestSlowSnapshotsAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const steps = 6
		c, push := newNarrow(t)
		shots := map[string]*capture{}
		for id, n := range c.nodes {
			shot, err := machine{n.group}.Snapshot()
			c.must(err)
			shots[id] = shot.(*capture)
		}
		began := time.Now()
		for range steps {
			push()
		}
		if took := time.Since(began); took < reserveTimeout || took >= 2*reserveTimeout {
			t.Errorf("%d pushes behind snapshots that do not move took %v, want one wait of %v", steps, took, reserveTimeout)
		}
		c.same()
		for id, shot := range shots {
			for _, pages := range shot.tables {
				err := pages.pages.Pages(true, 0, func(table.PageID, []byte) error { return nil }, shot.lock)
				if !errors.Is(err, table.ErrClosed) {
					t.Errorf("the snapshot of replica %s goes on: %v", id, err)
				}
			}
			shot.Release()
		}
		for id, n := range c.nodes {
			c.must(n.group.Snapshot(t.Context()))
			if n.group.cfg.CopyBudget.Stats().Used != 0 {
				t.Errorf("replica %s still holds copies", id)
			}
		}
		c.stopAll()
	})
}

// TestSlowPartsAreGivenUp: the same of a part of a checkpoint, which is written as fast as it can be while an entry waits for it.
func TestSlowPartsAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, push := newNarrow(t)
		var parts []*part
		for _, n := range c.nodes {
			g := n.group
			p := &part{cut: cut{ID: 1}, ended: make(chan struct{})}
			g.mu.Lock()
			for _, j := range g.state.jobs {
				var err error
				p.pages, err = g.state.captureJob(j, g.mu.RLocker())
				c.must(err)
			}
			g.mu.Unlock()
			g.saving.mu.Lock()
			g.saving.part = p
			g.saving.mu.Unlock()
			parts = append(parts, p)
		}
		hurried := make(chan bool)
		go func() {
			<-time.After(time.Second)
			hurry := false
			for _, n := range c.nodes {
				hurry = hurry || n.group.hurries()
			}
			hurried <- hurry
		}()
		began := time.Now()
		for range 4 {
			push()
		}
		if took := time.Since(began); took < reserveTimeout || took >= 2*reserveTimeout {
			t.Errorf("pushes behind parts that do not move took %v, want one wait of %v", took, reserveTimeout)
		}
		if !<-hurried {
			t.Error("no part hurries while an entry waits for it")
		}
		c.same()
		for _, p := range parts {
			if p.reads() {
				t.Error("a part goes on that is too slow")
			}
			close(p.ended)
		}
		c.stopAll()
	})
}
