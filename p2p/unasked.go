package p2p

import "fmt"

// Patient is a Comm whose messages may wait for their receives as long as they like, and hold up nothing but what is sent after them. If it is
// a [Confirmer] too, the first bytes of a transfer are sent over it unasked. It is found by type assertion.
type Patient interface {
	// Patient says whether that is so.
	Patient() bool
}

const (
	unaskedBytes = 1<<20 + 64<<10 // that may be under way unasked in one direction
	maxUnasked   = 64             // transfers that may be
)

// early is the first chunk of a transfer that the peer sends unasked. Its receive is posted in turn: into the sink, if there is one by then, or aside
// when others wait for theirs.
type early struct {
	id   uint64
	n    int
	dead bool      // nobody will want it
	in   *Incoming // that came when the receive was posted aside
	b    []byte    // what lies aside
}

// unaskedSide is what the Transfer's mutex guards of what is sent unasked. The peer asks for nothing of which it was not told, so while all that it
// was told of is asked for or sent unasked, it cannot ask, and the two sides agree on what is sent next.
type unaskedSide struct {
	credit  int // bytes that the peer takes unasked, in this epoch
	leaving int // bytes that are on their way so
	ahead   int // transfers that are

	lends  bool              // this side has said that it takes bytes unasked, in this epoch
	paused bool              // and then that it takes no more
	early  []*early          // announced, in order; their receives are not posted
	aside  map[uint64]*early // received aside, or being
}

// lend lets the peer send unasked in the epoch that begins; t.mu is held.
func (t *Transfer) lend(comm Comm) {
	if p, ok := comm.(Patient); ok && p.Patient() && t.grant == SignalGrantSure && !t.ended && !t.pausing {
		t.lends, t.paused = true, len(t.aside) > 0
		if !t.paused {
			t.cfg.Post(Signal{Kind: SignalCredit, Epoch: t.epoch, Bytes: unaskedBytes})
		}
	}
}

// credited acts on SignalCredit; t.mu is held.
func (t *Transfer) credited(s Signal) error {
	if !t.ended {
		t.credit = int(s.Bytes)
	}
	return nil
}

// sendUnasked sends what it may of a transfer just offered; t.mu is held.
func (t *Transfer) sendUnasked(o *Outgoing) {
	n := min(o.total, t.credit-t.leaving)
	if n < o.total {
		n -= n % grain
	}
	if n <= 0 || t.ended || t.peerEnded || t.pausing || t.ahead >= maxUnasked {
		return
	}
	for _, other := range t.outs {
		if other != o && other.granted < other.total {
			return // the peer may be asking for more of it now
		}
	}
	o.granted, o.highest = n, n
	t.leaving += n
	t.ahead++
	t.request(chunk{of: o, n: n, sure: true, unasked: true})
	t.cfg.Post(Signal{Kind: SignalUnasked, Epoch: t.epoch, ID: o.id, Bytes: uint32(n)})
}

// announced acts on SignalUnasked; t.mu is held.
func (t *Transfer) announced(s Signal) error {
	if t.ended {
		return nil
	}
	sum := int(s.Bytes)
	for _, e := range t.early {
		sum += e.n
	}
	if !t.lends || t.peerPaused || sum > unaskedBytes || len(t.early) >= maxUnasked || t.ins[s.ID] != nil || t.comes(s.ID) {
		return fmt.Errorf("%d bytes of transfer %d are sent unasked: %w", s.Bytes, s.ID, ErrMalformed)
	}
	t.early = append(t.early, &early{id: s.ID, n: int(s.Bytes)})
	if t.pausing {
		signal(t.wakeReceive) // what has not come holds up the pause
	}
	return nil
}

// comes says whether the first bytes of a transfer come unasked, or have; t.mu is held.
func (t *Transfer) comes(id uint64) bool {
	for _, e := range t.early {
		if e.id == id {
			return true
		}
	}
	return t.aside[id] != nil
}

// unwanted says that nobody will receive a transfer; t.mu is held.
func (t *Transfer) unwanted(id uint64) {
	for _, e := range t.early {
		if e.id == id {
			e.dead = true
			signal(t.wakeReceive)
		}
	}
	if e := t.aside[id]; e != nil {
		e.dead = true
		if e.b != nil {
			t.clearAway(e)
		}
	}
}

// awaited is the next chunk that comes unasked, if its receive is to be posted: somebody wants it, or must not wait for it. t.mu is held.
func (t *Transfer) awaited() (a arriving, ok bool) {
	if len(t.early) == 0 {
		return arriving{}, false
	}
	e := t.early[0]
	in := t.ins[e.id]
	if in == nil && !e.dead && !t.pausing && !t.receiving() {
		return arriving{}, false
	}
	t.early = t.early[1:]
	a = arriving{of: in, n: e.n}
	if in != nil && !e.dead {
		in.posted = e.n
		in.flying++
	} else {
		a.of, a.early = nil, e
		t.aside[e.id] = e
		if !t.paused && !e.dead {
			t.paused = true
			t.cfg.Post(Signal{Kind: SignalCredit, Epoch: t.epoch})
		}
	}
	t.fly()
	return a, true
}

// receiving says whether anything waits to be asked for; t.mu is held.
func (t *Transfer) receiving() bool {
	for _, q := range t.queues {
		for _, in := range q {
			if in.posted < in.total {
				return true
			}
		}
	}
	return false
}

// arrived settles a chunk received aside. It returns the transfer that waits for it, nil if none does.
func (t *Transfer) arrived(a arriving, whole bool) *Incoming {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := a.early
	switch {
	case e.in != nil:
		t.clearAway(e)
		return e.in
	case !whole || e.dead:
		t.clearAway(e)
		t.pool.Put(a.scratch)
	default:
		e.b = a.scratch
	}
	return nil
}

// clearAway forgets what lies aside; t.mu is held.
func (t *Transfer) clearAway(e *early) {
	delete(t.aside, e.id)
	t.pool.Put(e.b)
	e.b = nil
	if len(t.aside) == 0 && t.paused && t.lends && !t.pausing && !t.ended {
		t.paused = false
		t.cfg.Post(Signal{Kind: SignalCredit, Epoch: t.epoch, Bytes: unaskedBytes})
	}
}

// claim takes what lies aside of a transfer, if it is there; t.mu is held.
func (t *Transfer) claim(id uint64) []byte {
	e := t.aside[id]
	if e == nil || e.b == nil {
		return nil
	}
	b := e.b
	e.b = nil
	t.clearAway(e)
	return b
}

// takeAside gives the sink what lay aside of a transfer that is not on the lists yet.
func (in *Incoming) takeAside(b []byte) error {
	defer in.t.pool.Put(b)
	if len(b) > in.total {
		return fmt.Errorf("receive %d: %d bytes came of %d: %w", in.id, len(b), in.total, ErrMalformed)
	}
	if err := in.sink.Take(0, b); err != nil {
		return err
	}
	in.posted, in.taken = len(b), len(b)
	return nil
}

// meet lets a transfer that is about to be asked for have what comes of it unasked; err is why it could not. t.mu is held.
func (t *Transfer) meet(in *Incoming, err error) error {
	n := 0
	for _, e := range t.early {
		if e.id == in.id {
			n = e.n
		}
	}
	e := t.aside[in.id]
	if e != nil {
		n = e.n
	}
	switch {
	case err == nil && n > in.total:
		err = fmt.Errorf("receive %d: %d bytes come of %d: %w", in.id, n, in.total, ErrMalformed)
	case err == nil && e != nil:
		e.in = in // it is on its way
		in.posted, in.flying, in.late = n, 1, 1
	}
	if err != nil {
		t.unwanted(in.id)
		t.cfg.Post(Signal{Kind: SignalDropped, Epoch: t.epoch, ID: in.id})
		return err
	}
	t.stats.Received += uint64(in.taken)
	t.moved += uint64(in.taken)
	return nil
}
