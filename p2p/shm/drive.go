package shm

import (
	"context"

	"hcclps/p2p"
)

// Drive implements p2p.Driver.
func (c *Comm) Drive(ctx context.Context, r *p2p.Request) {
	if !c.claim() {
		return
	}
	for !c.poll(ctx, r) && c.doze(ctx, r) {
	}
	if c.leave() {
		c.work()
	}
}

// claim tries for a moment to get the engine.
func (c *Comm) claim() bool {
	e := &c.engine
	if e.TryLock() {
		return true
	}
	e.claims.Add(1)
	defer e.claims.Add(-1)
	for range claimLooks {
		if e.TryLock() {
			return true
		}
	}
	return false
}

// claimLooks take as long as Run needs to see the claim, if it is not copying.
const claimLooks = 200

// poll moves bytes until r is complete, ctx ends or the Comm is dead: then it says true; or nothing has moved for a while.
func (c *Comm) poll(ctx context.Context, r *p2p.Request) bool {
	e := &c.engine
	if e.dead != nil {
		return true
	}
	e.due.Store(false) // what Run was woken for is done here
	e.mem.words[c.rank].bell.mute()
	e.patience.moved()
	for !r.Ended() {
		moved := c.advance(true)
		switch {
		case r.Ended(), e.dead != nil:
		case moved:
			e.patience.moved()
			if ctx.Err() != nil {
				return true
			}
		case !e.patience.pause():
			return ctx.Err() != nil
		}
		if e.dead != nil {
			return true
		}
	}
	return true
}

// doze lets go of the engine and sleeps until there may be something to move. It says false if another driver sleeps, and then does not.
func (c *Comm) doze(ctx context.Context, r *p2p.Request) bool {
	e := &c.engine
	if e.sleeper != nil && !e.sleeper.Ended() {
		return false
	}
	e.sleeper = r
	bell := e.mem.words[c.rank].bell
	bell.want(driverSleeps)
	old := bell.word.Load()
	if !c.stuck() {
		stop := c.stirAtEnd(ctx)
		e.Unlock()
		late := !e.news.Load() && bell.sleep(driverSleeps, old, sleepFor)
		stop()
		e.claims.Add(1)
		e.Lock()
		e.claims.Add(-1)
		if late {
			c.overslept()
		}
	}
	if e.sleeper == r {
		e.sleeper = nil
	}
	return true
}

// stirAtEnd wakes the driver when ctx ends, until that is taken back.
func (c *Comm) stirAtEnd(ctx context.Context) (stop func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	e := &c.engine
	off := context.AfterFunc(ctx, func() {
		e.Lock()
		defer e.Unlock()
		if e.mem != nil {
			e.mem.words[c.rank].bell.stir(driverSleeps)
		}
	})
	return func() { off() }
}

// Watched implements p2p.Driver.
func (c *Comm) Watched() {
	c.engine.watch.Store(true)
	c.engine.news.Store(true)
	c.work()
}
