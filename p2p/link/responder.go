package link

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// responder is the accepting side of a session: it runs a handler for each call.
type responder struct {
	*session
	handler  Handler
	most     int           // handlers running at once
	timeout  time.Duration // of a handler
	bulkConn chan net.Conn // room for one: the bulk connection that the caller opened

	handlers sync.WaitGroup

	mu       sync.Mutex
	requests map[uint64]*Request // running and waiting
	running  int
	waiting  []*Request // in order of arrival
}

func newResponder(opt options, cfg ServerConfig, conn net.Conn, peer Hello) *responder {
	r := &responder{
		session:  newSession(opt, conn, 1, peer, conn.RemoteAddr().String()),
		handler:  cfg.Handler,
		most:     opt.MaxRequests,
		timeout:  cfg.Timeout,
		bulkConn: make(chan net.Conn, 1),
		requests: make(map[uint64]*Request),
	}
	r.handle = r.dispatch
	r.openBulk = func(ctx context.Context) (net.Conn, error) {
		select {
		case conn := <-r.bulkConn:
			return conn, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return r
}

// serve owns the connection and its handlers until it ends, and returns the reason.
func (r *responder) serve(ctx context.Context) error {
	r.out.post(frame{kind: kindWelcome, bytes: uint32(r.most)})
	err := r.run(ctx)
	r.handlers.Wait()
	return err
}

// dropBulk closes a bulk connection that came too late to be used.
func (r *responder) dropBulk() {
	select {
	case conn := <-r.bulkConn:
		_ = conn.Close()
	default:
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
	case kindGrant:
		r.mu.Lock()
		var send *sending
		if req := r.requests[f.id]; req != nil {
			send = req.send
		}
		r.mu.Unlock()
		if send == nil {
			return fmt.Errorf("%w: grant for a body that nobody offered", ErrMalformed)
		}
		return r.snd.admit(send, f)
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
