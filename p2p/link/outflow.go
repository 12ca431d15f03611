package link

import (
	"context"
	"fmt"
	"sync"

	"hcclps/p2p"
)

// maxGrants bounds the grants that a peer may have outstanding: more is a fault of the peer.
const maxGrants = 64

// sending is one large body on its way out.
type sending struct {
	done chan struct{} // closed when the peer has taken all, or the sending was cancelled; the pieces are not read any more then

	granted int    // bytes; belongs to the reader of the control connection, as chunk does
	chunk   uint32 // number of the next grant
	total   int

	// parts is what is left to send. It belongs to the outflow's loop.
	parts [][]byte

	// The rest belongs to the outflow's mutex.
	taken     int // bytes the peer has taken
	flying    int // chunks being sent out of parts
	cancelled bool
	ended     bool
	err       error // read after done
}

func newSending(body [][]byte, total int) *sending {
	return &sending{done: make(chan struct{}), parts: append([][]byte(nil), body...), total: total}
}

// grant is the peer's leave to send bytes of one body.
type grant struct {
	of    *sending
	bytes int
}

// outflow is the sending half of a bulk Comm: it issues sends strictly in the order of the grants. A grant for a cancelled body is honoured
// with zeros, since its receive is posted already: so the Comm stays in step.
type outflow struct {
	grants chan grant
	spare  [][]byte // scratch memory of the loop

	mu sync.Mutex
}

func newOutflow() *outflow { return &outflow{grants: make(chan grant, maxGrants)} }

// admit checks a grant and queues it. It is called by the reader of the control connection alone.
func (o *outflow) admit(s *sending, f frame) error {
	switch {
	case f.chunk != s.chunk:
		return fmt.Errorf("%w: grant of chunk %d, expected %d", ErrMalformed, f.chunk, s.chunk)
	case int(f.bytes) > s.total-s.granted:
		return fmt.Errorf("%w: grant of %d bytes, %d are left", ErrMalformed, f.bytes, s.total-s.granted)
	}
	s.chunk++
	s.granted += int(f.bytes)
	select {
	case o.grants <- grant{of: s, bytes: int(f.bytes)}:
		return nil
	default:
		return fmt.Errorf("%w: more than %d grants outstanding", ErrMalformed, maxGrants)
	}
}

// cancel ends s: done is closed as soon as no chunk of it is being sent.
func (o *outflow) cancel(s *sending, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.cancelled || s.ended {
		return
	}
	s.cancelled, s.err = true, err
	s.finish()
}

func (s *sending) finish() {
	if !s.ended && s.flying == 0 && (s.cancelled || s.taken == s.total) {
		s.ended = true
		close(s.done)
	}
}

// departing is a chunk whose send is issued.
type departing struct {
	of      *sending // nil when zeros were sent
	bytes   int
	scratch []byte // to be used again, nil if the body's own memory was sent
	req     *p2p.Request
}

// run sends to peer what is granted until the Comm fails or ctx ends, then closes the Comm, which ends what is in flight. It returns the
// Comm's error or nil.
func (o *outflow) run(ctx context.Context, comm Comm, peer int) error {
	var flying []departing
	for {
		var first <-chan struct{}
		if len(flying) > 0 {
			first = flying[0].req.Done()
		}
		select {
		case g := <-o.grants:
			flying = append(flying, o.issue(comm, peer, g))
		case <-first:
			err := o.gone(ctx, flying[0])
			flying = flying[1:]
			if err != nil {
				o.drain(ctx, comm, flying)
				return err
			}
		case <-ctx.Done():
			o.drain(ctx, comm, flying)
			return nil
		}
	}
}

func (o *outflow) drain(ctx context.Context, comm Comm, flying []departing) {
	_ = comm.Close() // what it could tell is told by the requests
	for _, d := range flying {
		_ = o.gone(ctx, d) // the first error was reported, or the session has one
	}
}

// issue sends one chunk.
func (o *outflow) issue(comm Comm, peer int, g grant) departing {
	d := departing{bytes: g.bytes}
	o.mu.Lock()
	if !g.of.cancelled {
		d.of = g.of
		g.of.flying++
	}
	o.mu.Unlock()
	var buf []byte
	if d.of != nil && len(g.of.next()) >= g.bytes {
		buf = g.of.next()[:g.bytes]
		g.of.parts[0] = g.of.parts[0][g.bytes:]
	} else {
		d.scratch = o.scratch(g.bytes)
		buf = d.scratch
		if d.of != nil {
			g.of.gather(buf)
		} else {
			clear(buf)
		}
	}
	d.req = comm.Isend(peer, p2p.Bytes(buf))
	return d
}

// next is the first piece that is not empty.
func (s *sending) next() []byte {
	for len(s.parts) > 0 && len(s.parts[0]) == 0 {
		s.parts = s.parts[1:]
	}
	if len(s.parts) == 0 {
		return nil
	}
	return s.parts[0]
}

// gather copies the next len(dst) bytes of several pieces: a Comm sends one piece of memory.
func (s *sending) gather(dst []byte) {
	for len(dst) > 0 {
		n := copy(dst, s.next())
		s.parts[0] = s.parts[0][n:]
		dst = dst[n:]
	}
}

// gone waits for the end of a send and notes it.
func (o *outflow) gone(ctx context.Context, d departing) error {
	err := result(ctx, d.req)
	if d.scratch != nil {
		o.spare = append(o.spare, d.scratch)
	}
	if d.of == nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	d.of.flying--
	d.of.taken += d.bytes
	if err != nil && !d.of.cancelled {
		d.of.cancelled, d.of.err = true, err
	}
	d.of.finish()
	return err
}

// scratch is memory for one chunk, used again from send to send.
func (o *outflow) scratch(n int) []byte {
	for len(o.spare) > 0 {
		b := o.spare[len(o.spare)-1]
		o.spare = o.spare[:len(o.spare)-1]
		if cap(b) >= n {
			return b[:n]
		}
	}
	return make([]byte, n)
}

// result waits for the end of a transfer whose Comm is live or closed, so that the end is certain.
func result(ctx context.Context, r *p2p.Request) error {
	<-r.Done()
	return r.Wait(ctx) // does not wait: done comes before ctx
}
