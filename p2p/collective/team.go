package collective

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"hcclps/p2p"
)

// exchange is what one operation does with a Comm. It puts the fingerprint before the first message to each peer and
// compares the one before the first message from each, so that algorithms need not know of them. One goroutine uses it.
type exchange struct {
	comm     p2p.Comm
	ctx      context.Context //nolint:containedctx // of one operation, which is one call of a function
	name     func(rank int) int
	progress *atomic.Uint64 // counts what has arrived and what was taken
	shared   *sharing       // nil: no memory is shared

	call    Call
	edges   []edge     // by peer
	unheard int        // edges whose fingerprint is awaited
	open    []*message // begun, and not yet seen to end
	spare   []*message // for the next operation
	used    []*message // of this one
	scratch arena
}

// edge is what passes between this rank and a peer. Its frames live as long as the group.
type edge struct {
	out, in [frameSize]byte

	said  bool         // the fingerprint went out
	asked bool         // the peer's is awaited
	heard bool         // it came and is equal
	hello *p2p.Request // its receive
	held  []*message   // receives that wait for it: what a peer sends that called something else may be of another length

	last  Call // the last that is known of the peer
	known bool
}

// message is a send or a receive under way. The zero length after a first message takes no message.
type message struct {
	peer  int
	send  bool
	buf   []byte
	frame *p2p.Request // of a first send
	data  *p2p.Request
	ended bool
}

func newExchange(comm p2p.Comm, name func(int) int, progress *atomic.Uint64) *exchange {
	return &exchange{comm: comm, name: name, progress: progress, edges: make([]edge, comm.Size())}
}

// begin prepares for the next operation.
func (x *exchange) begin(ctx context.Context, c Call) {
	x.ctx, x.call, x.unheard = ctx, c, 0
	x.open = x.open[:0]
	x.spare, x.used = append(x.spare, x.used...), x.used[:0]
	x.scratch.reset()
	if x.shared != nil {
		x.shared.begin()
	}
	for i := range x.edges {
		e := &x.edges[i]
		e.said, e.asked, e.heard, e.hello, e.held = false, false, false, nil, e.held[:0]
	}
}

// send begins to send b to a rank of the Comm. b must not change until the message has ended.
func (x *exchange) send(peer int, b []byte) *message {
	m := x.message(message{peer: peer, send: true, buf: b})
	e := &x.edges[peer]
	switch {
	case !e.said:
		e.said = true
		f := fingerprint{call: x.call, length: len(b)}
		if len(b) <= inlineMax {
			f.inline = copy(e.out[printSize:], b)
		}
		f.encode(e.out[:])
		m.frame = x.comm.Isend(peer, p2p.Bytes(e.out[:]))
		if len(b) > inlineMax {
			m.data = x.comm.Isend(peer, p2p.Bytes(b))
		}
	case len(b) == 0:
		m.ended = true
		return m
	default:
		m.data = x.comm.Isend(peer, p2p.Bytes(b))
	}
	x.track(m)
	return m
}

// recv begins to fill b from a rank of the Comm.
func (x *exchange) recv(peer int, b []byte) *message {
	m := x.message(message{peer: peer, buf: b})
	e := &x.edges[peer]
	if !e.asked {
		e.asked = true
		x.unheard++
		e.hello = x.comm.Irecv(peer, p2p.Bytes(e.in[:]))
	} else if len(b) == 0 {
		m.ended = true
		return m
	}
	x.track(m)
	if e.heard {
		m.data = x.comm.Irecv(peer, p2p.Bytes(b))
	} else {
		e.held = append(e.held, m)
	}
	return m
}

// message makes one that lives until the next operation begins.
func (x *exchange) message(content message) *message {
	var m *message
	if n := len(x.spare); n > 0 {
		m, x.spare = x.spare[n-1], x.spare[:n-1]
	} else {
		m = new(message)
	}
	*m = content
	x.used = append(x.used, m)
	return m
}

func (x *exchange) track(m *message) {
	if len(x.open) == cap(x.open) {
		kept := x.open[:0]
		for _, o := range x.open {
			if !o.ended {
				kept = append(kept, o)
			}
		}
		x.open = slices.Grow(kept, len(kept)+1) // so that this is rare
	}
	x.open = append(x.open, m)
}

// wait returns when the messages have ended: sent bytes may change then, received ones are there and are those of the same call.
func (x *exchange) wait(ms ...*message) error {
	for _, m := range ms {
		if m == nil || m.ended {
			continue
		}
		if !m.send {
			if err := x.hear(m.peer); err != nil {
				return err
			}
		}
		if err := x.await(m.frame); err != nil {
			return err
		}
		if err := x.await(m.data); err != nil {
			return err
		}
		m.ended = true
	}
	return nil
}

// flush waits for all that was begun.
func (x *exchange) flush() error {
	err := x.wait(x.open...)
	if err == nil {
		x.open = x.open[:0]
	}
	return err
}

// await waits for a Request; nil has ended.
func (x *exchange) await(r *p2p.Request) error {
	if r == nil {
		return nil
	}
	if err := r.Wait(x.ctx); err != nil {
		return err
	}
	x.progress.Add(1)
	return nil
}

// hear waits for the fingerprint of a peer, and takes those of others that have come.
func (x *exchange) hear(peer int) error {
	if x.unheard == 0 {
		return nil
	}
	if e := &x.edges[peer]; e.asked && !e.heard {
		if err := x.await(e.hello); err != nil {
			return err
		}
	}
	for i := range x.edges {
		if e := &x.edges[i]; e.asked && !e.heard && e.hello.Ended() {
			if err := x.await(e.hello); err != nil {
				return err
			}
			if err := x.compare(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// compare judges the fingerprint that has come from a peer and begins the receives that waited for it.
func (x *exchange) compare(peer int) error {
	e := &x.edges[peer]
	f, err := decode(e.in[:])
	if err != nil {
		return &RankError{x.name(peer), fmt.Errorf("in place of a call came %w: %w", err, ErrMismatch)}
	}
	e.last, e.known = f.call, true
	first := e.held[0]
	if f.call != x.call || f.length != len(first.buf) {
		return x.mismatch(peer, f, len(first.buf))
	}
	e.heard = true
	x.unheard--
	for i, m := range e.held {
		switch {
		case i == 0 && f.length <= inlineMax:
			copy(m.buf, e.in[printSize:])
			m.ended = true
		default:
			m.data = x.comm.Irecv(peer, p2p.Bytes(m.buf))
		}
	}
	e.held = e.held[:0]
	return nil
}

// mismatch is the error of two ranks that did not call the same.
func (x *exchange) mismatch(peer int, f fingerprint, want int) error {
	here, there := x.name(x.comm.Rank()), x.name(peer)
	if f.call == x.call {
		return &RankError{there, fmt.Errorf("rank %d called %v with %d bytes for rank %d, which expects %d: %w",
			there, f.call, f.length, here, want, ErrMismatch)}
	}
	what := f.call.differences(x.call)
	if what != "" {
		what = ", " + what
	}
	return &RankError{there, fmt.Errorf("rank %d called %v, rank %d called %v%s: %w", there, f.call, here, x.call, what, ErrMismatch)}
}

// team is some of the ranks of an exchange, numbered anew. The algorithms work in teams.
type team struct {
	*exchange
	ranks []int // of the Comm
	me    int   // index of this rank
}

// all is the team of all ranks.
func (x *exchange) all() team {
	ranks := make([]int, x.comm.Size())
	for i := range ranks {
		ranks[i] = i
	}
	return team{x, ranks, x.comm.Rank()}
}

// sub is the team of some members, of which this rank must be one.
func (t team) sub(members []int) team {
	s := team{exchange: t.exchange}
	for i, m := range members {
		if m == t.me {
			s.me = i
		}
		s.ranks = append(s.ranks, t.ranks[m])
	}
	return s
}

func (t team) size() int                        { return len(t.ranks) }
func (t team) send(peer int, b []byte) *message { return t.exchange.send(t.ranks[peer], b) }
func (t team) recv(peer int, b []byte) *message { return t.exchange.recv(t.ranks[peer], b) }

// at is a member counted from this one, around.
func (t team) at(offset int) int {
	p := t.size()
	return ((t.me+offset)%p + p) % p
}

// arena gives out memory for the length of one operation and keeps as much as the largest needed.
type arena struct {
	blocks [][]byte
	used   int // of the last block
	total  int // given out since reset
}

func (a *arena) reset() {
	if len(a.blocks) > 1 {
		a.blocks = [][]byte{make([]byte, a.total)}
	}
	a.used, a.total = 0, 0
}

func (a *arena) take(n int) []byte {
	room := (n + 63) &^ 63
	a.total += room
	if len(a.blocks) == 0 || a.used+room > len(a.blocks[len(a.blocks)-1]) {
		a.blocks = append(a.blocks, make([]byte, room))
		a.used = 0
	}
	last := a.blocks[len(a.blocks)-1]
	b := last[a.used : a.used+n : a.used+n]
	a.used += room
	return b
}
