package table_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/ps/table"
)

// TestCaptureConcurrently runs what a shard runs: one applier, several pullers, one snapshot after another. Under -race it proves the lock rules;
// every row is written whole with its step number, so a torn or mixed row shows.
func TestCaptureConcurrently(t *testing.T) {
	const dim, keyCount, rounds = 4, 4000, 200
	budget := table.NewBudget(64 << 10)
	spec := table.Spec{Dim: dim, Slots: dim, Budget: budget}
	tab := open(t, spec)
	var mu sync.RWMutex
	var applied uint32 // guarded by mu
	done := make(chan struct{})
	var pullers sync.WaitGroup
	for r := range 2 {
		pullers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(r), 9))
			keys, out := make([]uint64, 100), make([]float32, 100*dim)
			for {
				select {
				case <-done:
					return
				default:
				}
				for i := range keys {
					keys[i] = rng.Uint64N(2 * keyCount)
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
	pullers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if err := captureOnce(tab, &mu, &applied); err != nil {
				t.Error(err)
				return
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rng := rand.New(rand.NewPCG(1, 8))
	for step := uint32(1); step <= rounds; step++ {
		keys := keysBelow(rng, 300, keyCount)
		if err := tab.Reserve(ctx, len(keys)); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		err := tab.Apply(keys, make([]float32, len(keys)*dim), table.Stamp{Step: step}, setter(step))
		applied = step
		mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	pullers.Wait()
	if s := budget.Stats(); s.Used != 0 {
		t.Errorf("%+v: bytes are left in use", s)
	}
}

// captureOnce takes a whole snapshot and checks that it holds nothing later than the step it was taken at, and that step itself.
func captureOnce(tab *table.Table, mu *sync.RWMutex, applied *uint32) error {
	mu.Lock()
	c := tab.Capture()
	at := *applied
	rows := tab.Stats().Rows
	mu.Unlock()
	if c == nil {
		return errors.New("no capture")
	}
	defer c.Close()
	restored, err := table.New(tab.Spec())
	if err != nil {
		return err
	}
	defer restored.Close()
	if err := c.Pages(true, 0, restored.Load, mu.RLocker()); err != nil {
		return err
	}
	if n := restored.Stats().Rows; n != rows {
		return fmt.Errorf("%d rows were captured, %d emitted", rows, n)
	}
	newest := uint32(0)
	restored.Scan(0, true, 0, func(r table.Row) bool {
		newest = max(newest, r.Step)
		if r.Values[0] != float32(r.Step) || slices.Min(r.Values) != slices.Max(r.Values) {
			err = fmt.Errorf("row %+v", r)
		}
		return err == nil
	})
	if err == nil && newest != at {
		err = fmt.Errorf("newest row of step %d in a capture at step %d", newest, at)
	}
	return err
}

// setter writes its number into every float of a row.
type setter uint32

func (s setter) Update(row, _ []float32) {
	for i := range row {
		row[i] = float32(s)
	}
}

func keysBelow(rng *rand.Rand, n int, limit uint64) []uint64 {
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = rng.Uint64N(limit)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// TestBudgetWaits: an Apply that would copy more than is left waits until pages are out, is counted, and ends with its context.
func TestBudgetWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := table.Spec{Dim: 16, Slots: 16}
		unit := int64(8 * spec.Stride())
		budget := table.NewBudget(100 * unit)
		spec.Budget = budget
		tab := open(t, spec)
		keys := keysBelow(rand.New(rand.NewPCG(2, 2)), 5000, 1<<40)
		grads := make([]float32, len(keys)*16)
		apply := func(n int) {
			t.Helper()
			if err := tab.Apply(keys[:n], grads[:n*16], table.Stamp{}, idle{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := tab.Reserve(t.Context(), 1<<20); err != nil || budget.Stats().Used != 0 {
			t.Fatalf("without a capture nothing is reserved: %v %+v", err, budget.Stats())
		}
		apply(len(keys))
		c := tab.Capture()
		if err := tab.Reserve(t.Context(), 90); err != nil {
			t.Fatal(err)
		}
		apply(90)
		held := tab.Stats().CopyBytes
		if s := budget.Stats(); s.Used != held || held < 60*unit || s.Waits != 0 {
			t.Fatalf("after 90 rows: %d bytes held, %+v", held, s)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := tab.Reserve(ctx, 90); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("reserve beyond the budget: %v", err)
		}
		out := make(chan error)
		go func() { out <- tab.Reserve(t.Context(), 90) }()
		synctest.Wait()
		select {
		case err := <-out:
			t.Fatalf("reserve did not wait: %v", err)
		default:
		}
		other := open(t, spec) // of the same budget: nothing copied there
		if err := other.Apply(keys, grads, table.Stamp{}, idle{}); err != nil {
			t.Fatal(err)
		}
		d := other.Capture()
		defer d.Close()
		time.AfterFunc(3*time.Second, c.Close)
		if err := <-out; err != nil {
			t.Fatal(err)
		}
		if s := budget.Stats(); s.Waits != 2 || s.Waited != 3*time.Second || s.Used != 90*unit {
			t.Errorf("after two waits, one of them in vain: %+v", s)
		}
		// no copies are left: one that is far too large, on top of what is reserved, does not wait for ever
		if err := other.Reserve(t.Context(), 1000); err != nil {
			t.Fatal(err)
		}
		apply(90)
		if s := budget.Stats(); s.Used != 1000*unit || s.Waits != 2 {
			t.Errorf("the reservation was not returned: %+v", s)
		}
		if err := other.Apply(keys[:1], grads[:16], table.Stamp{}, idle{}); err != nil {
			t.Fatal(err)
		}
		if s := budget.Stats(); s.Used != unit {
			t.Errorf("after an apply that copied one unit: %+v", s)
		}
	})
}

// TestCopiesAreFew: what is emitted already, or not asked for, is not copied.
func TestCopiesAreFew(t *testing.T) {
	budget := table.NewBudget(0)
	tab := open(t, table.Spec{Dim: 16, Budget: budget})
	keys := keysBelow(rand.New(rand.NewPCG(2, 2)), 20_000, 1<<40)
	grads := make([]float32, len(keys)*16)
	apply := func(keys []uint64) {
		t.Helper()
		if err := tab.Apply(keys, grads[:len(keys)*16], table.Stamp{}, idle{}); err != nil {
			t.Fatal(err)
		}
	}
	apply(keys)
	c := tab.Capture()
	if err := c.Pages(true, 0, func(table.PageID, []byte) error { return nil }, new(sync.Mutex)); err != nil {
		t.Fatal(err)
	}
	apply(keys)
	if n := budget.Stats().Peak; n != 0 {
		t.Errorf("%d bytes were copied of pages that were out", n)
	}
	c.Close()
	c = tab.Capture()
	c.Close()
	since := c.Epoch()
	apply(keys[:5])
	c = tab.Capture()
	defer c.Close()
	first := true
	if err := c.Pages(false, since, func(table.PageID, []byte) error {
		if first {
			first = false
			apply(keys)
		}
		return nil
	}, new(sync.Mutex)); err != nil {
		t.Fatal(err)
	}
	if n := budget.Stats().Peak; n > 5*64*80 {
		t.Errorf("%d bytes were copied for an increment of five rows", n)
	}
}

// TestIncrementIsSmall: an increment holds the pages written since, and no others.
func TestIncrementIsSmall(t *testing.T) {
	spec := table.Spec{Dim: 4}
	tab := open(t, spec)
	keys := make([]uint64, 200_000)
	for i := range keys {
		keys[i] = uint64(i)
	}
	if err := tab.Apply(keys, make([]float32, 4*len(keys)), table.Stamp{}, adder{}); err != nil {
		t.Fatal(err)
	}
	count := func(all bool, since uint32) (n int, epoch uint32) {
		c := tab.Capture()
		defer c.Close()
		if err := c.Pages(all, since, func(table.PageID, []byte) error { n++; return nil }, new(sync.Mutex)); err != nil {
			t.Fatal(err)
		}
		return n, c.Epoch()
	}
	all, since := count(true, 0)
	if all < 200_000/64 {
		t.Fatalf("%d pages of 200,000 rows", all)
	}
	if n, _ := count(false, since); n != 0 {
		t.Errorf("%d pages though nothing was written", n)
	}
	if err := tab.Apply(keys[500:510], make([]float32, 40), table.Stamp{}, adder{}); err != nil {
		t.Fatal(err)
	}
	if n, _ := count(false, since); n == 0 || n > 10 {
		t.Errorf("%d pages after ten rows were written", n)
	}
	if n, _ := count(false, 0); n != all {
		t.Errorf("%d pages since ever, want %d", n, all)
	}
	_, since = count(true, 0)
	c := tab.Capture()
	defer c.Close()
	if err := tab.Apply(keys, make([]float32, 4*len(keys)), table.Stamp{}, adder{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Pages(false, since, func(id table.PageID, _ []byte) error {
		return fmt.Errorf("page %v was clean at the capture", id)
	}, new(sync.Mutex)); err != nil {
		t.Error(err)
	}
}

// TestCaptureRules: one at a time, one emission, closed means closed.
func TestCaptureRules(t *testing.T) {
	tab := open(t, table.Spec{Dim: 2})
	if err := tab.Apply([]uint64{1, 2, 3}, make([]float32, 6), table.Stamp{}, adder{}); err != nil {
		t.Fatal(err)
	}
	c := tab.Capture()
	if tab.Capture() != nil {
		t.Error("a second capture was opened")
	}
	stop := errors.New("stop")
	if err := c.Pages(true, 0, func(table.PageID, []byte) error { return stop }, new(sync.Mutex)); !errors.Is(err, stop) {
		t.Errorf("error of emit came back as %v", err)
	}
	if err := c.Pages(true, 0, image{}.emit, new(sync.Mutex)); err == nil {
		t.Error("pages were emitted twice")
	}
	c.Close()
	c.Close()
	c = tab.Capture()
	if c == nil {
		t.Fatal("no capture after Close")
	}
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Pages(true, 0, image{}.emit, new(sync.Mutex)); !errors.Is(err, table.ErrClosed) {
		t.Errorf("pages of a closed table: %v", err)
	}
	c.Close()
	if err := tab.Apply([]uint64{1}, make([]float32, 2), table.Stamp{}, adder{}); !errors.Is(err, table.ErrClosed) {
		t.Errorf("apply to a closed table: %v", err)
	}
	if err := tab.Close(); !errors.Is(err, table.ErrClosed) {
		t.Errorf("second close: %v", err)
	}
	out := []float32{9, 9}
	tab.Gather([]uint64{1}, out)
	if out[0] != 0 || tab.Stats().Rows != 0 {
		t.Error("a closed table has rows")
	}
}

// The collector would let a heap with the copies grow to twice of them.
func TestCopiesAreOffTheHeap(t *testing.T) {
	tab := open(t, table.Spec{Dim: 32, Slots: 32})
	keys := make([]uint64, 20_000)
	for i := range keys {
		keys[i] = uint64(i)
	}
	grads := make([]float32, len(keys)*32)
	apply := func(step uint32) {
		if err := tab.Apply(keys, grads, table.Stamp{Step: step}, setter(step)); err != nil {
			t.Fatal(err)
		}
	}
	apply(1)
	c := tab.Capture()
	defer c.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	apply(2)
	runtime.ReadMemStats(&after)
	copies, made := tab.Stats().CopyBytes, int64(after.TotalAlloc-before.TotalAlloc)
	if least := int64(len(keys)) * int64(tab.Spec().Stride()); copies < least || made > copies/4 {
		t.Errorf("%d bytes of copies, want at least %d; %d bytes were allocated on the heap", copies, least, made)
	}
	c.Close()
	if left := tab.Stats().CopyBytes; left != 0 {
		t.Errorf("%d bytes of copies are left", left)
	}
}
