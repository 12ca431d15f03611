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
		c.work(true)
	})
	defer stop()
	var watching sync.WaitGroup
	watching.Go(c.listen)
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

// serve does what those who post leave to it, until the Comm is dead. It returns the cause.
func (c *Comm) serve() error {
	e := &c.engine
	tick := time.NewTicker(coolAfter)
	defer tick.Stop()
	for {
		e.Lock()
		dead, hot := e.dead, e.heat.idle()
		e.Unlock()
		if dead != nil {
			return dead
		}
		c.work(false) // for what others found the engine taken, and when it has cooled, to ask the peer for rings
		if !hot {
			<-c.stir
			continue
		}
		tick.Reset(coolAfter)
		select {
		case <-c.stir:
		case <-tick.C:
		}
	}
}

// listen moves bytes whenever the peer rings, and ends the Comm when the connection ends, as it does when the peer's process dies.
func (c *Comm) listen() {
	var b [16]byte
	for {
		n, err := c.conn.Read(b[:])
		for _, x := range b[:n] {
			if x != ringByte {
				err = fmt.Errorf("it sent %#02x, which nobody asked for", x)
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("connection closed")
			}
			c.die(fmt.Errorf("%w: %w", p2p.ErrPeer, err))
			c.work(false)
			return
		}
		c.engine.news.Store(true) // for one who has the engine
		c.work(false)
	}
}

func (c *Comm) peerName() string {
	return fmt.Sprintf("rank %d at %s", 1-c.rank, c.conn.RemoteAddr())
}
