package shard

import (
	"context"
	"sync"

	"hcclps/ps/wire"
)

// barriers lets linearizable reads share Barrier entries: a read waits for one
// that was proposed after it arrived.
type barriers struct {
	mu      sync.Mutex
	waiting []chan error
	work    chan struct{} // a token when somebody waits
}

func newBarriers() *barriers { return &barriers{work: make(chan struct{}, 1)} }

// wait returns when a barrier proposed from now on is applied.
func (b *barriers) wait(ctx context.Context) error {
	done := make(chan error, 1)
	b.mu.Lock()
	b.waiting = append(b.waiting, done)
	b.mu.Unlock()
	select {
	case b.work <- struct{}{}:
	default:
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run proposes one barrier at a time, until ctx ends.
func (b *barriers) run(ctx context.Context, log replica) {
	for {
		select {
		case <-b.work:
		case <-ctx.Done():
			b.release(context.Cause(ctx))
			return
		}
		b.mu.Lock()
		now := b.waiting
		b.waiting = nil
		b.mu.Unlock()
		if len(now) == 0 {
			continue
		}
		err := log.Barrier(ctx)
		for _, w := range now {
			w <- err
		}
	}
}

func (b *barriers) release(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.waiting {
		w <- err
	}
	b.waiting = nil
}

// final says whether an answer that did not come from the log may be given. A
// leader that was deposed while it slept does not know it, and its state is
// behind: what it refuses for good, the new leader may grant.
func (g *Group) final(ctx context.Context, a wire.Answer) wire.Answer {
	switch a.Status {
	case wire.OK, wire.NotLeader, wire.Busy, wire.Pending, wire.Late:
		return a
	case wire.Fenced, wire.Unknown, wire.Gap, wire.Past, wire.Refused, wire.NonFinite, wire.Stopped, wire.Lost:
	}
	if a.Index != 0 {
		return a // applied: so it is on every replica
	}
	if err := g.fresh.wait(ctx); err != nil {
		return g.elsewhere()
	}
	return a
}
