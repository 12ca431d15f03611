package checkpoint_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"hcclps/checkpoint"
	"hcclps/ps/layout"
	"hcclps/ps/table"
)

// adder is the simplest update rule: weights and slots grow by the gradient.
type adder struct{}

func (adder) Update(row, grad []float32) {
	for i := range grad {
		row[i] += grad[i]
		row[len(grad)+i] += grad[i] * grad[i]
	}
}

var embedding = []checkpoint.Table{{ID: 1, Name: "user", Dim: 4, Slots: 4}}

// cluster is tables, one a shard.
type cluster struct {
	shards []*table.Table
	since  []uint32 // epochs of the last checkpoint
}

func newCluster(t *testing.T, shards int) *cluster {
	t.Helper()
	c := &cluster{since: make([]uint32, shards)}
	for range shards {
		tab, err := table.New(table.Spec{Dim: 4, Slots: 4, Init: table.Init{Kind: "normal", B: 0.1}, Seed: 9})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tab.Close() })
		c.shards = append(c.shards, tab)
	}
	return c
}

func (c *cluster) train(t *testing.T, r *rand.Rand, step uint32, n int) {
	t.Helper()
	keys := make([][]uint64, len(c.shards))
	for range n {
		key := r.Uint64N(20_000)
		s := layout.ShardOf(layout.Partition(key, 0), len(c.shards))
		keys[s] = append(keys[s], key)
	}
	for s, tab := range c.shards {
		slices.Sort(keys[s])
		keys[s] = slices.Compact(keys[s])
		grads := make([]float32, 4*len(keys[s]))
		for i := range grads {
			grads[i] = float32(keys[s][i/4]%7) / 8
		}
		if err := tab.Apply(keys[s], grads, table.Stamp{Step: step, Writer: 1}, adder{}); err != nil {
			t.Fatal(err)
		}
	}
}

// save writes a checkpoint.
func (c *cluster) save(t *testing.T, s *checkpoint.Store, id, base uint64, step uint64) {
	t.Helper()
	m := checkpoint.Manifest{ID: id, Job: "j", Step: step, Shards: len(c.shards), Tables: embedding}
	if base != 0 {
		m.Base = &checkpoint.Base{ID: base}
	}
	for i, tab := range c.shards {
		w, err := s.Begin(t.Context(), checkpoint.Spec{ID: id, Job: "j", Group: layout.GroupOf(i), Shards: len(c.shards), Tables: embedding, Base: base})
		if err != nil {
			t.Fatal(err)
		}
		capture := tab.Capture()
		err = capture.Pages(base == 0, c.since[i], func(p table.PageID, data []byte) error {
			return w.WritePage(t.Context(), checkpoint.Page{PageID: checkpoint.PageID{Table: 1, Partition: p.Partition, Page: p.Page}, Data: data})
		}, &sync.Mutex{})
		c.since[i] = capture.Epoch()
		capture.Close()
		if err != nil {
			t.Fatal(err)
		}
		part, err := w.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m.Parts = append(m.Parts, part)
	}
	if _, err := s.Commit(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// restored loads a checkpoint into a new cluster.
func restored(t *testing.T, s *checkpoint.Store, id uint64, shards int) *cluster {
	t.Helper()
	c := newCluster(t, shards)
	ck, err := s.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	for i, tab := range c.shards {
		q := checkpoint.Query{From: i * layout.Partitions / shards, To: (i + 1) * layout.Partitions / shards}
		for p, err := range ck.Pages(t.Context(), q) {
			if err == nil {
				err = tab.Load(table.PageID{Partition: p.Partition, Page: p.Page}, p.Data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return c
}

// rows lists all rows of a cluster by key.
func (c *cluster) rows() string {
	var all []string
	for _, tab := range c.shards {
		tab.Scan(0, true, 0, func(r table.Row) bool {
			all = append(all, fmt.Sprintf("%020d %d %d %d %x", r.Key, r.Step, r.Sightings, r.Writer, r.Values))
			return true
		})
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// TestAnyNumberOfShards: what was saved by N shards, full or delta, is the same on
// M, and so is what those save.
func TestAnyNumberOfShards(t *testing.T) {
	for _, from := range []int{1, 4} {
		s, err := checkpoint.Open(checkpoint.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, uint64(from)))
		c := newCluster(t, from)
		for step := range uint32(3) {
			c.train(t, r, step, 3000)
		}
		c.save(t, s, 1, 0, 3)
		first := c.rows()
		c.train(t, r, 3, 200)
		c.save(t, s, 2, 1, 4)
		second := c.rows()
		for i, to := range []int{1, 2, 8} {
			for id, want := range map[uint64]string{1: first, 2: second} {
				if got := restored(t, s, id, to).rows(); got != want || strings.Count(got, "\n") < 2000 {
					t.Fatalf("checkpoint %d of %d shards on %d: %d bytes of rows, want %d", id, from, to, len(got), len(want))
				}
			}
			again := restored(t, s, 2, to)
			id := uint64(10 + i)
			again.save(t, s, id, 0, 4)
			if got := restored(t, s, id, from).rows(); got != second {
				t.Fatalf("%d shards to %d and back: %d bytes of rows, want %d", from, to, len(got), len(second))
			}
			sameDigests(t, s, 2, id, to == from)
		}
		if _, err := s.Verify(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// sameDigests: a table is the same bytes, whoever wrote them; with the same shards
// the manifests say so.
func sameDigests(t *testing.T, s *checkpoint.Store, a, b uint64, sameShards bool) {
	t.Helper()
	list, err := s.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	of := map[uint64]*checkpoint.Manifest{}
	for _, m := range list {
		of[m.ID] = m
	}
	for i, p := range of[b].Parts {
		if sameShards && !slices.Equal(p.Tables, of[a].Parts[i].Tables) {
			t.Errorf("group %d: %+v and %+v", p.Group, p.Tables, of[a].Parts[i].Tables)
		}
		if p.New != 0 {
			t.Errorf("group %d wrote %d bytes that were there", p.Group, p.New)
		}
	}
}
