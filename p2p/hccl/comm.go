package hccl

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hcclps/p2p"
)

const (
	// lingerFor bounds how long a Comm that ends waits for the peer to end with it, and for what is on its stream.
	lingerFor = time.Second
	// grace bounds how long it waits for what is on its stream when the peer is lost. A peer that exits when its last send
	// is complete has given the device all, while this side may have to copy it yet.
	grace = 100 * time.Millisecond
)

// Comm is one rank of a pair of devices. It implements p2p.Comm and p2p.Piecewise.
type Comm struct {
	d     *Device
	rank  int
	ctl   *control
	bond  *bond
	piece int

	broken atomic.Bool   // nothing may be issued any more
	ending chan struct{} // closed when cause is set
	settle chan struct{} // closed when there is nothing left to wait for
	lost   chan struct{} // closed when the connection has ended
	wrote  chan struct{} // tells the writer that there are frames

	mu      sync.Mutex
	started bool
	over    bool  // closed without a Run
	cause   error // why the Comm is dead
	local   bool  // this side closed it
	half    [flows]*half
	plan    *plan       // rank 0 only
	steps   queue[step] // agreed and not issued
	idle    []*mark     // marks that no operator uses
	waiting int         // events that are waited for
	taking  bool        // a received piece is with its taker
	out     []byte      // frames to write
	bye     bool        // the peer plans and offers no more
	drained bool        // this side has told that nothing is left on its streams
	peerDry bool        // the peer has
	gone    bool        // the connection has ended
	settled bool
	pins    []pin
	stats   Stats
}

// Stats is what a Comm has moved, and how long the device took: the time between the events before and after each
// operator, which includes the wait for the peer's.
type Stats struct {
	Sends, Recvs         uint64 // operators
	SentBytes, RecvBytes uint64
	SendTime, RecvTime   time.Duration
}

func newComm(d *Device, p *pairing) *Comm {
	rank := p.mine.Rank
	c := &Comm{
		d: d, rank: rank, ctl: p.control, bond: p.bond, piece: p.piece,
		ending: make(chan struct{}), settle: make(chan struct{}), lost: make(chan struct{}), wrote: make(chan struct{}, 1),
		idle: slices.Clone(p.bond.marks),
	}
	for f := range flows {
		c.half[f] = newHalf(f, f == rank)
	}
	if rank == 0 {
		c.plan = &plan{piece: uint64(p.piece), whole: wholeStep}
	}
	p.bond.watched.comm, p.bond.watched.fail = p.bond.comm, c.fault
	d.waiter.watch(p.bond.watched)
	d.live.Add(1)
	d.mu.Lock()
	d.comms[c] = struct{}{}
	d.mu.Unlock()
	return c
}

// wholeStep is the most bytes of one operator between two device memories.
const wholeStep = 256 << 20

// Rank is 0 or 1.
func (c *Comm) Rank() int { return c.rank }

// Size is 2.
func (c *Comm) Size() int { return 2 }

// Transport says what carries the bytes, for people.
func (c *Comm) Transport() string { return "hccl" }

// Stats tells what was moved so far.
func (c *Comm) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Isend implements p2p.Comm. Memory of another device than this Comm's is ErrMemory, and the Comm lives on.
func (c *Comm) Isend(peer int, b p2p.Buffer) *p2p.Request { return c.postBuffer(peer, b, c.rank) }

// Irecv implements p2p.Comm, with memory as for Isend.
func (c *Comm) Irecv(peer int, b p2p.Buffer) *p2p.Request { return c.postBuffer(peer, b, 1-c.rank) }

// IsendFunc implements p2p.Piecewise: fill writes into pinned memory.
func (c *Comm) IsendFunc(peer, n int, fill func(piece []byte) error) *p2p.Request {
	return c.post(peer, c.rank, &message{n: n, move: fill})
}

// IrecvFunc implements p2p.Piecewise: take reads from pinned memory.
func (c *Comm) IrecvFunc(peer, n int, take func(piece []byte) error) *p2p.Request {
	return c.post(peer, 1-c.rank, &message{n: n, move: take})
}

func (c *Comm) postBuffer(peer int, b p2p.Buffer, flow int) *p2p.Request {
	if b.IsDevice() {
		if b.DeviceID() != c.d.cfg.Device {
			return p2p.Failed(fmt.Errorf("use memory of device %d on device %d: %w", b.DeviceID(), c.d.cfg.Device, ErrMemory))
		}
		return c.post(peer, flow, &message{n: b.Len(), ptr: b.DevicePointer()})
	}
	host := b.Host()
	if at := c.pinned(host); at != 0 {
		return c.post(peer, flow, &message{n: len(host), move: keep, pinned: at})
	}
	move := func(piece []byte) error {
		host = host[copy(host, piece):]
		return nil
	}
	if flow == c.rank {
		move = func(piece []byte) error {
			host = host[copy(piece, host):]
			return nil
		}
	}
	return c.post(peer, flow, &message{n: b.Len(), move: move})
}

// post queues a message and tells rank 0 of it.
func (c *Comm) post(peer, flow int, m *message) *p2p.Request {
	if err := p2p.CheckPeer(c, peer); err != nil {
		return p2p.Failed(err)
	}
	if m.n < 0 {
		return p2p.Failed(fmt.Errorf("transfer %d bytes: %w", m.n, p2p.ErrLength))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return p2p.Failed(p2p.Dead(c.rank, c.cause))
	}
	req, done := p2p.NewRequest()
	m.req = done
	h := c.half[flow]
	h.post(m)
	c.announce(frame{kind: kindPost, flow: uint8(flow), device: m.device(), n: uint64(m.n)}, c.rank)
	h.poke()
	c.pump()
	return req
}

// announce tells rank 0, which may be this side, what rank has to offer.
func (c *Comm) announce(f frame, rank int) {
	if c.plan == nil {
		c.queue(f)
		return
	}
	w := &c.plan.flow[f.flow]
	switch sender := int(f.flow) == rank; {
	case f.kind == kindStaged:
		w.staged += int(f.n)
	case f.kind == kindRoom:
		w.room += int(f.n)
	case sender:
		w.sends.push(posted{f.n, f.device})
	default:
		w.recvs.push(posted{f.n, f.device})
	}
}

// queue queues a frame for the writer.
func (c *Comm) queue(f frame) {
	c.out = f.appendTo(c.out)
	select {
	case c.wrote <- struct{}{}:
	default:
	}
}

// pump issues what can be issued. c.mu is held.
func (c *Comm) pump() {
	for !c.broken.Load() && !c.gone && len(c.idle) > 0 {
		if c.steps.len() == 0 && !c.decide() {
			break
		}
		s := c.steps.pop()
		h := c.half[s.flow]
		w, ok := h.take(s)
		if !ok {
			c.breakOff(fmt.Errorf("%w: it asked for a step of %d bytes that was not offered", p2p.ErrPeer, s.n))
			return
		}
		if s.n == 0 {
			c.finish(h)
			continue
		}
		k := c.idle[len(c.idle)-1]
		c.idle = c.idle[:len(c.idle)-1]
		c.launch(h, k, w)
	}
	c.checkSettled()
}

// decide lets rank 0 plan one more step, and tells the peer.
func (c *Comm) decide() bool {
	if c.plan == nil || c.cause != nil {
		return false
	}
	s, ok, err := c.plan.next()
	if e := (*lengthError)(nil); errors.As(err, &e) {
		c.die(err, frame{kind: kindBye, flow: byeLength, n: e.sent, m: e.room, data: []byte{byte(e.flow)}})
		return false
	}
	if !ok {
		return false
	}
	c.queue(frame{kind: kindStep, flow: uint8(s.flow), last: s.last, n: s.n})
	c.steps.push(s)
	return true
}

// launch hands an operator to the issuer, and its events to the waiter.
func (c *Comm) launch(h *half, k *mark, w work) {
	c.waiting++
	staged := !h.sends && w.s != nil
	if staged {
		c.waiting++
	}
	c.onIssuer(func() error {
		launched := time.Now()
		if err := c.bond.issue(c.d.lib, k, w, h.sends, 1-c.rank); err != nil {
			return err
		}
		c.d.waiter.await(c.bond.ops, k.end, func(err error) { c.operated(h, k, w, c.d.verdict(c.bond, launched, err)) })
		if !staged {
			return nil
		}
		if err := c.bond.download(c.d.lib, k, w); err != nil {
			return err
		}
		c.d.waiter.await(c.bond.downs, w.s.copied, func(err error) { c.downloaded(h, k, w, c.d.verdict(c.bond, launched, err)) })
		return nil
	})
}

// onIssuer runs f there, unless the Comm is broken by then. A failure breaks it.
func (c *Comm) onIssuer(f func() error) {
	c.d.issuer.post(func() {
		if c.broken.Load() {
			return
		}
		if err := f(); err != nil {
			c.fault(err)
		}
	})
}

// operated is called when an operator is through, on the waiter.
func (c *Comm) operated(h *half, k *mark, w work, err error) {
	if err != nil {
		c.fault(err)
		return
	}
	ms, _ := c.d.lib.EventElapsed(k.start, k.end) // only a figure
	took := time.Duration(float64(ms) * float64(time.Millisecond))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting--
	if h.sends {
		c.stats.Sends++
		c.stats.SentBytes += uint64(w.n)
		c.stats.SendTime += took
	} else {
		c.stats.Recvs++
		c.stats.RecvBytes += uint64(w.n)
		c.stats.RecvTime += took
	}
	if !h.sends && w.s != nil {
		return // the copy that waits for the mark is next
	}
	c.idle = append(c.idle, k)
	w.m.finished += w.n
	if w.s != nil {
		c.give(h, w.s)
	}
	c.finish(h)
	c.pump()
}

// downloaded is called when a received piece is on the host, on the waiter.
func (c *Comm) downloaded(h *half, k *mark, w work, err error) {
	if err != nil {
		c.fault(err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting--
	c.idle = append(c.idle, k)
	h.arrived.push(piece{w.s, w.m, w.n, w.at})
	h.poke()
	c.pump()
}
