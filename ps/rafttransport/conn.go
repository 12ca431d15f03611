package rafttransport

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/internal/vec"
)

// smallPayload is the size below which copying a payload beside its header beats another element of writev.
const smallPayload = 4 << 10

var (
	// errLost is in the error of requests whose connection failed before they were answered.
	errLost = errors.New("lost the connection")
	// errMoved is the error of entries that the log does not hold any more; raft reads them again.
	errMoved = errors.New("entries have left the log")
)

// conn is a connection that we dialled: requests go out, answers come in, any number in flight.
type conn struct {
	mux   *Mux
	id    raft.ServerAddress
	nc    net.Conn
	turn  chan struct{} // held by who writes
	dead  chan struct{}
	heard atomic.Uint64 // answers so far

	mu      sync.Mutex // never held over I/O or a wait
	err     error
	calls   map[uint64]*call
	lastID  uint64
	scratch []byte // the holder of turn's
	vec     net.Buffers
}

// call is a request in flight.
type call struct {
	id    uint64
	heard uint64 // answers on its connection when it was sent
	done  chan struct{}
	reply reply
}

func newConn(m *Mux, id raft.ServerAddress, nc net.Conn) *conn {
	return &conn{mux: m, id: id, nc: nc, turn: make(chan struct{}, 1), dead: make(chan struct{}), calls: map[uint64]*call{}}
}

// fail closes the connection; the first error is the cause.
func (c *conn) fail(err error) {
	c.mu.Lock()
	first := c.err == nil
	if first {
		c.err = err
		clear(c.calls)
	}
	c.mu.Unlock()
	if first {
		close(c.dead)
		_ = c.nc.Close()
	}
}

func (c *conn) alive() bool {
	select {
	case <-c.dead:
		return false
	default:
		return true
	}
}

func (c *conn) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *conn) lost() error {
	return fmt.Errorf("%w to server %s: %w", errLost, c.id, c.cause())
}

// read completes calls until the connection fails, and says why it did.
func (c *conn) read() error {
	r := newFrameReader(c.nc, maxControlHead)
	for {
		f, err := r.next()
		if err != nil {
			return err
		}
		answer, err := decodeReply(f)
		if err != nil {
			return err
		}
		c.heard.Add(1)
		c.mu.Lock()
		call := c.calls[f.id]
		delete(c.calls, f.id)
		c.mu.Unlock()
		if call != nil { // else its caller has given up
			call.reply = answer
			close(call.done)
		}
	}
}

// begin sends a request; its answer is had by wait. limit bounds the sending; it ends early when the transport is closed.
func (c *conn) begin(t *Transport, k kind, cmd any, limit time.Duration) (*call, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case c.turn <- struct{}{}:
	case <-c.dead:
		return nil, c.lost()
	case <-t.done:
		return nil, ErrClosed
	case <-timer.C:
		return nil, fmt.Errorf("send to server %s: others are still sending after %v", c.id, limit)
	}
	defer func() { <-c.turn }()

	call := &call{heard: c.heard.Load(), done: make(chan struct{})}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return nil, c.lost()
	}
	c.lastID++
	call.id = c.lastID
	c.calls[call.id] = call
	c.mu.Unlock()
	whole, err := c.write(t, k, call.id, cmd, limit)
	if err != nil {
		c.forget(call)
		if !whole {
			c.fail(err)
			return nil, c.lost()
		}
		return nil, err
	}
	return call, nil
}

// write sends one request. whole is false if a part of it may be on the wire, so that the connection is of no use any more.
func (c *conn) write(t *Transport, k kind, id uint64, cmd any, limit time.Duration) (whole bool, err error) {
	var entries []*raft.Log
	if a, ok := cmd.(*raft.AppendEntriesRequest); ok && len(a.Entries) > 0 {
		entries = a.Entries
		release, ok := t.log.Pin(entries)
		if !ok {
			return true, errMoved
		}
		defer release()
	}
	room := frameHeader + 1<<10
	for _, e := range entries {
		if n := len(e.Extensions); n != 0 && n != 4 {
			return true, fmt.Errorf("send entry %d to server %s: extensions of %d bytes: only a checksum of 4 can be sent", e.Index, c.id, n)
		}
		room += entryBytes
		if len(e.Data) < smallPayload {
			room += len(e.Data)
		}
	}
	b, err := appendHead(beginFrame(slices.Grow(c.scratch[:0], room), k, id, t.group), string(c.id), cmd, t.checksum)
	if err == nil {
		err = sealFrame(b)
	}
	if err != nil {
		return true, err
	}
	vec, from := c.vec[:0], 0
	for _, e := range entries {
		if len(e.Data) < smallPayload {
			b = append(b, e.Data...)
			continue
		}
		if from < len(b) {
			vec = append(vec, b[from:len(b):len(b)]) // stays right when b moves
		}
		vec, from = append(vec, e.Data), len(b)
	}
	if from < len(b) {
		vec = append(vec, b[from:])
	}
	c.scratch, c.vec = b, vec
	if cap(b) > sendBatch+maxHead {
		c.scratch = nil
	}
	if err := c.nc.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		return false, err
	}
	_, err = vec.WriteTo(c.nc) // takes from vec, and clears what it took
	clear(c.vec)
	return err == nil, err
}

// checksum is the CRC of an entry's payload, made here only if the log does not know it.
func (t *Transport) checksum(e *raft.Log) uint32 {
	if crc, ok := t.log.Checksum(e); ok {
		return crc
	}
	return vec.CRC32C(0, e.Data)
}

// forget gives a call up; its answer will be ignored.
func (c *conn) forget(call *call) {
	c.mu.Lock()
	delete(c.calls, call.id)
	c.mu.Unlock()
}

// wait waits for the answer, at most limit, or until give or stop is closed. A connection that has been silent all the while is
// closed.
func (c *conn) wait(call *call, limit time.Duration, give, stop <-chan struct{}) (reply, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-call.done:
		return call.reply, nil
	case <-c.dead:
		select {
		case <-call.done: // answered just before
			return call.reply, nil
		default:
			return reply{}, c.lost()
		}
	case <-give:
	case <-stop:
	case <-timer.C:
		c.forget(call)
		if c.heard.Load() == call.heard {
			c.fail(fmt.Errorf("silent for %v", limit))
		}
		return reply{}, fmt.Errorf("server %s has not answered in %v", c.id, limit)
	}
	c.forget(call)
	return reply{}, ErrClosed
}
