package shm

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"hcclps/p2p"
)

// engine moves the bytes. One goroutine at a time has it, and nobody waits for it: who finds it taken leaves a note (news) that the
// one who has it reads before it lets go. All access to the shared memory is by the one who has it, but for Run's sleep.
type engine struct {
	sync.Mutex
	mem *memory // nil when it is unmapped
	out outgoing
	in  incoming

	patience patience     // of drivers
	sleeper  *p2p.Request // what the driver that sleeps waits for, nil if none does
	dead     error        // the cause, once everything pending has failed with it
	runner   int          // what Run does

	news   atomic.Bool  // the inbox or the cause has changed
	claims atomic.Int32 // goroutines that would drive, if Run let go
	watch  atomic.Bool  // somebody waits for a send without driving it
	due    atomic.Bool  // Run was woken and has not had the engine since
}

// What Run does.
const (
	runnerGone   = iota // it does not run
	runnerAwake         // it has the engine itself
	runnerAsleep        // on the bell, or about to be
	runnerParked        // on the channel, since nothing has been pending for long
)

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
	own := e.mem.words[c.rank]
	own.state.Store(stateOf(cause))
	e.mem.words[1-c.rank].bell.ring()
	e.out.written.fail(cause)
	e.out.queue.fail(cause)
	e.in.queue.fail(cause)
	e.dead = cause
	own.bell.stir(driverSleeps)
	c.wakeRun()
}

// work moves what can be moved now, unless another goroutine is at it: then that one does.
func (c *Comm) work() {
	e := &c.engine
	for e.TryLock() {
		for n := 0; n < workSteps && e.dead == nil && c.advance(false); n++ {
		}
		if !c.leave() {
			return
		}
	}
}

// workSteps bounds what one does who posts: a small message, or a ring full of a large one.
const workSteps = 8

// leave lets go of the engine, and says whether there is news since.
func (c *Comm) leave() bool {
	e := &c.engine
	if c.rest() {
		c.wakeRun()
	}
	dead := e.dead != nil
	e.Unlock()
	return !dead && e.news.Load()
}

// rest is called by one who is about to let go of the engine: whoever sleeps is to be woken by the peer. It says whether there is
// work for Run that the peer will not ring for.
func (c *Comm) rest() (more bool) {
	e := &c.engine
	if e.dead != nil {
		return false
	}
	bell := e.mem.words[c.rank].bell
	if e.sleeper != nil && !e.sleeper.Ended() {
		bell.want(driverSleeps)
		if c.stuck() {
			bell.stir(driverSleeps)
		}
		return false
	}
	if e.sleeper != nil {
		e.sleeper = nil
		bell.stir(driverSleeps)
	}
	if !c.wanting() {
		return false
	}
	bell.want(runSleeps)
	return e.runner == runnerParked || c.stuck()
}

// overslept tells of a sleep of full length that the peer should have ended. The engine is held.
func (c *Comm) overslept() {
	if c.engine.dead == nil && c.stuck() {
		c.logger.Warn("peer did not wake this rank", "rank", c.rank, "after", sleepFor)
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
	if e.out.written.len() == 0 && e.out.queue.len() == 0 {
		e.watch.Store(false)
		if e.news.Load() {
			e.watch.Store(true) // it may be of one who posted and watched just now
		}
	}
	return e.in.queue.len() > 0 || e.out.queue.len() > 0 || e.watch.Load()
}

// wakeRun makes Run look.
func (c *Comm) wakeRun() {
	e := &c.engine
	switch e.runner {
	case runnerAsleep:
		e.due.Store(true)
		e.mem.words[c.rank].bell.stir(runSleeps)
	case runnerParked:
		e.due.Store(true)
		select {
		case c.stir <- struct{}{}:
		default:
		}
	}
}
