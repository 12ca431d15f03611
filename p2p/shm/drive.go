package shm

import (
	"context"

	"hcclps/p2p"
)

// Drive implements p2p.Driver.
func (c *Comm) Drive(ctx context.Context, r *p2p.Request) {
	e := &c.engine
	for c.claim(r) {
		e.driving.Store(true)
		over := c.poll(ctx, r)
		if e.heat.count(over) {
			c.stirRun()
		}
		e.driving.Store(false)
		more := c.leave(over)
		if over && more {
			c.work(true)
		}
		if over || !more {
			return
		}
	}
}

// claim tries for a moment to get the engine.
func (c *Comm) claim(r *p2p.Request) bool {
	e := &c.engine
	for range claimLooks {
		if r.Ended() || e.driving.Load() {
			return false
		}
		if e.TryLock() {
			return true
		}
	}
	return false
}

// claimLooks take as long as one needs who posts a small message.
const claimLooks = 200

// poll moves bytes until r is complete, ctx ends or the Comm is dead: then it says true; or nothing has moved for a while.
func (c *Comm) poll(ctx context.Context, r *p2p.Request) bool {
	e := &c.engine
	e.patience.begin()
	for e.dead == nil && !r.Ended() {
		if c.advance(true) {
			e.patience.moved()
			if ctx.Err() != nil {
				return true
			}
			continue
		}
		if !e.patience.pause() {
			return ctx.Err() != nil
		}
		e.own.mute() // here this side looks by itself
	}
	for n := 0; n < workSteps && e.dead == nil && e.in.small() && c.advance(true); n++ { // those who wait for these need not come here
	}
	return true
}

// Watched implements p2p.Driver.
func (c *Comm) Watched() {
	e := &c.engine
	e.watch.Store(true)
	e.watched.Store(true)
	e.news.Store(true)
	c.work(true)
}
