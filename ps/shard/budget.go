package shard

import (
	"sync/atomic"

	"hcclps/p2p"
)

const (
	// defaultBudget is what a Budget of 0 bytes means.
	defaultBudget = 256 << 20
	// keptBytes is how much memory is kept for pushes to come.
	keptBytes = 64 << 20
)

// Budget bounds the bytes of pushes that a server has admitted and not yet
// applied, over all its groups, and keeps memory for those to come. Its methods may be called concurrently.
type Budget struct {
	limit  int64
	used   atomic.Int64
	memory *p2p.Pool
}

// NewBudget makes a budget; 0 means 256 MiB.
func NewBudget(bytes int64) *Budget {
	if bytes <= 0 {
		bytes = defaultBudget
	}
	return &Budget{limit: bytes, memory: p2p.NewPool(int(min(bytes, keptBytes)))}
}

// Used is the bytes admitted now; it may be over Limit by one part a job and group.
func (b *Budget) Used() int64 { return b.used.Load() }

// Limit is the bytes given to NewBudget.
func (b *Budget) Limit() int64 { return b.limit }

// take charges n bytes if they fit, or if must is set.
func (b *Budget) take(n int, must bool) bool {
	if now := b.used.Add(int64(n)); now > b.limit && !must {
		b.used.Add(-int64(n))
		return false
	}
	return true
}

func (b *Budget) give(n int) { b.used.Add(-int64(n)) }
