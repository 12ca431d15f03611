package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"hcclps/p2p"
)

// linger bounds how long a Comm that ends still writes, which is a few small frames, or reads what was sent before the end.
const linger = time.Second

// Comm is one rank of a pair. It implements p2p.Comm.
type Comm struct {
	conns []net.Conn
	rank  int
	sums  bool
	wake  []chan struct{} // one a writer: tells it that there is something to write

	mu      sync.Mutex // held for bookkeeping only
	started bool
	cause   error // why the Comm is dead; nothing is queued after it is set
	lost    error // why it will be dead as soon as the first connection is read to its end

	// This side's sends, until the peer's done. The first of them are issued: they go as far as their receives are known to be posted.
	sends     queue[sending]
	issued    int
	firstSend uint64 // number of the first in sends
	ready     queue[uint64]
	nextReady uint64 // ready frames below this number have come, or will not
	lent      credit // what is on its way eagerly

	// What is issued and not yet written.
	whole   queue[outgoing] // messages that travel in one frame, on the first connection
	striped queue[outgoing] // messages of which every writer takes pieces
	writing int             // writers but the first that are writing a piece
	refusal *refusal        // a send has another length than its receive
	summed  atomic.Uint64   // pieces whose sums were made

	// This side's receives. Receives wait in recvs, from the moment they are posted until they are filled.
	recvs     queue[incoming]
	firstRecv uint64        // number of the first in recvs
	announced uint64        // receives below this number are announced, or need not be
	confirmed uint64        // receives below this number are confirmed as done
	asides    queue[*aside] // what came eagerly for the receives after recvs
	kept      credit        // how much that is
}

type transfer struct {
	buf  []byte
	done p2p.Completion
}

// outgoing is a message, or the rest of one, that can be written.
type outgoing struct {
	seq uint64
	load
	off   int  // where the next piece begins
	piece int  // bytes of a piece
	eager bool // it goes before its ready
}

// incoming is a receive and what of it has arrived.
type incoming struct {
	transfer
	claims  claims
	arrived int  // bytes
	begun   bool // a frame of it was seen; an empty message has one
	eager   bool // its message came, or is being read, without a ready
	odd     bool // its message came and has another length, which the sender will say
}

func (r *incoming) full() bool { return r.begun && r.arrived == len(r.buf) && !r.odd }

// Rank is 0 or 1.
func (c *Comm) Rank() int { return c.rank }

// Size is 2.
func (c *Comm) Size() int { return 2 }

// Transport says what carries the bytes, for people.
func (c *Comm) Transport() string { return "tcp" }

// Isend implements p2p.Comm.
func (c *Comm) Isend(peer int, b p2p.Buffer) *p2p.Request {
	return c.post(peer, b, func(done p2p.Completion) {
		c.sends.push(sending{load: loadOf(b.Host()), done: done})
		c.match()
	})
}

// Irecv implements p2p.Comm.
func (c *Comm) Irecv(peer int, b p2p.Buffer) *p2p.Request {
	return c.post(peer, b, func(done p2p.Completion) {
		c.recvs.push(incoming{transfer: transfer{b.Host(), done}})
		c.adopt()
		c.poke(0)
	})
}

func (c *Comm) post(peer int, b p2p.Buffer, add func(p2p.Completion)) *p2p.Request {
	if err := p2p.CheckPeer(c, peer); err != nil {
		return p2p.Failed(err)
	}
	if b.IsDevice() {
		return p2p.Failed(errDevice)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return p2p.Failed(p2p.Dead(c.rank, c.cause))
	}
	req, done := p2p.NewRequest()
	add(done)
	return req
}

// errDevice says what a transfer of device memory met. The Comm lives on.
var errDevice = errors.New("tcp: device memory is for the hccl backend only: copy it to the host first")

// Close implements p2p.Comm. It does not wait: pending Requests fail when the goroutines of Run have let go of their
// buffers, at most a second later, and then Run returns. The peer still learns which of its messages were taken.
func (c *Comm) Close() error {
	if c.die(p2p.ErrClosed) {
		return nil // Run does the rest
	}
	err := c.closeConns()
	c.failAll()
	if err != nil {
		return fmt.Errorf("close connection to %s: %w", c.peerName(), err)
	}
	return nil
}

func (c *Comm) closeConns() error {
	var errs []error
	for _, conn := range c.conns {
		if err := conn.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Run moves the bytes until the Comm ends, then closes the connections and fails what is pending. It returns nil after
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
		_ = c.closeConns() // they never came into use
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

// exchange reads and writes until the Comm is dead and all that does so has stopped. The first connection decides over the end.
func (c *Comm) exchange(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		c.die(fmt.Errorf("%w: %w (%w)", p2p.ErrClosed, errStopped, context.Cause(ctx)))
	})
	defer stop()
	var others sync.WaitGroup
	for k := 1; k < len(c.conns); k++ {
		others.Go(func() { c.lose(k, c.read(k)) })
		others.Go(func() { c.lose(k, c.writePieces(k)) })
	}
	readerGone := make(chan struct{})
	go func() {
		defer close(readerGone)
		c.die(c.reason(c.read(0)))
	}()
	if err := c.write(readerGone); err != nil && c.lose(0, err) {
		<-readerGone // what the peer had to say counts
	}
	_ = c.closeConns() // what matters was written, and the cause is known
	<-readerGone
	others.Wait()
	c.failAll()
}

// die records why the Comm ends, if it is the first reason, and gets the writers to stop. It says whether Run is in charge.
func (c *Comm) die(cause error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		c.setCause(cause)
	}
	return c.started
}

// setCause makes the Comm dead; c.mu is held.
func (c *Comm) setCause(cause error) {
	c.cause = cause
	for k, conn := range c.conns {
		_ = conn.SetWriteDeadline(time.Now().Add(linger)) // fails only on a connection that is closed
		c.poke(k)
	}
}

// lose notes that connection k is at its end. A peer that closes them all may still have said something on the first, so that one
// is read on, for a while. It reports false if the Comm is dead already; err nil is no reason.
func (c *Comm) lose(k int, err error) bool {
	if err == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return false
	}
	if len(c.conns) > 1 {
		err = fmt.Errorf("connection %d of %d: %w", k+1, len(c.conns), err)
	}
	if !errors.Is(err, p2p.ErrPeer) { // it broke the protocol
		c.setCause(err)
		return false
	}
	if c.lost == nil {
		c.lost = err
		_ = c.conns[0].SetReadDeadline(time.Now().Add(linger)) // fails only on a connection that is closed
	}
	return true
}

// reason is why the Comm ends when the first connection was read until err.
func (c *Comm) reason(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return c.lost
	}
	return err
}

// failAll completes what is pending, when nothing touches the buffers any more.
func (c *Comm) failAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.sends.len() > 0 {
		c.sends.pop().done.Complete(c.cause)
	}
	for c.recvs.len() > 0 {
		c.recvs.pop().done.Complete(c.cause)
	}
}

// poke makes a writer look again.
func (c *Comm) poke(writer int) {
	select {
	case c.wake[writer] <- struct{}{}:
	default:
	}
}

func (c *Comm) peerName() string {
	if len(c.conns) == 0 {
		return fmt.Sprintf("rank %d", 1-c.rank)
	}
	return fmt.Sprintf("rank %d at %s", 1-c.rank, c.conns[0].RemoteAddr())
}
