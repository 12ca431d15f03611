package table_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"hcclps/ps/table"
)

// delete removes keys from table and twin, and compares how many there were.
func (w *twin) delete(t *testing.T, tab *table.Table, keys []uint64) {
	t.Helper()
	want := len(w.rows)
	for _, key := range keys {
		delete(w.rows, key)
	}
	want -= len(w.rows)
	if n := tab.Delete(keys); n != want {
		t.Fatalf("%d rows deleted, want %d", n, want)
	}
}

// some draws about a share of the twin's keys, in any order, and a few that are not there or come twice.
func (w *twin) some(rng *rand.Rand, share float64) []uint64 {
	keys := slices.Sorted(maps.Keys(w.rows))
	keys = slices.DeleteFunc(keys, func(uint64) bool { return rng.Float64() >= share })
	keys = append(keys, rng.Uint64(), 0)
	keys = append(keys, keys[0])
	rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// TestDelete compares the table with a map through random applies and deletions, down to nothing and up again.
func TestDelete(t *testing.T) {
	for i, spec := range specs() {
		t.Run(fmt.Sprintf("dim%dslots%d", spec.Dim, spec.Slots), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(i), 11))
			tab, w := open(t, spec), newTwin(t, spec)
			limit := uint64(1_500_000 / spec.Stride())
			for round, share := range []float64{0.1, 0.5, 0.9, 1, 0.01, 0.3, 1} {
				keys := keysOf(rng, int(limit)/2, limit)
				grads := gradsOf(rng, len(keys)*spec.Dim)
				st := table.Stamp{Step: uint32(round)}
				if err := tab.Apply(keys, grads, st, adder{}); err != nil {
					t.Fatal(err)
				}
				w.apply(keys, grads, st)
				before := tab.Stats().Bytes
				w.delete(t, tab, w.some(rng, share))
				if err := w.same(tab); err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
				if after := tab.Stats().Bytes; after > before+before/8 {
					t.Errorf("round %d: %d bytes became %d", round, before, after)
				}
			}
		})
	}
}

// TestDeleteGivesSpaceBack: rows that come and go do not let a table grow.
func TestDeleteGivesSpaceBack(t *testing.T) {
	spec := table.Spec{Dim: 16, Slots: 1}
	tab := open(t, spec)
	keys := make([]uint64, 20_000)
	grads := make([]float32, len(keys)*spec.Dim)
	var first int64
	for round := range 20 {
		for i := range keys {
			keys[i] = uint64(round*len(keys) + i)
		}
		if err := tab.Apply(keys, grads, table.Stamp{}, adder{}); err != nil {
			t.Fatal(err)
		}
		if round == 4 {
			first = tab.Stats().Bytes
		}
		if n := tab.Delete(keys); n != len(keys) {
			t.Fatalf("round %d: %d of %d deleted", round, n, len(keys))
		}
	}
	if last := tab.Stats().Bytes; last > first+first/10 {
		t.Errorf("%d bytes in the fifth round, %d after the last", first, last)
	}
}

// TestDeleteCaptures: rows are applied and deleted between any two pages of a capture; each capture restores the table of its moment, as one image
// and as increments loaded one after another.
func TestDeleteCaptures(t *testing.T) {
	for i, spec := range specs() {
		t.Run(fmt.Sprintf("dim%dslots%d", spec.Dim, spec.Slots), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(i), 12))
			tab, w, follower := open(t, spec), newTwin(t, spec), open(t, spec)
			limit := uint64(1_000_000 / spec.Stride())
			change := func(rows int, share float64) {
				keys := keysOf(rng, rows, limit)
				grads := gradsOf(rng, len(keys)*spec.Dim)
				if err := tab.Apply(keys, grads, table.Stamp{}, adder{}); err != nil {
					t.Fatal(err)
				}
				w.apply(keys, grads, table.Stamp{})
				w.delete(t, tab, w.some(rng, share))
			}
			full, since, empty := image{}, uint32(0), 0
			for round, share := range []float64{0.05, 0.4, 0.9, 0.02, 1, 0.1, 0.6} {
				change(int(limit)/3, share)
				want := &twin{spec: spec, ref: w.ref, rows: maps.Clone(w.rows)}
				c := tab.Capture()
				change(int(limit)/50, share/8)
				pages := 0
				err := c.Pages(round == 0, since, func(id table.PageID, data []byte) error {
					if pages++; pages%20 == 0 {
						change(rng.IntN(10), 0.001)
					}
					if bytes.Equal(data, []byte{0, 0}) {
						empty++
					}
					return full.emit(id, data)
				}, new(sync.Mutex))
				if err != nil {
					t.Fatal(err)
				}
				since = c.Epoch()
				c.Close()
				restored := full.load(t, spec)
				if err := want.same(restored); err != nil {
					t.Fatalf("round %d: restored: %v", round, err)
				}
				for _, id := range slices.Sorted(maps.Keys(full)) {
					if err := follower.Load(pageIDOf(id), full[id]); err != nil {
						t.Fatalf("round %d: follower: %v", round, err)
					}
				}
				if err := want.same(follower); err != nil {
					t.Fatalf("round %d: follower: %v", round, err)
				}
			}
			if empty == 0 {
				t.Error("no page became empty: the test proves less than it says")
			}
		})
	}
}

// TestLoadLeftOut: when a page of an increment is left out, and a row that has moved is in two places, the table takes no gradients.
func TestLoadLeftOut(t *testing.T) {
	spec := table.Spec{Dim: 1}
	tab, restored := open(t, spec), open(t, spec)
	keys := make([]uint64, 100_000)
	for i := range keys {
		keys[i] = uint64(i)
	}
	if err := tab.Apply(keys, make([]float32, len(keys)), table.Stamp{}, adder{}); err != nil {
		t.Fatal(err)
	}
	emit := func(all bool, since uint32, emit func(table.PageID, []byte) error) uint32 {
		c := tab.Capture()
		defer c.Close()
		if err := c.Pages(all, since, emit, new(sync.Mutex)); err != nil {
			t.Fatal(err)
		}
		return c.Epoch()
	}
	since := emit(true, 0, restored.Load)
	tab.Delete(keys[:1])
	var last table.PageID
	var data []byte
	emit(false, since, func(id table.PageID, page []byte) error {
		if id.Page > 0 {
			last, data = id, bytes.Clone(page)
			return nil
		}
		return restored.Load(id, page)
	})
	err := restored.Apply(keys[:1], []float32{0}, table.Stamp{}, adder{})
	if err == nil || !strings.Contains(err.Error(), "was not loaded") {
		t.Fatalf("apply: %v", err)
	}
	if err := restored.Load(last, data); err != nil {
		t.Fatal(err)
	}
	if err := restored.Apply(keys[:1], []float32{0}, table.Stamp{}, adder{}); err != nil {
		t.Error(err)
	}
}
