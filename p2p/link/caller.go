package link

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"

	"hcclps/p2p"
)

// caller is the dialling side of a session: it makes calls.
type caller struct {
	*session
	ready chan struct{} // closed by the welcome
	slots chan struct{} // one token a call that the server counts; made by the welcome
	used  chan struct{} // closed when bulk connections are dialled for the first time
	first sync.Once

	mu    sync.Mutex
	last  uint64 // id of the newest call
	calls map[uint64]*outCall
}

// outCall is a call whose reply has not come.
type outCall struct {
	reply    chan frame // room for one
	answered bool
	zombie   bool // the caller has gone; kept until the reply
}

// dialFunc opens one more connection of a pair.
type dialFunc func(ctx context.Context, h Hello) (net.Conn, error)

// newCaller makes the session of a verified control connection.
func newCaller(opt options, conn net.Conn, peer Hello, addr string, dial dialFunc) (*caller, error) {
	s, err := newSession(opt, conn, 0, peer, addr)
	c := &caller{
		session: s,
		ready:   make(chan struct{}),
		used:    make(chan struct{}),
		calls:   make(map[uint64]*outCall),
	}
	c.handle = c.dispatch
	c.openBulk = func(ctx context.Context, epoch uint32) ([]net.Conn, error) {
		c.first.Do(func() { close(c.used) })
		return dialStripes(ctx, dial, epoch, c.Stripes)
	}
	if c.upgrade != nil {
		c.improve = func(ctx context.Context) { c.seekUpgrade(ctx, dial) }
	}
	return c, err
}

// dialStripes opens the bulk connections of an epoch.
func dialStripes(ctx context.Context, dial dialFunc, epoch uint32, n int) ([]net.Conn, error) {
	conns := make([]net.Conn, n)
	for i := range conns {
		var err error
		conns[i], err = dial(ctx, Hello{Purpose: Bulk, Epoch: epoch, Stripe: uint8(i), Stripes: uint8(n)})
		if err != nil {
			closeAll(conns)
			return nil, err
		}
	}
	return conns, nil
}

// dispatch acts on a frame from the server.
func (c *caller) dispatch(_ context.Context, f frame) error {
	switch f.kind {
	case kindWelcome:
		if c.slots != nil || f.calls == 0 || f.calls > math.MaxUint16 {
			return fmt.Errorf("%w: welcome for %d calls", ErrMalformed, f.calls)
		}
		c.slots = make(chan struct{}, f.calls)
		close(c.ready)
		return nil
	case kindSignal:
		c.forget(f.signal)
		return nil
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
	if call == nil || call.answered {
		return fmt.Errorf("%w: reply to nothing", ErrMalformed)
	}
	call.answered = true
	if call.zombie {
		delete(c.calls, f.id)
		c.moves.Forget(f.id)
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
	src, pieces, total, err := bodyOf(call.Source, call.Body)
	if err != nil {
		<-c.slots
		return Reply{}, err
	}
	oc := &outCall{reply: make(chan frame, 1)}
	f := frame{kind: kindCall, pri: call.Priority, head: call.Head, bodyLen: total}
	c.mu.Lock()
	c.last++
	f.id = c.last
	c.calls[f.id] = oc
	c.mu.Unlock()
	var body *p2p.Outgoing
	if !f.inline() {
		body = send(c.moves, f.id, src, pieces)
	}
	if !c.out.send(f, pieces, c.done, ctx.Done()) {
		c.over(f.id)
		err := c.cause(ctx)
		if body != nil {
			body.Withdraw(err)
			<-body.Done()
		}
		return Reply{}, err
	}
	r, err := c.await(ctx, f.id, oc, body)
	if err == nil {
		defer c.over(f.id)
		if err := settle(body); err != nil {
			c.out.post(frame{kind: kindCancel, id: f.id}) // the reply is to a body that never was; its own is not taken
			return Reply{}, err
		}
		return c.accept(ctx, r, call)
	}
	if body != nil {
		body.Cancel(err)
		<-body.Done()
		err = because(err, body.Err())
	}
	return Reply{}, err
}

// await waits for the reply. On error the call is abandoned, if the session lives.
func (c *caller) await(ctx context.Context, id uint64, oc *outCall, body *p2p.Outgoing) (frame, error) {
	var moved <-chan struct{}
	if body != nil {
		moved = body.Done()
	}
	for {
		select {
		case r := <-oc.reply:
			return r, nil
		case <-moved:
			moved = nil
			if err := made(body); !c.dead() && err != nil {
				c.abandon(id, oc)
				return frame{}, err
			}
		case <-ctx.Done():
			c.abandon(id, oc)
			return frame{}, c.cause(ctx)
		case <-c.done:
			return frame{}, c.err
		}
	}
}

// settle ends the sending of a body whose call was answered: the server asks for no more of it.
func settle(body *p2p.Outgoing) error {
	if body == nil {
		return nil
	}
	body.Settle()
	<-body.Done()
	return made(body)
}

// made is the fault of a body's source, if that is why the body ended: not well, not by the receiver and not because bytes cannot be moved.
func made(body *p2p.Outgoing) error {
	var fault *p2p.TransferError
	err := body.Err()
	if err == nil || errors.Is(err, p2p.ErrCancelled) || errors.As(err, &fault) {
		return nil
	}
	return fmt.Errorf("make the body: %w", err)
}

// over ends what is known of a call whose caller got its reply, or never sent it.
func (c *caller) over(id uint64) {
	c.mu.Lock()
	delete(c.calls, id)
	c.mu.Unlock()
	c.moves.Forget(id)
	<-c.slots
}

// forget sees to it that nothing is remembered of a reply's body that the server gave up and nobody waits for.
func (c *caller) forget(s p2p.Signal) {
	c.mu.Lock()
	known := c.calls[s.ID] != nil
	c.mu.Unlock()
	if s.Kind == p2p.SignalVoid && !known {
		c.moves.Forget(s.ID)
	}
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

// abandon tells the server that nobody waits any more. Until it answers the call stays known and keeps its slot.
func (c *caller) abandon(id uint64, oc *outCall) {
	c.mu.Lock()
	oc.zombie = !oc.answered
	c.mu.Unlock()
	if !oc.zombie { // the reply came at this moment; its body is not taken
		c.over(id)
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
	if call.Sink != nil {
		return r, c.acceptInto(ctx, f, call)
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
		err = c.receive(ctx, c.moves.Receive(f.id, call.Priority, buf), nil, nil)
	}
	if err != nil {
		return Reply{From: r.From}, c.refuse(f, err)
	}
	return r, nil
}

// acceptInto gives the body of the reply f to the call's sink.
func (c *caller) acceptInto(ctx context.Context, f frame, call Call) error {
	if f.bodyLen > c.MaxBody {
		return c.refuse(f, fmt.Errorf("%w: at most %d bytes are taken", ErrTooLarge, c.MaxBody))
	}
	sink, err := call.Sink(f.bodyLen)
	switch {
	case err != nil:
	case sink.Len() != f.bodyLen:
		err = fmt.Errorf("the sink takes %d bytes", sink.Len())
	case f.inline():
		err = sink.Take(0, f.body)
	default:
		err = c.receive(ctx, c.moves.ReceiveInto(f.id, call.Priority, sink), nil, nil)
	}
	if err != nil {
		return c.refuse(f, err)
	}
	return nil
}

// refuse tells the server that the reply's body is not wanted any more.
func (c *caller) refuse(f frame, err error) error {
	c.out.post(frame{kind: kindCancel, id: f.id})
	if errors.Is(err, ErrCancelled) {
		err = fmt.Errorf("%w: its body was given up", ErrNoReply)
	}
	return fmt.Errorf("receive the reply's body of %d bytes: %w", f.bodyLen, err)
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
