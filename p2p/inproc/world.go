package inproc

import (
	"fmt"
	"sync"

	"hcclps/p2p"
)

// World makes n connected ranks. The bytes of a message are copied, once, by whichever of Isend and Irecv comes second.
func World(n int) []p2p.Comm {
	w := &world{
		size:  n,
		dead:  make([]error, n),
		lanes: make([]lane, n*n),
	}
	comms := make([]p2p.Comm, n)
	for r := range comms {
		comms[r] = &rank{world: w, rank: r}
	}
	return comms
}

// world is the state that the ranks share.
type world struct {
	size int

	mu    sync.Mutex // held to match and to fail transfers, never to copy
	dead  []error    // per rank: why it is dead, nil while it lives
	lanes []lane     // src*size + dst
}

// lane holds what waits from one rank to another. At most one of the two is not empty.
type lane struct {
	sends, recvs []transfer
}

type transfer struct {
	buf  []byte
	done p2p.Completion
}

type rank struct {
	world *world
	rank  int
}

func (r *rank) Rank() int { return r.rank }
func (r *rank) Size() int { return r.world.size }

func (r *rank) Isend(peer int, b p2p.Buffer) *p2p.Request {
	if err := p2p.CheckPeer(r, peer); err != nil {
		return p2p.Failed(err)
	}
	req, done := p2p.NewRequest()
	mine := transfer{b.Host(), done}
	if other, ok := r.world.post(r.rank, peer, mine, true); ok {
		move(other, mine)
	}
	return req
}

func (r *rank) Irecv(peer int, b p2p.Buffer) *p2p.Request {
	if err := p2p.CheckPeer(r, peer); err != nil {
		return p2p.Failed(err)
	}
	req, done := p2p.NewRequest()
	mine := transfer{b.Host(), done}
	if other, ok := r.world.post(r.rank, peer, mine, false); ok {
		move(mine, other)
	}
	return req
}

func (r *rank) Close() error {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	r.world.kill(r.rank, p2p.ErrClosed)
	return nil
}

func move(to, from transfer) {
	copy(to.buf, from.buf)
	to.done.Complete(nil)
	from.done.Complete(nil)
}

// post matches a transfer of rank self with one of peer, which it returns, or makes it wait, or fails it.
func (w *world) post(self, peer int, t transfer, send bool) (transfer, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if cause := w.dead[self]; cause != nil {
		t.done.Complete(p2p.Dead(self, cause))
		return transfer{}, false
	}
	if cause := w.dead[peer]; cause != nil {
		err := lost(peer, cause)
		t.done.Complete(err)
		w.kill(self, err)
		return transfer{}, false
	}
	mine, theirs := w.queues(self, peer, send)
	if len(*theirs) == 0 {
		*mine = append(*mine, t)
		return transfer{}, false
	}
	other := (*theirs)[0]
	if *theirs = (*theirs)[1:]; len(*theirs) == 0 {
		*theirs = nil
	}
	if len(other.buf) != len(t.buf) {
		err := fmt.Errorf("match transfer of %d bytes at rank %d with %d bytes at rank %d: %w",
			len(t.buf), self, len(other.buf), peer, p2p.ErrLength)
		t.done.Complete(err)
		other.done.Complete(err)
		w.kill(self, err)
		w.kill(peer, err)
		return transfer{}, false
	}
	return other, true
}

// queues finds where a transfer of self waits, and where its match from peer would.
func (w *world) queues(self, peer int, send bool) (mine, theirs *[]transfer) {
	if send {
		l := &w.lanes[self*w.size+peer]
		return &l.sends, &l.recvs
	}
	l := &w.lanes[peer*w.size+self]
	return &l.recvs, &l.sends
}

// kill makes a rank dead, unless it is, and fails all it waits for; a peer with an unfinished transfer dies with it.
// Peers that wait for nothing from it live until they ask. w.mu is held.
func (w *world) kill(self int, cause error) {
	if w.dead[self] != nil {
		return
	}
	w.dead[self] = cause
	for peer := range w.size {
		if peer == self {
			continue
		}
		out, in := &w.lanes[self*w.size+peer], &w.lanes[peer*w.size+self]
		fail(&out.sends, cause)
		fail(&in.recvs, cause)
		err := lost(self, cause)
		if fail(&out.recvs, err)+fail(&in.sends, err) > 0 {
			w.kill(peer, err)
		}
	}
}

func fail(q *[]transfer, err error) int {
	n := len(*q)
	for _, t := range *q {
		t.done.Complete(err)
	}
	*q = nil
	return n
}

// lost does not wrap the peer's cause: what is true of the peer, such as ErrClosed, is not true of who waits for it.
func lost(peer int, cause error) error {
	return fmt.Errorf("reach rank %d (%s): %w", peer, cause.Error(), p2p.ErrPeer)
}
