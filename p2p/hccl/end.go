package hccl

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"hcclps/p2p"
)

// The life and the end of a Comm. It ends in three steps: one side says bye, after which no step is planned; both do the
// steps planned so far, so that no operator is left without its partner, and say that they are drained; then both
// destroy the communicator. When the peer is lost, or the device fails, or this takes too long, the streams are aborted.

// Close implements p2p.Comm. It does not wait: pending Requests for host memory fail when Run has come to an end with the
// peer, at most a second later or when a function of IsendFunc or IrecvFunc returns; those for device memory when
// the device has let go of it.
func (c *Comm) Close() error {
	c.mu.Lock()
	c.local = c.local || c.cause == nil
	c.die(p2p.ErrClosed, frame{kind: kindBye})
	alone := !c.started && !c.over // Run does it otherwise
	c.over = c.over || alone
	c.mu.Unlock()
	if alone {
		_ = c.ctl.send(frame{kind: kindBye}) // the peer would see the connection end as well
		c.end()
	}
	return nil
}

// Run moves the bytes until the Comm ends. It returns nil after Close, the cause of ctx's end, or the error that killed
// the Comm; a peer that closes is p2p.ErrPeer. What the Comm holds of the device is given back behind it. It runs once.
func (c *Comm) Run(ctx context.Context) error {
	c.mu.Lock()
	again, over := c.started, c.over
	c.started = true
	c.mu.Unlock()
	if again {
		return fmt.Errorf("run comm of rank %d: it was run before", c.rank)
	}
	if !over {
		c.exchange(ctx)
	}
	c.mu.Lock()
	cause := c.cause
	c.mu.Unlock()
	switch {
	case errors.Is(cause, errRunEnded):
		return context.Cause(ctx)
	case errors.Is(cause, p2p.ErrClosed):
		return nil
	default:
		return fmt.Errorf("exchange with %s over hccl: %w", c.ctl.conn.RemoteAddr(), cause)
	}
}

// errRunEnded marks the end of Run's context among causes.
var errRunEnded = errors.New("run ended")

// exchange runs the goroutines of the Comm until it has ended.
func (c *Comm) exchange(ctx context.Context) {
	unhook := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.local = c.local || c.cause == nil
		c.die(fmt.Errorf("%w: %w (%w)", p2p.ErrClosed, errRunEnded, context.Cause(ctx)), frame{kind: kindBye})
	})
	defer unhook()
	halt, stagers := context.WithCancel(context.WithoutCancel(ctx))
	defer stagers()
	var stage, wire sync.WaitGroup
	stage.Go(func() { c.stageSends(halt, c.half[c.rank]) })
	stage.Go(func() { c.stageRecvs(halt, c.half[1-c.rank]) })
	wire.Go(c.read)
	wire.Go(c.write)
	<-c.ending
	c.linger()
	stagers()
	stage.Wait()
	c.end()
	wire.Wait()
}

// linger waits until nothing is left to wait for, but not for long.
func (c *Comm) linger() {
	late := time.NewTimer(lingerFor)
	defer late.Stop()
	lost := c.lost
	for {
		select {
		case <-c.settle:
			return
		case <-late.C:
			c.settleNow()
			return
		case <-lost:
			lost = nil
			late.Reset(grace)
		}
	}
}

// end fails what is pending and gives everything back.
func (c *Comm) end() {
	c.mu.Lock()
	state := endDrained
	if c.broken.Load() || c.waiting > 0 {
		state = endBroken
	}
	c.broken.Store(true)
	cause := c.cause
	for _, h := range c.half {
		h.fail(cause, false)
	}
	c.mu.Unlock()
	c.d.bury(c.bond, state, func(halted error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, h := range c.half {
			h.fail(cause, true)
			for s := range h.slots {
				if halted == nil { // else the device may still write there
					c.d.pool.put(s)
				}
			}
		}
		if halted == nil {
			c.unpin()
		}
	})
	_ = c.ctl.conn.Close() // what matters was written, and the cause is known
	c.d.mu.Lock()
	delete(c.d.comms, c)
	c.d.mu.Unlock()
	c.d.live.Done()
}

// die makes the Comm dead of the first cause, and tells the peer. c.mu is held.
func (c *Comm) die(cause error, bye frame) {
	if c.cause != nil {
		return
	}
	c.cause = cause
	_ = c.ctl.conn.SetWriteDeadline(time.Now().Add(lingerFor)) // fails only on a connection that is closed
	c.queue(bye)
	close(c.ending)
	c.checkSettled()
}

// breakOff ends the Comm without a drain. c.mu is held.
func (c *Comm) breakOff(cause error) {
	c.broken.Store(true)
	c.die(cause, farewellOf(cause))
	c.checkSettled()
}

// giveUp ends the Comm because of what a caller's function returned. The device is well. c.mu is not held.
func (c *Comm) giveUp(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.die(err, farewellOf(err))
}

func farewellOf(cause error) frame {
	text := []byte(cause.Error())
	return frame{kind: kindBye, flow: byeFault, data: text[:min(len(text), maxRefusal)]}
}

// fault ends the Comm because the device failed. It may be called on any thread.
func (c *Comm) fault(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		c.d.log.Warn("pair failed on the device", "device", c.d.cfg.Device, "communicator", c.bond.name, "err", err)
	}
	c.breakOff(err)
}

// checkSettled sees whether a dead Comm has anything to wait for. c.mu is held.
func (c *Comm) checkSettled() {
	if c.cause == nil || c.settled {
		return
	}
	switch {
	case c.broken.Load():
	case c.waiting > 0 || c.untaken():
		return // what the peer did before it was lost may still come through
	case !c.gone:
		if !c.bye || c.steps.len() > 0 {
			return
		}
		if !c.drained {
			c.drained = true
			c.queue(frame{kind: kindDrained})
		}
		if !c.peerDry {
			return
		}
	}
	c.settled = true
	close(c.settle)
}

// untaken says whether received bytes are still to be given to those who wait for them.
func (c *Comm) untaken() bool {
	return c.taking || !c.local && c.half[1-c.rank].arrived.len() > 0
}

// settleNow ends the wait for the peer.
func (c *Comm) settleNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.settled {
		c.settled = true
		close(c.settle)
	}
}

// finish completes what is through. A side that closed keeps its promise that what was pending fails. c.mu is held.
func (c *Comm) finish(h *half) {
	if !c.local {
		h.finish()
	}
}

// read handles the peer's frames until the connection ends.
func (c *Comm) read() {
	for {
		f, err := c.ctl.recv()
		c.mu.Lock()
		if err == nil {
			err = c.handle(f)
		}
		if err != nil {
			c.gone = true
			close(c.lost)
			c.die(err, frame{kind: kindBye, flow: byeFault})
			c.checkSettled()
		}
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// maxAhead bounds what rank 0 may ask for ahead of the events.
const maxAhead = 1 << 20

// handle does what a frame says. An error means that the peer broke the protocol. c.mu is held.
func (c *Comm) handle(f frame) error {
	toPlan := c.plan != nil && f.n <= math.MaxInt
	switch {
	case f.kind == kindPost && toPlan,
		f.kind == kindStaged && toPlan && f.flow == 1 && f.n <= maxAhead,
		f.kind == kindRoom && toPlan && f.flow == 0 && f.n <= maxAhead:
		c.announce(f, 1)
	case f.kind == kindStep && c.plan == nil && f.n <= math.MaxInt && c.steps.len() < maxAhead:
		c.steps.push(step{int(f.flow), f.n, f.last})
	case f.kind == kindBye:
		c.bye = true
		c.die(farewell(f), frame{kind: kindBye})
	case f.kind == kindDrained:
		c.peerDry = true
	default:
		return fmt.Errorf("%w: %w: kind %d", p2p.ErrPeer, errFrame, f.kind)
	}
	c.pump()
	return nil
}

// farewell is why the Comm is dead when the peer said bye.
func farewell(f frame) error {
	switch {
	case f.flow == byeLength && len(f.data) == 1:
		return &lengthError{int(f.data[0]), f.n, f.m}
	case f.flow == byeFault:
		return fmt.Errorf("%w: it failed: %s", p2p.ErrPeer, printable(f.data))
	default:
		return fmt.Errorf("%w: it closed the comm", p2p.ErrPeer)
	}
}

// write writes the queued frames until the Comm has ended.
func (c *Comm) write() {
	var spare []byte
	for open := true; open; {
		select {
		case <-c.wrote:
		case <-c.settle:
			open = false
		}
		c.mu.Lock()
		out := c.out
		if len(out) > 0 {
			c.out = spare[:0]
		}
		c.mu.Unlock()
		if len(out) == 0 {
			continue
		}
		if _, err := c.ctl.conn.Write(out); err != nil {
			_ = c.ctl.conn.Close() // the reader says that the peer is lost
			return
		}
		spare = out
	}
}
