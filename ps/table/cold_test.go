package table_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"hcclps/ps/table"
)

// attic is a Cold in memory.
type attic struct {
	mu   sync.Mutex
	full error // of writes
	gone error // of reads
	open int
}

func (a *attic) cold() table.Cold {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open++
	return &atticTable{a, map[uint32][]byte{}}
}

func (a *attic) fail(write, read error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.full, a.gone = write, read
}

// atticTable is the units of one table.
type atticTable struct {
	a     *attic
	units map[uint32][]byte
}

func (c *atticTable) Write(_ context.Context, ids []uint32, data []byte) error {
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	if c.a.full != nil {
		return c.a.full
	}
	size := len(data) / len(ids)
	for i, id := range ids {
		if i > 0 && ids[i-1] >= id {
			return fmt.Errorf("unit %d after unit %d", id, ids[i-1])
		}
		c.units[id] = bytes.Clone(data[i*size:][:size])
	}
	return nil
}

func (c *atticTable) Read(ids []uint32, data []byte) error {
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	if c.a.gone != nil {
		return c.a.gone
	}
	size := len(data) / len(ids)
	for i, id := range ids {
		if i > 0 && ids[i-1] >= id || len(c.units[id]) != size {
			return fmt.Errorf("unit %d of %v: %d bytes, want %d", id, ids, len(c.units[id]), size)
		}
		copy(data[i*size:], c.units[id])
	}
	return nil
}

func (c *atticTable) Close() error {
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	c.a.open--
	return nil
}

// spilling is a spec with little memory.
func spilling(spec table.Spec, bytes int64) (table.Spec, *attic, *table.Memory) {
	a, m := &attic{}, table.NewMemory(bytes)
	spec.Memory, spec.Cold = m, a.cold
	return spec, a, m
}

// TestColdTwin: a table of several times its memory is the same as a map, through applies, deletions, reads, captures and reloads.
func TestColdTwin(t *testing.T) {
	for i, plain := range specs()[1:] {
		if plain.Slots == 0 {
			continue
		}
		t.Run(fmt.Sprintf("dim%dslots%d", plain.Dim, plain.Slots), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(i), 21))
			limit := []uint64{1_500_000, 0, 4_000_000, 6_000_000, 6_000_000}[i] / uint64(plain.Stride())
			spec, store, memory := spilling(plain, 500_000)
			tab, w := open(t, spec), newTwin(t, plain)
			var mu sync.RWMutex
			ctx := t.Context()
			change := func(n int, share float64) {
				keys := keysOf(rng, n, limit)
				if err := tab.Warm(ctx, &mu, keys); err != nil {
					t.Fatal(err)
				}
				grads := gradsOf(rng, len(keys)*spec.Dim)
				if err := tab.Apply(keys, grads, table.Stamp{Step: uint32(n)}, adder{}); err != nil {
					t.Fatal(err)
				}
				w.apply(keys, grads, table.Stamp{Step: uint32(n)})
				if share > 0 {
					gone := w.some(rng, share)
					w.delete(t, tab, gone)
				}
				if err := tab.Cool(ctx, &mu); err != nil {
					t.Fatal(err)
				}
			}
			full, since := image{}, uint32(0)
			for round := range 3 {
				for range 6 {
					change(int(limit)/25, 0.002)
				}
				want := &twin{spec: plain, ref: w.ref, rows: maps.Clone(w.rows)}
				c := tab.Capture()
				change(int(limit)/100, 0.002)
				pages := 0
				err := c.Pages(round == 0, since, func(id table.PageID, data []byte) error {
					if pages++; pages%100 == 0 {
						change(50, 0.001)
					}
					return full.emit(id, data)
				}, new(sync.Mutex))
				if err != nil {
					t.Fatal(err)
				}
				since = c.Epoch()
				c.Close()
				if err := want.same(full.load(t, plain)); err != nil {
					t.Fatalf("round %d: restored: %v", round, err)
				}
			}
			if err := w.same(tab); err != nil {
				t.Fatal(err)
			}
			s := tab.Stats()
			t.Logf("%d rows, %d of them cold; %d bytes in use of %d; %+v", s.Rows, s.Cold.Rows, memory.Used(), memory.Limit(), s.Cold)
			if s.Cold.Rows < s.Rows/8 || s.Cold.Misses == 0 || s.Cold.Written == 0 {
				t.Error("hardly a row is cold: the test proves nothing")
			}
			if d := s.Bytes - memory.Used(); d < -s.Bytes/20 || d > s.Bytes/20 {
				t.Errorf("Stats counts %d bytes, Memory %d", s.Bytes, memory.Used())
			}
			if err := tab.Close(); err != nil || memory.Used() != 0 || store.open != 0 {
				t.Errorf("closed: %v, %d bytes in use, %d stores open", err, memory.Used(), store.open)
			}
		})
	}
}

// TestColdLoad: a snapshot larger than memory is loaded through the store.
func TestColdLoad(t *testing.T) {
	plain := specs()[3]
	rng := rand.New(rand.NewPCG(1, 22))
	src, w := open(t, plain), newTwin(t, plain)
	keys := keysOf(rng, 60_000, 1<<30)
	grads := gradsOf(rng, len(keys)*plain.Dim)
	if err := src.Apply(keys, grads, table.Stamp{}, adder{}); err != nil {
		t.Fatal(err)
	}
	w.apply(keys, grads, table.Stamp{})
	spec, _, memory := spilling(plain, 4<<20)
	tab := open(t, spec)
	var mu sync.RWMutex
	most := int64(0)
	c := src.Capture()
	defer c.Close()
	err := c.Pages(true, 0, func(id table.PageID, data []byte) error {
		err := tab.Load(id, data)
		most = max(most, memory.Used())
		return errors.Join(err, tab.Cool(t.Context(), &mu))
	}, new(sync.Mutex))
	if err != nil {
		t.Fatal(err)
	}
	if most > memory.Limit()*11/10 || src.Stats().Bytes < 3*memory.Limit() {
		t.Errorf("%d bytes of %d were in use, for a table of %d", most, memory.Limit(), src.Stats().Bytes)
	}
	if err := w.same(tab); err != nil {
		t.Fatal(err)
	}
}

// TestColdFull: when the store takes nothing the rows stay, the cause is named, and nothing is lost; later it takes them.
func TestColdFull(t *testing.T) {
	plain := specs()[3]
	rng := rand.New(rand.NewPCG(1, 23))
	spec, store, memory := spilling(plain, 5<<20)
	tab, w := open(t, spec), newTwin(t, plain)
	var mu sync.RWMutex
	full := errors.New("no space left on device")
	store.fail(full, nil)
	apply := func() {
		t.Helper()
		keys := keysOf(rng, 20_000, 1<<18)
		if err := tab.Warm(t.Context(), &mu, keys); err != nil {
			t.Fatal(err)
		}
		grads := gradsOf(rng, len(keys)*plain.Dim)
		if err := tab.Apply(keys, grads, table.Stamp{}, adder{}); err != nil {
			t.Fatal(err)
		}
		w.apply(keys, grads, table.Stamp{})
	}
	apply()
	apply()
	if err := tab.Cool(t.Context(), &mu); !errors.Is(err, full) || !errors.Is(tab.Trouble(), full) {
		t.Fatalf("cool: %v, trouble: %v", err, tab.Trouble())
	}
	apply()
	if err := w.same(tab); err != nil {
		t.Fatal(err)
	}
	store.fail(nil, nil)
	for range 4 {
		if err := tab.Cool(t.Context(), &mu); err != nil {
			t.Fatal(err)
		}
	}
	if err := tab.Trouble(); err != nil || memory.Used() > memory.Limit() {
		t.Errorf("trouble: %v; %d bytes in use of %d", err, memory.Used(), memory.Limit())
	}
	if err := w.same(tab); err != nil {
		t.Fatal(err)
	}
	store.fail(nil, errors.New("bad unit"))
	keys := slices.Sorted(maps.Keys(w.rows))
	tab.Gather(keys, make([]float32, len(keys)*plain.Dim))
	if tab.Err() == nil || tab.Warm(t.Context(), &mu, keys) == nil {
		t.Errorf("rows cannot be read, and nobody says so: %v", tab.Err())
	}
}

// TestColdConcurrently runs what a server runs: an applier, pullers, an evictor and snapshots, over a table larger than memory. Under -race it
// proves the lock rules; a row that is lost, torn or old shows.
func TestColdConcurrently(t *testing.T) {
	const dim, keyCount, rounds = 16, 8000, 60
	spec, _, memory := spilling(table.Spec{Dim: dim, Slots: dim}, 1<<20)
	tab := open(t, spec)
	var mu sync.RWMutex
	var applied uint32
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var others sync.WaitGroup
	for r := range 2 {
		others.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(r), 9))
			keys, out := make([]uint64, 100), make([]float32, 100*dim)
			for ctx.Err() == nil {
				for i := range keys {
					keys[i] = rng.Uint64N(2 * keyCount)
				}
				if r == 0 {
					if err := tab.Warm(ctx, &mu, keys); err != nil && ctx.Err() == nil {
						t.Error(err)
						return
					}
				}
				mu.RLock()
				tab.Gather(keys, out)
				row, ok := tab.Row(keys[0])
				mu.RUnlock()
				for i := range keys {
					if w := out[i*dim:][:dim]; slices.Min(w) != slices.Max(w) {
						t.Errorf("key %d: torn row %v", keys[i], w)
					}
				}
				if ok && row.Values[0] != float32(row.Step) {
					t.Errorf("row %+v", row)
				}
			}
		})
	}
	others.Go(func() {
		for ctx.Err() == nil {
			if err := tab.Cool(ctx, &mu); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	others.Go(func() {
		for ctx.Err() == nil {
			if err := captureOnce(tab, &mu, &applied); err != nil {
				t.Error(err)
				return
			}
		}
	})
	last := map[uint64]uint32{}
	rng := rand.New(rand.NewPCG(1, 8))
	for step := uint32(1); step <= rounds; step++ {
		keys := keysBelow(rng, 300, keyCount)
		if err := tab.Warm(ctx, &mu, keys); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		err := tab.Apply(keys, make([]float32, len(keys)*dim), table.Stamp{Step: step}, setter(step))
		applied = step
		mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			last[key] = step
		}
	}
	cancel()
	others.Wait()
	tab.Scan(0, true, 0, func(r table.Row) bool {
		if r.Step != last[r.Key] {
			t.Errorf("key %d was last written in step %d, is of %d", r.Key, last[r.Key], r.Step)
		}
		delete(last, r.Key)
		return true
	})
	if len(last) != 0 || tab.Err() != nil {
		t.Errorf("%d rows are lost; %v", len(last), tab.Err())
	}
	if s := tab.Stats(); s.Cold.Rows == 0 {
		t.Errorf("no row is cold, with %d bytes in use of %d", memory.Used(), memory.Limit())
	}
}
