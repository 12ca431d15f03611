package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"hcclps/p2p"
)

// linger bounds how long a Comm that ends still writes: what it owes the peer is a few small frames.
const linger = time.Second

// Comm is one rank of a pair. It implements p2p.Comm.
type Comm struct {
	conn net.Conn
	rank int
	wake chan struct{} // tells the writer that there is something to gather

	mu      sync.Mutex // held for bookkeeping only
	started bool
	cause   error // why the Comm is dead; nothing is queued after it is set

	// This side's sends. A send waits in sends for the peer's ready, then in sent for the peer's done.
	sends     queue[transfer]
	sent      queue[transfer]
	firstSend uint64 // number of the first in sends
	firstSent uint64 // number of the first in sent
	ready     queue[uint64]
	nextReady uint64 // number of the next ready frame

	// This side's receives. Receives wait in recvs, from the moment they are posted until they are filled.
	recvs     queue[transfer]
	firstRecv uint64 // number of the first in recvs
	announced uint64 // receives below this number are announced
	confirmed uint64 // receives below this number are confirmed as done
}

type transfer struct {
	buf  []byte
	done p2p.Completion
}

// Pair makes rank 0 or 1 of a 2-rank Comm over conns, the other ends of which must be given to the other rank in the same order. The
// Comm owns them from now on. It starts nothing: call Run, or Close if it is not to run.
func Pair(conns []net.Conn, rank int) *Comm {
	c := &Comm{conn: conns[0], rank: rank, wake: make(chan struct{}, 1)}
	if rank != 0 && rank != 1 {
		c.cause = fmt.Errorf("make rank %d of a pair: %w", rank, p2p.ErrRank)
	}
	return c
}

// Rank is 0 or 1.
func (c *Comm) Rank() int { return c.rank }

// Size is 2.
func (c *Comm) Size() int { return 2 }

// Isend implements p2p.Comm.
func (c *Comm) Isend(peer int, b p2p.Buffer) *p2p.Request { return c.post(peer, b, &c.sends) }

// Irecv implements p2p.Comm.
func (c *Comm) Irecv(peer int, b p2p.Buffer) *p2p.Request { return c.post(peer, b, &c.recvs) }

func (c *Comm) post(peer int, b p2p.Buffer, q *queue[transfer]) *p2p.Request {
	if err := p2p.CheckPeer(c, peer); err != nil {
		return p2p.Failed(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return p2p.Failed(p2p.Dead(c.rank, c.cause))
	}
	req, done := p2p.NewRequest()
	q.push(transfer{b.Host(), done})
	c.poke()
	return req
}

// Close implements p2p.Comm. It does not wait: pending Requests fail when the goroutines of Run have let go of their
// buffers, at most a second later, and then Run returns. The peer still learns which of its messages were taken.
func (c *Comm) Close() error {
	if c.die(p2p.ErrClosed) {
		return nil // Run does the rest
	}
	err := c.conn.Close()
	c.failAll()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close connection to %s: %w", c.peerName(), err)
	}
	return nil
}

// Run moves the bytes until the Comm ends, then closes the connection and fails what is pending. It returns nil after
// Close, the cause of ctx's end, or the error that killed the Comm; a peer that closes is ErrPeer. It runs once.
func (c *Comm) Run(ctx context.Context) error {
	c.mu.Lock()
	cause, again := c.cause, c.started
	c.started = c.started || cause == nil
	c.mu.Unlock()
	if again {
		return fmt.Errorf("run comm with %s: it was run before", c.peerName())
	}
	if cause == nil {
		c.exchange(ctx)
	} else {
		_ = c.conn.Close() // it never came into use
	}
	c.mu.Lock()
	cause = c.cause
	c.mu.Unlock()
	switch {
	case errors.Is(cause, errStopped):
		return context.Cause(ctx)
	case errors.Is(cause, p2p.ErrClosed):
		return nil
	default:
		return fmt.Errorf("exchange with %s: %w", c.peerName(), cause)
	}
}

// errStopped marks the end of Run's context among causes.
var errStopped = errors.New("run ended")

// exchange reads and writes until the Comm is dead and both have stopped.
func (c *Comm) exchange(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		c.die(fmt.Errorf("%w: %w (%w)", p2p.ErrClosed, errStopped, context.Cause(ctx)))
	})
	defer stop()
	readerGone := make(chan struct{})
	go func() {
		defer close(readerGone)
		c.die(c.read())
	}()
	c.die(c.write(readerGone))
	_ = c.conn.Close() // what matters was written, and the cause is known
	<-readerGone
	c.failAll()
}

// die records why the Comm ends, if it is the first reason, and gets the writer to stop. It says whether Run is in charge.
func (c *Comm) die(cause error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		c.setCause(cause)
	}
	c.poke()
	return c.started
}

// setCause makes the Comm dead; c.mu is held.
func (c *Comm) setCause(cause error) {
	c.cause = cause
	_ = c.conn.SetWriteDeadline(time.Now().Add(linger)) // fails only on a connection that is closed
}

// failAll completes what is pending, when nothing touches the buffers any more.
func (c *Comm) failAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range []*queue[transfer]{&c.sent, &c.sends, &c.recvs} {
		for q.len() > 0 {
			q.pop().done.Complete(c.cause)
		}
	}
}

// poke makes the writer look again.
func (c *Comm) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *Comm) peerName() string {
	return fmt.Sprintf("rank %d at %s", 1-c.rank, c.conn.RemoteAddr())
}
