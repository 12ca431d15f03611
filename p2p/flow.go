package p2p

import (
	"context"
	"errors"
	"sync"
)

// flow moves the chunks of one epoch over its Comm. Two loops work for each direction: the first begins chunks in the order of the grants, the second
// ends them in that order. So a codec works on one chunk while others are on the wire.
type flow struct {
	t         *Transfer
	comm      RunningComm
	peer      int
	fail      context.CancelCauseFunc
	loops     sync.WaitGroup
	arriving  chan arriving
	departing chan departing
}

// arriving is a chunk whose receive is posted.
type arriving struct {
	of      *Incoming
	off, n  int
	req     *Request
	placed  []byte // the memory of a sink
	scratch []byte // in place of that
	early   *early // if it comes unasked and nobody waits for it
	late    bool   // its sink gets it from take, and not from the Comm
	taker   *taker // of a piecewise Comm
}

// departing is a chunk whose send is issued.
type departing struct {
	chunk
	genuine bool // it has the true bytes
	req     *Request
	scratch []byte
}

func newFlow(t *Transfer, comm RunningComm, fail context.CancelCauseFunc) *flow {
	return &flow{
		t: t, comm: comm, peer: 1 - t.cfg.Rank, fail: fail,
		arriving: make(chan arriving, MaxWindow), departing: make(chan departing, MaxWindow),
	}
}

func (f *flow) start(ctx context.Context) {
	f.t.begin(f.comm)
	f.loops.Go(func() {
		err := f.comm.Run(ctx)
		if err == nil {
			err = errors.New("comm ended")
		}
		f.fail(err)
	})
	f.loops.Go(func() { f.ask(ctx) })
	f.loops.Go(func() { f.take(ctx) })
	f.loops.Go(func() { f.issue(ctx) })
	f.loops.Go(func() { f.confirm(ctx) })
}

// begin says how chunks are asked for over a Comm.
func (t *Transfer) begin(comm Comm) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.grant = SignalGrant
	if c, ok := comm.(Confirmer); ok && c.Confirms() {
		t.grant = SignalGrantSure
	}
	t.lend(comm)
}

// ask asks for chunks as the window allows.
func (f *flow) ask(ctx context.Context) {
	defer close(f.arriving)
	for ctx.Err() == nil {
		a, ok := f.t.askable()
		if ok {
			f.post(&a)
			f.arriving <- a
			continue
		}
		select {
		case <-f.t.wakeReceive:
		case <-ctx.Done():
		}
	}
}

// post posts the receive of a chunk: into the memory it is for, or straight into a sink, or into its memory, or into scratch.
func (f *flow) post(a *arriving) {
	if a.of == nil {
		a.scratch = f.t.pool.Get(a.n)
		a.req = f.comm.Irecv(f.peer, Bytes(a.scratch))
		return
	}
	if m, ok := a.of.sink.(memory); ok {
		a.req = f.comm.Irecv(f.peer, Bytes(m[a.off:a.off+a.n]))
		return
	}
	if p, ok := f.comm.(Piecewise); ok && !a.late {
		a.taker = &taker{of: a.of, off: a.off}
		a.req = p.IrecvFunc(f.peer, a.n, a.taker.take)
		return
	}
	if p, ok := a.of.sink.(Placer); ok {
		a.placed = p.Place(a.off, a.n)
	}
	if a.placed == nil {
		a.scratch = f.t.pool.Get(a.n)
		a.req = f.comm.Irecv(f.peer, Bytes(a.scratch))
		return
	}
	a.req = f.comm.Irecv(f.peer, Bytes(a.placed))
}

// take ends receives, in order.
func (f *flow) take(ctx context.Context) {
	whole := true
	for a := range f.arriving {
		whole = f.result(ctx, a.req) && whole
		if a.early != nil {
			if a.of = f.t.arrived(a, whole); a.of == nil {
				f.t.landed(a, 0, whole, nil)
				continue
			}
			a.late = true
		}
		got, err := a.deliver(whole)
		f.t.pool.Put(a.scratch)
		f.t.landed(a, got, whole, err)
	}
}

// deliver gives a chunk to its sink, unless it has it already, and says how many bytes the sink has.
func (a *arriving) deliver(whole bool) (got int, err error) {
	switch {
	case a.taker != nil:
		return a.taker.got, a.taker.err
	case !whole || a.of.aborted.Load():
		return 0, nil
	case a.placed != nil:
		err = a.of.sink.Take(a.off, a.placed)
	case a.scratch != nil:
		err = a.of.sink.Take(a.off, a.scratch)
	}
	return a.n, err
}

// taker gives the pieces of one chunk to a sink. What a sink has had it is not given again in the next epoch.
type taker struct {
	of  *Incoming
	off int
	got int
	err error
}

func (k *taker) take(piece []byte) error {
	if k.err == nil && !k.of.aborted.Load() {
		if k.err = k.of.sink.Take(k.off+k.got, piece); k.err == nil {
			k.got += len(piece)
		}
	}
	return nil // the Comm is not to blame: the rest is drained
}

// result waits for the end of a request and says whether it ended well. If the epoch ends first, so does the request in a moment.
func (f *flow) result(ctx context.Context, r *Request) bool {
	err := r.Wait(ctx)
	if err != nil {
		f.fail(err)
		<-r.Done()
		err = r.Wait(ctx) // its own, not that of ctx
	}
	return err == nil
}

// issue sends what the peer asked for, in that order.
func (f *flow) issue(ctx context.Context) {
	defer close(f.departing)
	for ctx.Err() == nil {
		c, genuine, ok := f.t.issuable()
		if !ok {
			select {
			case <-f.t.wakeSend:
			case <-ctx.Done():
			}
			continue
		}
		d := departing{chunk: c, genuine: genuine}
		if genuine && !f.send(&d) {
			genuine = false
		}
		if !genuine && !f.sendAnything(ctx, &d) {
			return
		}
		f.departing <- d
	}
}

// send issues the send of a chunk: from the memory where it is, or straight from a source, or from scratch. It reports false if the source failed.
func (f *flow) send(d *departing) bool {
	src := d.of.src
	if p, ok := src.(*pieces); ok {
		if b, ok := p.slice(d.off, d.n); ok {
			d.req = f.comm.Isend(f.peer, Bytes(b))
			return true
		}
		own := *p // the Comm fills while the next chunk is issued
		src = &own
	}
	if p, ok := f.comm.(Piecewise); ok {
		d.req = p.IsendFunc(f.peer, d.n, filler(d.chunk, src))
		return true
	}
	if d.req = f.gather(src, d.off, d.n); d.req != nil {
		return true
	}
	d.scratch = f.t.pool.Get(d.n)
	if err := src.Fill(d.off, d.scratch); err != nil {
		f.t.sourceFailed(d.of, err)
		f.t.pool.Put(d.scratch)
		d.genuine, d.scratch = false, nil
		return false
	}
	d.req = f.comm.Isend(f.peer, Bytes(d.scratch))
	return true
}

// filler fills the pieces of one chunk. An error of the source ends the epoch, as the peer may take anything else for the bytes.
func filler(c chunk, src Source) func(piece []byte) error {
	off := c.off
	return func(piece []byte) error {
		if err := src.Fill(off, piece); err != nil {
			c.of.Cancel(err)
			return err
		}
		off += len(piece)
		return nil
	}
}

// sendAnything sends other bytes in place of those of a transfer that was given up, as soon as the peer has said that it takes them for nothing.
func (f *flow) sendAnything(ctx context.Context, d *departing) bool {
	select {
	case <-d.of.dropped:
	case <-ctx.Done():
		return false
	}
	d.scratch = f.t.pool.Get(d.n)
	clear(d.scratch) // it may hold what was meant for others
	d.req = f.comm.Isend(f.peer, Bytes(d.scratch))
	return true
}

// confirm ends sends, in order.
func (f *flow) confirm(ctx context.Context) {
	whole := true
	for d := range f.departing {
		whole = f.result(ctx, d.req) && whole
		f.t.pool.Put(d.scratch)
		f.t.sent(d, whole)
	}
}

// sourceFailed gives up a transfer whose source failed in the middle of a chunk.
func (t *Transfer) sourceFailed(o *Outgoing, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o.flying--
	t.void(o, err)
	o.finish()
}
