package inproc

import (
	"context"
	"sync"
	"time"

	"hcclps/p2p"
)

// Fabric is a network between ranks of one process, whose messages take the time that they would take on it. It goes by the clock of package
// time: in a testing/synctest bubble it is exact and costs nothing. A rate of zero is no limit, in bytes a second.
//
// A message passes the sender's port, the link of the two ranks, where they are on two hosts the way out of the one and into the other, and the receiver's
// port. Each carries one message after the other; the next begins as soon as the first byte is there. Messages from one rank to another keep their order.
type Fabric struct {
	Overhead time.Duration // in which a sender's port does nothing else, for each message
	Port     float64       // of a rank, in each direction
	Link     Link          // of two ranks of one host
	Hosts    []int         // a number for each rank, equal on one host; nil: all are on one
	Across   Link          // of two ranks of different hosts; Link if it is zero
	Uplink   float64       // of a host, in each direction
}

// Link is the quality of a connection between two ranks.
type Link struct {
	Latency   time.Duration // of the first byte
	Bandwidth float64
}

// World makes n ranks that the fabric connects.
func (f Fabric) World(n int) []p2p.Comm {
	if f.Across == (Link{}) {
		f.Across = f.Link
	}
	s := &fabric{Fabric: f, size: n, lanes: make([]shapedLane, n*n), out: make([]pipe, n), in: make([]pipe, n)}
	for i := range n {
		s.out[i].rate, s.in[i].rate = f.Port, f.Port
	}
	if f.Hosts != nil {
		s.up, s.down = make(map[int]*pipe), make(map[int]*pipe)
		for _, h := range f.Hosts {
			s.up[h], s.down[h] = &pipe{rate: f.Uplink}, &pipe{rate: f.Uplink}
		}
	}
	comms := World(n)
	for r, c := range comms {
		comms[r] = &shapedRank{Comm: c, fabric: s}
	}
	return comms
}

// pipe carries one message after the other.
type pipe struct {
	rate float64
	free time.Time // when it has carried all that it was given
}

// pass is when a message of n bytes, whose first byte is here now and whose last byte comes at end, begins to leave, and when it has left.
func (p *pipe) pass(now, end time.Time, n int) (head, tail time.Time) {
	if head = now; head.Before(p.free) {
		head = p.free
	}
	if p.rate > 0 {
		tail = head.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	} else {
		tail = head
	}
	if tail.Before(end) {
		tail = end
	}
	p.free = tail
	return head, tail
}

// fabric is the state of a Fabric.
type fabric struct {
	Fabric
	size int

	mu       sync.Mutex
	out, in  []pipe // by rank
	up, down map[int]*pipe
	lanes    []shapedLane // src*size + dst
}

// shapedLane is what is under way from one rank to another.
type shapedLane struct {
	link  pipe
	queue []transfer
}

type shapedRank struct {
	p2p.Comm
	fabric *fabric
}

// Isend lets the bytes pass through the fabric; the receive takes them when they are there.
func (r *shapedRank) Isend(peer int, b p2p.Buffer) *p2p.Request {
	if err := p2p.CheckPeer(r, peer); err != nil {
		return p2p.Failed(err)
	}
	req, done := p2p.NewRequest()
	f, src := r.fabric, r.Rank()
	f.mu.Lock()
	defer f.mu.Unlock()
	lane := &f.lanes[src*f.size+peer]
	lane.queue = append(lane.queue, transfer{b.Host(), done})
	now := time.Now()
	head, tail := f.out[src].pass(now, now, b.Len())
	f.out[src].free = f.out[src].free.Add(f.Overhead)
	r.carry(f.path(src, peer), peer, b.Len(), head.Add(f.Overhead), tail.Add(f.Overhead))
	return req
}

// path is the pipes that a message passes after its sender's port, and the link's latency.
func (f *fabric) path(src, dst int) route {
	lane := &f.lanes[src*f.size+dst].link
	if f.Hosts == nil || f.Hosts[src] == f.Hosts[dst] {
		lane.rate = f.Link.Bandwidth
		return route{f.Link.Latency, []*pipe{lane, &f.in[dst]}}
	}
	lane.rate = f.Across.Bandwidth
	return route{f.Across.Latency, []*pipe{lane, f.up[f.Hosts[src]], f.down[f.Hosts[dst]], &f.in[dst]}}
}

type route struct {
	latency time.Duration
	pipes   []*pipe
}

// carry takes a message on through what is left of its route; its first byte is there at head, its last at tail. f.mu is held.
func (r *shapedRank) carry(on route, peer, n int, head, tail time.Time) {
	f := r.fabric
	if wait := time.Until(head); wait > 0 && len(on.pipes) > 0 {
		time.AfterFunc(wait, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			r.carry(on, peer, n, head, tail)
		})
		return
	}
	if len(on.pipes) == 0 {
		time.AfterFunc(time.Until(tail), func() { r.arrive(peer) })
		return
	}
	head, tail = on.pipes[0].pass(head, tail, n)
	r.carry(route{0, on.pipes[1:]}, peer, n, head.Add(on.latency), tail.Add(on.latency))
}

// arrive hands over the oldest message to a peer.
func (r *shapedRank) arrive(peer int) {
	f := r.fabric
	f.mu.Lock()
	lane := &f.lanes[r.Rank()*f.size+peer]
	oldest := lane.queue[0]
	lane.queue = lane.queue[1:]
	req := r.Comm.Isend(peer, p2p.Bytes(oldest.buf)) // under the lock, which keeps the order
	f.mu.Unlock()
	oldest.done.Complete(req.Wait(context.Background())) // which ends with the Comm
}
