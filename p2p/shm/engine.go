package shm

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"hcclps/p2p"
)

// engine moves the bytes. One goroutine at a time has it, and nobody waits for it: who finds it taken leaves a note (news) that the
// one who has it reads after it has let go. All access to the shared memory is by the one who has it.
type engine struct {
	sync.Mutex
	mem *memory // nil when it is unmapped
	out outgoing
	in  incoming

	own      bell
	peer     *ringer
	patience patience // of drivers
	heat     heat     // of drivers
	dead     error    // the cause, once everything pending has failed with it

	news    atomic.Bool // the inbox or the cause has changed, or the peer has rung
	watch   atomic.Bool // somebody waits for a send without driving it
	driving atomic.Bool // a driver has the engine
	watched atomic.Bool // somebody has begun to wait without driving
}

// advance moves a piece in each direction if it can. Functions are called only if call is set.
func (c *Comm) advance(call bool) (moved bool) {
	e := &c.engine
	if e.news.Load() {
		moved = true
		if cause := c.collect(); cause != nil {
			c.bury(cause)
			return true
		}
	}
	state := c.peerState() // first: what the peer did before it ended is seen below
	sent, err := e.out.step(call)
	got, err2 := e.in.step(call)
	if err == nil {
		err = err2
	}
	if err == nil {
		err = stateError(state)
	}
	if err != nil {
		c.die(err)
		return true // to be buried next
	}
	return moved || sent || got
}

// collect takes what was posted since, and says why the Comm ends, if it does.
func (c *Comm) collect() error {
	c.engine.news.Store(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.engine.out.queue.take(&c.sends)
	c.engine.in.queue.take(&c.recvs)
	return c.cause
}

func (c *Comm) peerState() uint32 { return c.engine.mem.words[1-c.rank].state.Load() }

// stateError is what the peer's state means for this side.
func stateError(state uint32) error {
	switch state {
	case stateOpen:
		return nil
	case stateClosed:
		return fmt.Errorf("peer closed: %w", p2p.ErrPeer)
	case stateLength:
		return fmt.Errorf("peer found: %w", p2p.ErrLength)
	case stateCorrupt:
		return fmt.Errorf("peer found: %w: %w", p2p.ErrPeer, p2p.ErrCorrupt)
	default:
		return fmt.Errorf("peer in state %d: %w", state, p2p.ErrCorrupt)
	}
}

// stateOf is how this side tells its peer of its end.
func stateOf(cause error) uint32 {
	switch {
	case errors.Is(cause, p2p.ErrLength):
		return stateLength
	case errors.Is(cause, p2p.ErrCorrupt):
		return stateCorrupt
	default:
		return stateClosed
	}
}

// bury fails all that is pending and tells the peer and Run.
func (c *Comm) bury(cause error) {
	e := &c.engine
	_, _ = e.out.settle() // what the peer has taken by now was sent well
	e.mem.words[c.rank].state.Store(stateOf(cause))
	e.peer.ring()
	e.out.fail(cause)
	fail(&e.in.queue, cause)
	e.dead = cause
	c.stirRun()
}

// work moves what can be moved now, unless another goroutine is at it: then that one does. One who posts does not call functions, and
// leaves what takes long to Run.
func (c *Comm) work(posting bool) {
	e := &c.engine
	for e.TryLock() {
		for n := 0; (!posting || n < workSteps) && e.dead == nil && c.advance(!posting); n++ {
		}
		if !c.leave(posting) {
			return
		}
	}
}

// try is work for one who has just posted with the engine in hand: in the direction of what he posted, and no more.
func (c *Comm) try(send bool) {
	e := &c.engine
	moved, err := true, error(nil)
	for n := 0; moved && err == nil && n < workSteps; n++ {
		if send {
			moved, err = e.out.step(false)
			moved = moved && e.out.queue.len() > 0
		} else {
			moved, err = e.in.step(false)
			moved = moved && e.in.queue.len() > 0
		}
	}
	if err != nil {
		c.die(err)
	}
	if c.leave(true) {
		c.work(true)
	}
}

// workSteps bounds what one does who posts: a small message, or a ring full of a large one.
const workSteps = 8

// leave lets go of the engine, after it has asked the peer for a ring if something is pending, unless a driver is sure to come. It says whether there
// is something to do now, which is left to Run on request.
func (c *Comm) leave(toRun bool) (more bool) {
	e := &c.engine
	dead := e.dead != nil
	if e.watched.Load() {
		e.watched.Store(false)
		e.heat.cool()
	}
	if !dead && !e.heat.hot && c.wanting() {
		e.own.want()
		more = c.stuck() // after that: what the peer did before it saw the wish is seen here
	}
	e.Unlock()
	switch {
	case dead:
		return false
	case e.news.Load():
		return true
	case more && toRun:
		c.stirRun()
		return false
	default:
		return more
	}
}

// stuck says whether there is something to do that the peer will not ring for.
func (c *Comm) stuck() bool {
	return c.engine.in.stuck() || c.engine.out.stuck() || c.peerState() != stateOpen
}

// wanting says whether anything is pending that this side must move. A message that is in the ring to its end is not, if nobody
// waits for its end.
func (c *Comm) wanting() bool {
	e := &c.engine
	if e.out.written.len() == 0 && e.out.queue.len() == 0 && e.watch.Load() {
		e.watch.Store(false)
		if e.news.Load() {
			e.watch.Store(true) // it may be of one who posted and watched just now
		}
	}
	return e.in.queue.len() > 0 || e.out.queue.len() > 0 || e.watch.Load()
}

// stirRun makes Run look.
func (c *Comm) stirRun() {
	select {
	case c.stir <- struct{}{}:
	default:
	}
}
