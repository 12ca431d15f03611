package shard

import (
	"context"
	"sync"
)

// barriers lets linearizable reads share Barrier entries: a read waits for one
// that was proposed after it arrived.
type barriers struct {
	mu      sync.Mutex
	waiting []chan error
	work    chan struct{}
}

func (b *barriers) kick() chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.work == nil {
		b.work = make(chan struct{}, 1)
	}
	return b.work
}

// wait returns when a barrier proposed from now on is applied.
func (b *barriers) wait(ctx context.Context) error {
	done := make(chan error, 1)
	work := b.kick()
	b.mu.Lock()
	b.waiting = append(b.waiting, done)
	b.mu.Unlock()
	select {
	case work <- struct{}{}:
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
	work := b.kick()
	for {
		select {
		case <-work:
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
