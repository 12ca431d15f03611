package table_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"hcclps/ps/table"
)

// TestCoolBesideOthers: rows go cold in a loop while others read all rows and a table grows. Under -race it proves what Cool reads without the lock.
func TestCoolBesideOthers(t *testing.T) {
	const dim, keyCount = 16, 12_000
	spec, _, _ := spilling(table.Spec{Dim: dim, Slots: dim}, 1<<20)
	tab := open(t, spec)
	var mu sync.RWMutex
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for ctx.Err() == nil {
				if err := tab.Cool(ctx, &mu); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	for r := range 2 {
		others.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(r), 31))
			out := make([]float32, 500*dim)
			for ctx.Err() == nil {
				keys := keysBelow(rng, 500, keyCount)
				mu.RLock()
				tab.Gather(keys, out[:len(keys)*dim])
				mu.RUnlock()
			}
		})
	}
	// It grows, and then changes until something went cold: the others may not have had their turn.
	for next, went := uint64(0), false; next < keyCount || !went; {
		keys := make([]uint64, 0, 100)
		for ; len(keys) < cap(keys); next++ {
			keys = append(keys, next%keyCount)
		}
		mu.Lock()
		err := tab.Apply(keys, make([]float32, len(keys)*dim), table.Stamp{}, adder{})
		went = tab.Stats().Cold.Written > 0
		mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	others.Wait()
	if s := tab.Stats(); s.Rows != keyCount || s.Cold.Written == 0 || tab.Err() != nil {
		t.Errorf("%+v, %v", s, tab.Err())
	}
}

// TestCoolGivesBack: memory of a table whose rows are gone is there for others of the same budget.
func TestCoolGivesBack(t *testing.T) {
	const dim, rows = 64, 12_800
	spec, _, memory := spilling(table.Spec{Dim: dim, Slots: 2 * dim}, 16<<20)
	a, b := open(t, spec), open(t, spec)
	var mu sync.RWMutex
	cool := func(tab *table.Table) {
		if err := tab.Cool(t.Context(), &mu); err != nil {
			t.Fatal(err)
		}
	}
	all := make([]uint64, rows)
	for i := range all {
		all[i] = uint64(i)
	}
	fill := func(tab *table.Table) {
		for keys := range slices.Chunk(all, 64) {
			if err := tab.Apply(keys, make([]float32, len(keys)*dim), table.Stamp{}, adder{}); err != nil {
				t.Fatal(err)
			}
			cool(a)
			cool(b)
		}
	}
	fill(a)
	if n := a.Delete(all); n != rows {
		t.Fatalf("%d rows deleted", n)
	}
	fill(b)
	for range 20 {
		cool(a)
		cool(b)
	}
	if used, limit := memory.Used(), memory.Limit(); used > limit {
		t.Errorf("used %d of %d KiB", used>>10, limit>>10)
	}
	if cold := b.Stats().Cold.Rows; cold > rows/8 {
		t.Errorf("%d of %d rows are cold beside an empty table", cold, rows)
	}
}
