package shm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"hcclps/p2p"
)

// sleepFor bounds a sleep on the bell, in case a wake is lost with a peer that breaks the protocol; when nothing was pending for so long,
// Run parks and holds no thread.
const sleepFor = 100 * time.Millisecond

// errStopped marks the end of Run's context among causes.
var errStopped = errors.New("run ended")

// Run moves bytes while nobody waits for them, and watches the peer, until the Comm ends; then it fails what is pending, unmaps the memory and
// closes the connection. It returns nil after Close, the cause of ctx's end, or the error that killed the Comm; a peer that closes is
// ErrPeer. It runs once.
func (c *Comm) Run(ctx context.Context) error {
	c.mu.Lock()
	again := c.started
	cause := c.cause
	c.started = true
	c.mu.Unlock()
	if again {
		if errors.Is(cause, p2p.ErrClosed) {
			return nil
		}
		return fmt.Errorf("run comm with %s: it was run before", c.peerName())
	}
	stop := context.AfterFunc(ctx, func() {
		c.die(fmt.Errorf("%w: %w (%w)", p2p.ErrClosed, errStopped, context.Cause(ctx)))
		c.work()
	})
	defer stop()
	var watching sync.WaitGroup
	watching.Go(c.watchPeer)
	cause = c.serve()
	err := c.release()
	watching.Wait()
	switch {
	case errors.Is(cause, errStopped):
		return context.Cause(ctx)
	case errors.Is(cause, p2p.ErrClosed):
		return err
	default:
		return fmt.Errorf("exchange with %s: %w", c.peerName(), cause)
	}
}

// serve has the engine when nobody else has, until the Comm is dead. It returns the cause.
func (c *Comm) serve() error {
	e := &c.engine
	bell := e.mem.words[c.rank].bell
	var patience patience
	idle := false
	e.Lock()
	for {
		e.runner = runnerAwake
		e.due.Store(false)
		parked, taken := false, !c.tend(&patience)
		switch {
		case taken:
		case e.dead != nil:
			e.runner = runnerGone
			e.Unlock()
			return e.dead
		case c.rest():
			continue
		default:
			e.runner = runnerAsleep
			if parked = idle && !c.wanting(); parked {
				e.runner = runnerParked
			}
			e.Unlock()
		}
		idle = c.await(bell, parked)
	}
}

// tend moves bytes until nothing has moved for a while, and lets go of the engine between two looks. It says false, and does not have the
// engine, if another has taken it.
func (c *Comm) tend(p *patience) bool {
	e := &c.engine
	p.moved()
	for e.dead == nil && (e.sleeper == nil || e.sleeper.Ended()) {
		e.mem.words[c.rank].bell.mute()
		if c.advance(true) {
			p.moved()
			continue
		}
		e.runner = runnerAsleep
		e.Unlock()
		more := e.claims.Load() == 0 && p.pause()
		if !e.TryLock() {
			return false
		}
		e.runner = runnerAwake
		if !more {
			break
		}
	}
	return true
}

// await sleeps until there may be work for Run, and then has the engine. It says whether it slept its full time.
func (c *Comm) await(bell bell, parked bool) (idle bool) {
	e := &c.engine
	for {
		old := bell.word.Load()
		switch woken := e.due.Load(); {
		case (woken || e.news.Load()) && e.TryLock():
			return false
		case woken:
			bell.sleep(runSleeps, old, letGo)
		case parked:
			<-c.stir
		default:
			idle = bell.sleep(runSleeps, old, sleepFor)
		}
		if e.TryLock() {
			if idle {
				c.overslept()
			}
			return idle
		}
	}
}

// letGo is the time for one who has woken Run to let go of the engine.
const letGo = 20 * time.Microsecond

// watchPeer ends the Comm when the connection ends, as it does when the peer's process dies.
func (c *Comm) watchPeer() {
	var b [1]byte
	n, err := c.conn.Read(b[:])
	switch {
	case n > 0:
		err = fmt.Errorf("%w: it sent what nobody asked for", p2p.ErrPeer)
	case errors.Is(err, io.EOF):
		err = fmt.Errorf("%w: connection closed", p2p.ErrPeer)
	default:
		err = fmt.Errorf("%w: %w", p2p.ErrPeer, err)
	}
	c.die(err)
	c.work()
}

func (c *Comm) peerName() string {
	return fmt.Sprintf("rank %d at %s", 1-c.rank, c.conn.RemoteAddr())
}
