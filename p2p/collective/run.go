package collective

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Close ends the group and its Comm, and may be called more than once. Operations under way fail, and Run returns nil.
func (g *Group) Close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.poke()
	return g.closeAll()
}

// closeAll closes what the group has for itself.
func (g *Group) closeAll() error {
	err := g.cfg.Comm.Close()
	if g.cfg.Native != nil {
		err = errors.Join(err, g.cfg.Native.Close())
	}
	return err
}

func (g *Group) poke() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Run carries out what is posted, in order, until ctx ends, the group is closed, or an operation fails. It returns nil after Close, else the
// reason, which is the error of all operations that had not ended. The Comm is closed then. Call it once.
func (g *Group) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { g.watch(ctx, stop) })
	g.mu.Lock()
	g.driver.run = ctx //nolint:fatcontext // not nested: there is one Run
	g.mu.Unlock()
	err := g.loop(ctx)
	stop(err)
	watcher.Wait()
	if s := g.all.shared; s != nil {
		s.Leave()
	}
	g.bury(err)
	if errors.Is(err, errGroupClosed) {
		return nil
	}
	g.cfg.Logger.Warn("group of ranks has failed", "rank", g.cfg.Ranks[g.Rank()], "epoch", g.cfg.Epoch, "error", err)
	return err
}

// loop takes one operation after the other. It returns why it ended.
func (g *Group) loop(ctx context.Context) error {
	for {
		w, again, err := g.next(ctx)
		if err != nil {
			return g.failure(ctx, err)
		}
		if !again {
			g.all.begin(ctx, w.call)
		}
		if err := g.carry(w); err != nil {
			return g.failure(ctx, err)
		}
		g.finish(w, nil)
	}
}

// next waits for an operation and makes it the current one; again: it was begun by who waits for it.
func (g *Group) next(ctx context.Context) (w *Work, again bool, err error) {
	d := &g.driver
	var tick <-chan time.Time
	for {
		g.mu.Lock()
		d.ending = d.busy && (g.closed || ctx.Err() != nil)
		switch {
		case d.busy: // nobody else may touch what it works with
		case d.broken != nil:
			g.mu.Unlock()
			return nil, false, d.broken
		case g.closed:
			g.mu.Unlock()
			return nil, false, errGroupClosed
		case ctx.Err() != nil:
			g.mu.Unlock()
			return nil, false, context.Cause(ctx)
		case d.handed:
			d.handed = false
			w = g.current
			g.mu.Unlock()
			return w, true, nil
		case len(g.queue) > 0 && !d.hot():
			w = g.take()
			g.mu.Unlock()
			return w, false, nil
		}
		hot, ended := d.hot(), ctx.Done()
		if d.ending {
			ended = nil
		}
		g.mu.Unlock()
		if tick = nil; hot {
			tick = time.After(coolAfter)
		}
		select {
		case <-g.wake:
		case <-ended:
		case <-tick:
			g.mu.Lock()
			d.look(g.queue)
			g.mu.Unlock()
		}
	}
}

// take makes the first operation of the queue the current one; g.mu is held.
func (g *Group) take() *Work {
	w := g.queue[0]
	started := w.posted
	if !w.first {
		started = g.now()
	}
	if g.queue = g.queue[1:]; len(g.queue) == 0 {
		g.queue = g.first[:0]
	}
	g.current, g.last = w, w.call
	g.records.begin(w, started)
	return w
}

// carry does one operation that was begun.
func (g *Group) carry(w *Work) error {
	if c := w.call.Algorithm; g.all.shared != nil && c.Level0 != SHM && c.Level1 != SHM {
		if err := g.all.announce(nil, [2]int{}); err != nil { // so that a neighbour that calls something else sees it
			return err
		}
	}
	if err := w.run(g.all); err != nil {
		return err
	}
	if g.all.shared != nil { // not all ways through an operation of two levels share memory
		if err := g.all.announce(nil, [2]int{}); err != nil {
			return err
		}
	}
	return g.all.flush()
}

// finish ends an operation that has succeeded or failed.
func (g *Group) finish(w *Work, err error) {
	g.mu.Lock()
	if e := g.records.end(w, g.now(), err); e != nil && g.tracks.run != nil {
		g.tracks.record(g.records.record(e), g.Rank(), g.Size())
	}
	wake := false
	if g.current == w {
		g.current = nil
		wake = g.driver.busy && (g.driver.ending || len(g.queue) > 0)
		g.driver.busy = false
	}
	g.mu.Unlock()
	if wake {
		g.poke()
	}
	g.progress.Add(1)
	if w.after != nil {
		w.after(err)
	}
	w.end(err)
}

// bury makes the group dead: the current operation and all that wait fail with err.
func (g *Group) bury(err error) {
	g.mu.Lock()
	g.dead = err
	left := g.queue
	g.queue = nil
	if g.current != nil {
		left = append([]*Work{g.current}, left...)
	}
	g.mu.Unlock()
	for _, w := range left {
		g.finish(w, fmt.Errorf("%v at rank %d: %w", w.call, g.cfg.Ranks[g.Rank()], err))
	}
}
