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
// Nobody waits when no copies exist, since then no snapshot will make room: entries too large for the budget go ahead one snapshot batch later,
// and an owner may reserve for one table after another.
type Budget struct {
	limit int64

	mu       sync.Mutex
	copied   int64
	reserved int64
	peak     int64
	waits    int64
	waited   time.Duration
	changed  chan struct{} // closed at the next release; nil when nobody waits
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
	return BudgetStats{Limit: b.limit, Used: b.copied + b.reserved, Peak: b.peak, Waits: b.waits, Waited: b.waited}
}

// charge counts a copy made, of which reserved bytes were set aside for.
func (b *Budget) charge(copied, reserved int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.copied += copied
	b.reserved -= reserved
	b.peak = max(b.peak, b.copied+b.reserved)
}

// release gives copies and reservations back.
func (b *Budget) release(copied, reserved int64) {
	if copied == 0 && reserved == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.copied -= copied
	b.reserved -= reserved
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// wait reserves n bytes when they fit, or when there are no copies to wait for.
func (b *Budget) wait(ctx context.Context, n int64) error {
	var began time.Time
	for {
		b.mu.Lock()
		if b.copied == 0 || b.copied+b.reserved+n <= b.limit {
			b.reserved += n
			b.peak = max(b.peak, b.copied+b.reserved)
			if !began.IsZero() {
				b.waited += time.Since(began)
			}
			b.mu.Unlock()
			return nil
		}
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed, used := b.changed, b.copied+b.reserved
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

// Reserve waits until the copies that an Apply of n more keys (or Loads of n more rows) may need fit the budget, or ctx ends; it returns at once
// when no capture is open. The owner calls it before it takes the write lock, from the goroutine that calls Apply; several calls before one Apply
// add up. What is not used goes back at the end of the next Apply or Load.
func (t *Table) Reserve(ctx context.Context, n int) error {
	if t.capture.Load() == nil || n <= 0 {
		return nil
	}
	unit := int64(t.units.block)
	need := min(int64(n)*unit, (t.rows>>t.ushift+Partitions)*unit-t.reserved) // no more than there is to copy
	if need <= 0 {
		return nil
	}
	if err := t.budget.wait(ctx, need); err != nil {
		return err
	}
	t.reserved += need
	return nil
}

// Captured says whether a capture is open. If not, Reserve has nothing to wait for.
func (t *Table) Captured() bool { return t.capture.Load() != nil }

// settle returns what is left of a reservation.
func (t *Table) settle() {
	t.budget.release(0, t.reserved)
	t.reserved = 0
}
