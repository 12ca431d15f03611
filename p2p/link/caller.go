package link

import (
	"context"
	"fmt"
	"math"
	"net"
	"sync"
)

// caller is the dialling side of a session: it makes calls.
type caller struct {
	*session
	ready chan struct{} // closed by the welcome
	slots chan struct{} // one token a call that the server counts; made by the welcome
	need  chan struct{} // one token: the bulk connection is needed

	mu    sync.Mutex
	last  uint64 // id of the newest call
	calls map[uint64]*outCall
}

// outCall is a call whose reply has not come.
type outCall struct {
	reply  chan frame // room for one
	send   *sending   // the body if it is large
	zombie bool       // the caller has gone; kept until the reply, since grants may still come
}

// newCaller makes the session of a verified control connection. dialBulk opens its bulk connection.
func newCaller(opt options, conn net.Conn, peer Hello, addr string, dialBulk func(context.Context) (net.Conn, error)) *caller {
	c := &caller{
		session: newSession(opt, conn, 0, peer, addr),
		ready:   make(chan struct{}),
		need:    make(chan struct{}, 1),
		calls:   make(map[uint64]*outCall),
	}
	c.handle = c.dispatch
	c.openBulk = func(ctx context.Context) (net.Conn, error) {
		select {
		case <-c.need:
			return dialBulk(ctx)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return c
}

func (c *caller) wantBulk() {
	select {
	case c.need <- struct{}{}:
	default:
	}
}

// dispatch acts on a frame from the server.
func (c *caller) dispatch(_ context.Context, f frame) error {
	switch f.kind {
	case kindWelcome:
		if c.slots != nil || f.bytes == 0 || f.bytes > math.MaxUint16 {
			return fmt.Errorf("%w: welcome for %d calls", ErrMalformed, f.bytes)
		}
		c.slots = make(chan struct{}, f.bytes)
		close(c.ready)
		return nil
	case kindGrant:
		c.mu.Lock()
		call := c.calls[f.id]
		c.mu.Unlock()
		if call == nil || call.send == nil {
			return fmt.Errorf("%w: grant for a body that nobody offered", ErrMalformed)
		}
		return c.snd.admit(call.send, f)
	case kindReply:
		return c.replied(f)
	default:
		return fmt.Errorf("%w: frame of kind %d from a server", ErrMalformed, f.kind)
	}
}

func (c *caller) replied(f frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.calls[f.id]
	if call == nil {
		return fmt.Errorf("%w: reply to nothing", ErrMalformed)
	}
	delete(c.calls, f.id)
	if call.zombie {
		<-c.slots
	} else {
		call.reply <- f
	}
	return nil
}

// call sends one request and waits for its reply.
func (c *caller) call(ctx context.Context, call Call) (Reply, error) {
	if err := c.admit(ctx); err != nil {
		return Reply{}, err
	}
	total := 0
	for _, piece := range call.Body {
		total += len(piece)
	}
	oc := &outCall{reply: make(chan frame, 1)}
	f := frame{kind: kindCall, pri: call.Priority, head: call.Head, bodyLen: total}
	if !f.inline() {
		oc.send = newSending(call.Body, total)
		c.wantBulk()
	}
	c.mu.Lock()
	c.last++
	f.id = c.last
	c.calls[f.id] = oc
	c.mu.Unlock()
	if !c.out.send(f, call.Body, c.done, ctx.Done()) {
		c.mu.Lock()
		delete(c.calls, f.id)
		c.mu.Unlock()
		<-c.slots
		return Reply{}, c.cause(ctx)
	}
	select {
	case r := <-oc.reply:
		c.release(oc, nil)
		defer func() { <-c.slots }()
		return c.accept(ctx, r, call)
	case <-ctx.Done():
		c.abandon(f.id, oc)
	case <-c.done:
	}
	err := c.cause(ctx)
	c.release(oc, err)
	return Reply{}, err
}

// admit waits for the welcome and a slot.
func (c *caller) admit(ctx context.Context) error {
	select {
	case <-c.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.done:
		return c.err
	}
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.done:
		return c.err
	}
}

func (c *caller) cause(ctx context.Context) error {
	if c.dead() {
		return c.err
	}
	return context.Cause(ctx)
}

// release gives the body's memory back to its owner: it waits until no chunk of it is on its way.
func (c *caller) release(oc *outCall, err error) {
	if oc.send != nil {
		c.snd.cancel(oc.send, err)
		<-oc.send.done
	}
}

// abandon tells the server that nobody waits any more. Until it answers the call stays known and keeps its slot.
func (c *caller) abandon(id uint64, oc *outCall) {
	c.mu.Lock()
	_, waiting := c.calls[id]
	oc.zombie = waiting
	c.mu.Unlock()
	if !waiting { // the reply came at this moment; its body is not taken
		<-c.slots
	}
	c.out.post(frame{kind: kindCancel, id: id})
}

// accept makes a Reply of the frame f and takes its body.
func (c *caller) accept(ctx context.Context, f frame, call Call) (Reply, error) {
	r := Reply{From: c.peer.From}
	switch f.status {
	case statusOK:
		r.Head = f.head
	case statusNoReply:
		return r, ErrNoReply
	case statusCancelled:
		return r, ErrCancelled
	case statusTooLarge:
		return r, fmt.Errorf("%w: %s", ErrTooLarge, f.head)
	}
	if f.inline() && call.Alloc == nil {
		r.Body = f.body
		return r, nil
	}
	buf, err := c.alloc(f.bodyLen, call)
	if err == nil {
		r.Body = buf
		if f.inline() {
			copy(buf, f.body)
			return r, nil
		}
		c.wantBulk()
		err = c.receive(ctx, newReceiving(f.id, call.Priority, buf), nil, nil)
	}
	if err != nil {
		c.out.post(frame{kind: kindCancel, id: f.id})
		return Reply{From: r.From}, fmt.Errorf("receive the reply's body of %d bytes: %w", f.bodyLen, err)
	}
	return r, nil
}

func (c *caller) alloc(n int, call Call) ([]byte, error) {
	if n > c.MaxBody {
		return nil, fmt.Errorf("%w: at most %d bytes are taken", ErrTooLarge, c.MaxBody)
	}
	if call.Alloc == nil {
		return make([]byte, n), nil
	}
	buf, err := call.Alloc(n)
	if err == nil && len(buf) != n {
		err = fmt.Errorf("alloc gave %d bytes", len(buf))
	}
	return buf, err
}
