package shm

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"hcclps/p2p"
	"hcclps/p2p/shm/memfd"
)

// Comm is one rank of a pair on one host. It implements p2p.Comm, p2p.Allocator and p2p.Piecewise.
type Comm struct {
	conn   net.Conn
	rank   int
	logger *slog.Logger
	file   int // the memory's descriptor, for Alloc
	layout layout
	arena  []byte

	engine engine
	stir   chan struct{} // wakes Run

	mu        sync.Mutex // held for bookkeeping only
	cause     error      // why the Comm is dead; nothing is posted after it is set
	started   bool
	sends     queue[transfer] // posted, and not yet seen by the engine
	recvs     queue[transfer] // the same
	allocated uint64          // bytes of the arena
}

func newComm(conn net.Conn, rank int, mem *memory, file int, logger *slog.Logger) *Comm {
	c := &Comm{conn: conn, rank: rank, file: file, layout: mem.layout, arena: mem.arenaOf(rank), logger: logger, stir: make(chan struct{}, 1)}
	c.engine.mem = mem
	c.engine.own = mem.words[rank].bell
	c.engine.peer = newRinger(mem.words[1-rank].bell, conn)
	c.engine.out = newOutgoing(mem, rank, c.engine.peer)
	c.engine.in = newIncoming(mem, rank, c.engine.peer)
	return c
}

// Rank is 0 or 1.
func (c *Comm) Rank() int { return c.rank }

// Size is 2.
func (c *Comm) Size() int { return 2 }

// Transport says what carries the bytes, for people.
func (c *Comm) Transport() string { return "shm" }

// Isend implements p2p.Comm. A message from memory of Alloc is not copied on this side.
func (c *Comm) Isend(peer int, b p2p.Buffer) *p2p.Request {
	if b.IsDevice() {
		return p2p.Failed(errDevice)
	}
	return c.post(peer, true, transfer{buf: b.Host(), n: b.Len()})
}

// Irecv implements p2p.Comm.
func (c *Comm) Irecv(peer int, b p2p.Buffer) *p2p.Request {
	if b.IsDevice() {
		return p2p.Failed(errDevice)
	}
	return c.post(peer, false, transfer{buf: b.Host(), n: b.Len()})
}

// IsendFunc implements p2p.Piecewise.
func (c *Comm) IsendFunc(peer, n int, fill func(piece []byte) error) *p2p.Request {
	return c.post(peer, true, transfer{n: n, piece: fill})
}

// IrecvFunc implements p2p.Piecewise.
func (c *Comm) IrecvFunc(peer, n int, take func(piece []byte) error) *p2p.Request {
	return c.post(peer, false, transfer{n: n, piece: take})
}

// errDevice says what a transfer of device memory met. The Comm lives on.
var errDevice = errors.New("shm: device memory is for the hccl backend only")

func (c *Comm) post(peer int, send bool, t transfer) *p2p.Request {
	if peer != 1-c.rank {
		return p2p.Failed(p2p.CheckPeer(c, peer))
	}
	var req *p2p.Request
	req, t.done = p2p.NewDriven(c)
	e := &c.engine
	if e.TryLock() {
		if e.dead == nil && !e.news.Load() { // nothing was posted before that the engine has not seen
			if send {
				e.out.queue.push(t)
			} else {
				e.in.queue.push(t)
			}
			c.try(send)
			return req
		}
		e.Unlock()
	}
	c.mu.Lock()
	cause := c.cause
	if cause == nil {
		if send {
			c.sends.push(t)
		} else {
			c.recvs.push(t)
		}
		e.news.Store(true)
	}
	c.mu.Unlock()
	c.work(true)
	if cause != nil {
		return p2p.Failed(p2p.Dead(c.rank, cause))
	}
	return req
}

// Close implements p2p.Comm. It does not wait: if a goroutine is copying a piece, pending Requests fail when that is done. The memory goes
// when Run returns.
func (c *Comm) Close() error {
	c.die(p2p.ErrClosed)
	c.work(true)
	c.mu.Lock()
	started := c.started
	c.started = true
	c.mu.Unlock()
	if started {
		return nil // Run does the rest
	}
	return c.release()
}

// die records why the Comm ends, if it is the first reason.
func (c *Comm) die(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		c.cause = cause
	}
	c.engine.news.Store(true)
}

// release frees what the Comm holds, when everything pending has failed.
func (c *Comm) release() error {
	e := &c.engine
	e.Lock()
	defer e.Unlock()
	if e.mem == nil {
		return nil
	}
	if e.dead == nil {
		c.bury(c.collect())
	}
	mem := e.mem
	e.mem, e.in, e.out = nil, incoming{}, outgoing{}
	err := errors.Join(mem.unmap(), memfd.Close(c.file), c.conn.Close())
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("release shared memory of rank %d: %w", c.rank, err)
	}
	return nil
}
