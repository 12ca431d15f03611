package link

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"hcclps/p2p"
)

// responder is the accepting side of a session: it runs a handler for each call.
type responder struct {
	*session
	handler Handler
	most    int           // handlers running at once
	timeout time.Duration // of a handler
	stripes *stripes
	offered chan upgradeOffer // room for one: a connection to make a better Comm of

	handlers sync.WaitGroup

	mu       sync.Mutex
	requests map[uint64]*Request // running and waiting
	running  int
	waiting  []*Request // in order of arrival
}

func newResponder(opt options, cfg ServerConfig, conn net.Conn, peer Hello) (*responder, error) {
	s, err := newSession(opt, conn, 1, peer, conn.RemoteAddr().String())
	r := &responder{
		session:  s,
		handler:  cfg.Handler,
		most:     opt.MaxRequests,
		timeout:  cfg.Timeout,
		stripes:  newStripes(),
		offered:  make(chan upgradeOffer, 1),
		requests: make(map[uint64]*Request),
	}
	r.handle = r.dispatch
	r.openBulk = r.stripes.take
	if r.upgrade != nil {
		r.improve = r.acceptUpgrades
	}
	return r, err
}

// serve owns the connection and its handlers until it ends, and returns the reason.
func (r *responder) serve(ctx context.Context) error {
	r.out.post(frame{kind: kindWelcome, calls: uint32(r.most)})
	err := r.run(ctx)
	r.handlers.Wait()
	return err
}

// drop closes what came too late to be used.
func (r *responder) drop() {
	r.stripes.close()
	select {
	case o := <-r.offered:
		_ = o.conn.Close()
	default:
	}
}

// forget sees to it that nothing is remembered of a body that the caller gave up and nobody waits for.
func (r *responder) forget(s p2p.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.Kind == p2p.SignalVoid && r.requests[s.ID] == nil {
		r.moves.Forget(s.ID)
	}
}

// dispatch acts on a frame from the caller.
func (r *responder) dispatch(ctx context.Context, f frame) error {
	switch f.kind {
	case kindCall:
		return r.called(ctx, f)
	case kindCancel:
		r.cancelled(f.id)
		return nil
	case kindSignal:
		r.forget(f.signal)
		return nil
	default:
		return fmt.Errorf("%w: frame of kind %d from a caller", ErrMalformed, f.kind)
	}
}

// called starts a handler, or lets the call wait for one to end. A caller keeps to the number it was welcomed with, so that the
// queue holds at most as many again.
func (r *responder) called(ctx context.Context, f frame) error {
	if f.bodyLen > r.MaxBody {
		text := fmt.Sprintf("a body of %d bytes was sent, at most %d are taken", f.bodyLen, r.MaxBody)
		r.out.post(frame{kind: kindReply, id: f.id, status: statusTooLarge, head: []byte(text)})
		r.moves.Forget(f.id)
		return nil
	}
	req := &Request{
		Peer: r.peer, Head: f.head, BodyLen: f.bodyLen, Priority: f.pri,
		id: f.id, inline: f.body, from: r, gone: make(chan struct{}),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.requests[f.id] != nil:
		return fmt.Errorf("%w: id used twice", ErrMalformed)
	case r.running < r.most:
		r.start(ctx, req)
	case len(r.waiting) < r.most:
		r.waiting = append(r.waiting, req)
	default:
		return fmt.Errorf("%w: more than the %d calls agreed on", ErrMalformed, r.most)
	}
	r.requests[f.id] = req
	return nil
}

// start runs the handler. The mutex is held.
func (r *responder) start(base context.Context, req *Request) {
	r.running++
	ctx, stop := context.WithTimeoutCause(base, r.timeout, fmt.Errorf("request not answered within %v: %w", r.timeout, context.DeadlineExceeded))
	ctx, cancel := context.WithCancelCause(ctx)
	req.cancel, req.over = cancel, ctx.Done()
	r.handlers.Go(func() {
		defer stop()
		defer cancel(nil)
		r.handler.Serve(ctx, req)
		r.finished(base, req)
	})
}

// finished answers for a handler that did not, and starts the next call.
func (r *responder) finished(ctx context.Context, req *Request) {
	if req.replied.CompareAndSwap(false, true) && !r.dead() {
		r.out.post(frame{kind: kindReply, id: req.id, status: req.silence()})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.requests, req.id)
	r.moves.Forget(req.id)
	r.running--
	if len(r.waiting) > 0 && !r.dead() {
		next := r.waiting[0]
		r.waiting[0] = nil
		r.waiting = r.waiting[1:]
		r.start(ctx, next)
	}
}

// cancelled ends the request id, if it is still there.
func (r *responder) cancelled(id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	req := r.requests[id]
	if req == nil || req.isGone() {
		return
	}
	close(req.gone)
	if req.cancel != nil {
		req.cancel(ErrCancelled)
		return
	}
	for i, w := range r.waiting {
		if w == req {
			r.waiting = append(r.waiting[:i:i], r.waiting[i+1:]...)
			delete(r.requests, id)
			r.out.post(frame{kind: kindReply, id: id, status: statusCancelled})
			return
		}
	}
}
