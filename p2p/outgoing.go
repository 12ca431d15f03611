package p2p

import (
	"fmt"

	"hcclps/internal/trace"
)

// Outgoing is a transfer that this side sends. Its memory is read until Done is closed. The methods may be called concurrently.
type Outgoing struct {
	t       *Transfer
	id      uint64
	src     Source
	done    chan struct{}
	dropped chan struct{} // closed when the receiver takes none of it for true any more
	err     error         // read after done
	span    trace.Span

	// The rest belongs to the Transfer's mutex.
	total     int  // bytes
	granted   int  // offset up to which the receiver asked, in this epoch
	highest   int  // offset up to which it ever asked
	acked     int  // offset up to which it has the bytes
	flying    int  // chunks that are being read from the source or its memory
	fresh     bool // an epoch has begun since the last grant
	cancelled bool
	ended     bool
}

// Done is closed when the peer has all, or the transfer has ended otherwise; nothing reads its memory then.
func (o *Outgoing) Done() <-chan struct{} { return o.done }

// Err is why the transfer ended, nil if the peer has all. It may be called when Done is closed.
func (o *Outgoing) Err() error { return o.err }

// Cancel gives the transfer up and tells the peer. Done is closed as soon as no chunk of it is being sent. What the peer has asked for already is
// sent with other content, after the peer has said that it takes it for nothing.
func (o *Outgoing) Cancel(cause error) {
	o.t.mu.Lock()
	defer o.t.mu.Unlock()
	o.t.void(o, cause)
}

// Settle says that the peer is known to ask for no more of the transfer: what it has not asked for will not go.
func (o *Outgoing) Settle() {
	o.t.mu.Lock()
	defer o.t.mu.Unlock()
	if o.granted < o.total {
		o.t.receiverGaveUp(o)
	}
}

// Withdraw is Cancel for a transfer of which the peer was never told.
func (o *Outgoing) Withdraw(cause error) {
	o.t.mu.Lock()
	defer o.t.mu.Unlock()
	if o.highest > 0 { // it was sent unasked
		o.t.void(o, cause)
		return
	}
	delete(o.t.outs, o.id)
	if !o.cancelled && !o.ended {
		o.cancelled, o.err = true, cause
		o.finish()
	}
}

// void gives o up; t.mu is held.
func (t *Transfer) void(o *Outgoing, cause error) {
	if o.cancelled || o.ended {
		return
	}
	o.cancelled, o.err = true, cause
	t.cfg.Post(Signal{Kind: SignalVoid, Epoch: t.epoch, ID: o.id})
	o.finish()
}

// finish closes done if the source is not needed any more; t.mu is held.
func (o *Outgoing) finish() {
	if o.ended || o.flying > 0 || !o.cancelled && o.acked < o.total {
		return
	}
	o.ended = true
	o.recorded()
	if !o.cancelled {
		delete(o.t.outs, o.id) // else the peer may still ask for it
	}
	close(o.done)
}

// chunk is a part of an outgoing transfer that the peer asked for.
type chunk struct {
	of   *Outgoing
	off  int
	n    int
	seq  uint64 // number in its epoch
	sure bool   // the completion of its send says that it was taken

	unasked bool
}

// sendSide is what the Transfer's mutex guards of the sending half. In an epoch the chunks that were asked for are numbered from 0.
type sendSide struct {
	outs      map[uint64]*Outgoing
	asked     []chunk // not known to be taken, in order
	issued    int     // of asked, handed to the Comm
	unsent    int     // asked for in this epoch, and the Comm has not completed their sends
	confirmed uint64  // number of the first in asked
}

// granted acts on a grant; t.mu is held.
func (t *Transfer) granted(s Signal) error {
	if t.ended {
		return nil // it was on its way when this side ended the epoch, and will be asked for again
	}
	o := t.outs[s.ID]
	switch {
	case t.peerPaused:
		return fmt.Errorf("grant after pause: %w", ErrMalformed)
	case o == nil:
		return fmt.Errorf("grant for transfer %d, which nobody offered: %w", s.ID, ErrMalformed)
	case len(t.asked)-t.issued >= MaxWindow+t.ahead:
		return fmt.Errorf("more than %d grants outstanding: %w", MaxWindow, ErrMalformed)
	}
	off, n := int(s.Offset), int(s.Bytes)
	if o.fresh && off >= o.acked && off <= o.highest {
		o.acked, o.granted = off, off // the receiver knows best what it has
	}
	if off != o.granted || n > o.total-off {
		return fmt.Errorf("grant of %d bytes at %d of transfer %d, of which %d of %d bytes are granted: %w", n, off, s.ID, o.granted, o.total, ErrMalformed)
	}
	o.fresh = false
	o.granted = off + n
	o.highest = max(o.highest, o.granted)
	t.request(chunk{of: o, off: off, n: n, sure: s.Kind == SignalGrantSure})
	return nil
}

// request takes a chunk on the list of what is to be sent; t.mu is held.
func (t *Transfer) request(c chunk) {
	c.seq = t.confirmed + uint64(len(t.asked))
	t.asked = append(t.asked, c)
	t.unsent++
	signal(t.wakeSend)
}

// receiverGaveUp ends a transfer that the receiver has given up, as it said; t.mu is held.
func (t *Transfer) receiverGaveUp(o *Outgoing) {
	if t.outs[o.id] != o {
		return
	}
	delete(t.outs, o.id)
	close(o.dropped)
	if !o.cancelled && !o.ended {
		o.cancelled, o.err = true, ErrCancelled
		o.finish()
	}
}

// issuable returns the next chunk to send, and whether it is to be sent for true.
func (t *Transfer) issuable() (c chunk, genuine, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.issued == len(t.asked) {
		return chunk{}, false, false
	}
	c = t.asked[t.issued]
	t.issued++
	if !c.of.cancelled {
		c.of.flying++
		return c, true, true
	}
	return c, false, true
}

// sent notes that the Comm has let go of a chunk. well says that its send and all before it completed.
func (t *Transfer) sent(d departing, well bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d.genuine {
		d.of.flying--
	}
	if well {
		t.unsent--
		if d.unasked {
			t.leaving -= d.n
			t.ahead--
		}
		t.active++
		if d.sure {
			t.confirmTo(d.seq + 1)
		}
		t.quiet()
	}
	d.of.finish()
}

// confirmTo notes that the peer has all chunks below a number; t.mu is held.
func (t *Transfer) confirmTo(n uint64) {
	for len(t.asked) > 0 && t.confirmed < n {
		t.confirm()
	}
}

// peerTook acts on SignalTaken; t.mu is held.
func (t *Transfer) peerTook(s Signal) error {
	if s.Offset > t.confirmed+uint64(len(t.asked)) {
		return fmt.Errorf("%d chunks taken of %d: %w", s.Offset, t.confirmed+uint64(len(t.asked)), ErrMalformed)
	}
	t.confirmTo(s.Offset)
	return nil
}

// confirm takes the first chunk off the list of what the peer may not have; t.mu is held.
func (t *Transfer) confirm() {
	c := t.asked[0]
	t.asked[0] = chunk{}
	t.asked = t.asked[1:]
	t.issued = max(t.issued-1, 0)
	t.confirmed++
	if !c.of.cancelled {
		c.of.acked = max(c.of.acked, c.off+c.n)
		t.stats.Sent += uint64(c.n)
		t.moved += uint64(c.n)
	}
	c.of.finish()
}

// rewind settles the sending half at the end of an epoch in which the peer took so many chunks: what it has not is to
// be asked for again. t.mu is held.
func (t *Transfer) rewind(taken uint64) {
	t.confirmTo(taken)
	t.asked, t.issued, t.unsent, t.confirmed = nil, 0, 0, 0
	t.credit, t.leaving, t.ahead = 0, 0, 0
	for _, o := range t.outs {
		if o.granted > o.acked && !o.cancelled {
			t.stats.Resumed += uint64(o.acked)
			t.stats.Again += uint64(o.granted - o.acked)
		}
		o.granted, o.fresh = o.acked, true
	}
}
