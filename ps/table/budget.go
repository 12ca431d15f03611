package table

import (
	"context"
	"time"
)

// Budget bounds the bytes of copies that open captures hold, over all tables that share it.
type Budget struct{}

// NewBudget makes a budget; zero means 256 MiB.
func NewBudget(bytes int64) *Budget { return &Budget{} }

// BudgetStats is a snapshot of a budget's counters.
type BudgetStats struct {
	Limit, Used, Peak int64
	Waits             int64
	Waited            time.Duration
}

// Stats reads the counters.
func (b *Budget) Stats() BudgetStats { return BudgetStats{} }

// Reserve waits until the copies that an Apply of n rows may need fit the budget. The owner calls it before it takes the write lock.
func (t *Table) Reserve(ctx context.Context, n int) error { return nil }
