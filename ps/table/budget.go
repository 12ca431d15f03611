package table

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// DefaultBudget bounds the copies of a process, unless another Budget is given.
const DefaultBudget = 256 << 20

// Budget bounds the bytes of copies that open captures hold, over all tables that share it. Its methods may be called concurrently.
//
// Apply runs under a lock and must not wait, so the owner waits before it: Reserve sets aside what an Apply may copy at most. An Apply
// without Reserve, or one that begins just as a capture opens, still works and only oversteps the limit, by at most what it copies.
type Budget struct {
	limit int64

	mu      sync.Mutex
	used    int64 // copied, and reserved
	peak    int64
	waits   int64
	waited  time.Duration
	changed chan struct{} // closed at the next release; nil when nobody waits
}

// NewBudget makes a budget; 0 means DefaultBudget.
func NewBudget(limit int64) *Budget {
	if limit <= 0 {
		limit = DefaultBudget
	}
	return &Budget{limit: limit}
}

// BudgetStats is a snapshot of a budget's counters.
type BudgetStats struct {
	Limit, Used, Peak int64         // bytes
	Waits             int64         // Reserves that had to wait
	Waited            time.Duration // in all of them
}

// Stats reads the counters.
func (b *Budget) Stats() BudgetStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BudgetStats{Limit: b.limit, Used: b.used, Peak: b.peak, Waits: b.waits, Waited: b.waited}
}

// add charges n bytes without asking.
func (b *Budget) add(n int64) {
	b.mu.Lock()
	b.used += n
	b.peak = max(b.peak, b.used)
	b.mu.Unlock()
}

func (b *Budget) release(n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	b.used -= n
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
	b.mu.Unlock()
}

// wait charges n bytes when they fit, or when nothing else is charged.
func (b *Budget) wait(ctx context.Context, n int64) error {
	var began time.Time
	for {
		b.mu.Lock()
		if b.used == 0 || b.used+n <= b.limit {
			b.used += n
			b.peak = max(b.peak, b.used)
			if !began.IsZero() {
				b.waited += time.Since(began)
			}
			b.mu.Unlock()
			return nil
		}
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed, used := b.changed, b.used
		if began.IsZero() {
			began = time.Now()
			b.waits++
		}
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("reserve %d bytes of snapshot copies: %d of %d in use: %w: raise the copy budget, or find the snapshot that hangs",
				n, used, b.limit, context.Cause(ctx))
		}
	}
}

// Reserve waits until the copies that an Apply of n keys (or Loads of n rows) may need fit the budget, or ctx ends; it returns at once when no
// capture is open. The owner calls it before it takes the write lock, from the goroutine that calls Apply. What is not used returns at the end of Apply.
func (t *Table) Reserve(ctx context.Context, n int) error {
	if t.capture.Load() == nil || n <= 0 {
		return nil
	}
	need := int64(n)*int64(t.stride<<t.ushift) - t.reserved
	if need <= 0 {
		return nil
	}
	if err := t.budget.wait(ctx, need); err != nil {
		return err
	}
	t.reserved += need
	return nil
}

// settle returns what is left of a reservation.
func (t *Table) settle() {
	t.budget.release(t.reserved)
	t.reserved = 0
}
