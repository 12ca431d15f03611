package link

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"hcclps/p2p"
)

// Request is a call as its handler sees it.
type Request struct {
	Peer     Hello    // who calls
	Head     []byte   // belongs to the handler
	BodyLen  int      // bytes
	Priority Priority // of the call; its reply's body has the same

	id     uint64
	inline []byte
	from   *responder
	gone   chan struct{}           // closed when the caller has given up
	over   <-chan struct{}         // the end of the handler's context; set before it runs
	cancel context.CancelCauseFunc // of the handler's context, nil before it runs; belongs to the responder's mutex

	bodyTaken atomic.Bool
	receiving atomic.Bool
	replied   atomic.Bool
}

// Body grants and receives the body into new memory. Nothing of a large body travels before, or over shared memory its
// beginning (package comment): that is the back-pressure. Body or BodyInto may be called once, and not after Reply.
// When it fails, its memory is not written to any more.
func (r *Request) Body(ctx context.Context) ([]byte, error) {
	if r.BodyLen <= MaxInline && r.bodyTaken.CompareAndSwap(false, true) {
		return r.inline, nil
	}
	buf := make([]byte, r.BodyLen)
	return buf, r.BodyInto(ctx, buf)
}

// BodyInto is Body into dst, whose length must be BodyLen.
func (r *Request) BodyInto(ctx context.Context, dst []byte) error {
	if len(dst) != r.BodyLen {
		return fmt.Errorf("receive body: memory of %d bytes given for a body of %d", len(dst), r.BodyLen)
	}
	if err := r.claimBody(); err != nil {
		return err
	}
	if r.BodyLen <= MaxInline {
		copy(dst, r.inline)
		return nil
	}
	return r.receive(ctx, r.from.moves.Receive(r.id, r.Priority, dst))
}

// BodyTo is BodyInto for a sink, of length BodyLen, which takes the body chunk by chunk while it arrives. It may have had a part when it fails.
func (r *Request) BodyTo(ctx context.Context, sink p2p.Sink) error {
	if sink.Len() != r.BodyLen {
		return fmt.Errorf("receive body: a sink of %d bytes given for a body of %d", sink.Len(), r.BodyLen)
	}
	if err := r.claimBody(); err != nil {
		return err
	}
	if r.BodyLen <= MaxInline {
		return sink.Take(0, r.inline)
	}
	return r.receive(ctx, r.from.moves.ReceiveInto(r.id, r.Priority, sink))
}

// claimBody sees to it that the body is taken once, and not after the reply.
func (r *Request) claimBody() error {
	if r.replied.Load() || !r.bodyTaken.CompareAndSwap(false, true) {
		return errors.New("receive body: taken or replied to already")
	}
	return nil
}

func (r *Request) receive(ctx context.Context, in *p2p.Incoming) error {
	r.receiving.Store(true)
	defer r.receiving.Store(false)
	if err := r.from.receive(ctx, in, r.gone, ErrCancelled); err != nil {
		return fmt.Errorf("receive body of %d bytes from %s: %w", r.BodyLen, r.Peer.From, err)
	}
	return nil
}

// Reply answers the request, once. The pieces of body are sent as one body and are read until Reply returns. With a large
// body that is when the caller has taken it, has given up (ErrCancelled) or is lost (ErrPeer), at the latest when the handler's context ends; a
// small one is only on its way then.
func (r *Request) Reply(head []byte, body ...[]byte) error { return r.answer(head, nil, body) }

// ReplyFrom is Reply with a body that src makes chunk by chunk while it is sent. If src fails the caller gets no reply.
func (r *Request) ReplyFrom(head []byte, src p2p.Source) error { return r.answer(head, src, nil) }

func (r *Request) answer(head []byte, src p2p.Source, body [][]byte) error {
	if len(head) > MaxHead {
		return fmt.Errorf("reply: head of %d bytes, at most %d: %w", len(head), MaxHead, ErrTooLarge)
	}
	if r.receiving.Load() {
		return errors.New("reply: the body is still being received")
	}
	if !r.replied.CompareAndSwap(false, true) {
		return errors.New("reply: replied already")
	}
	src, body, total, err := bodyOf(src, body)
	if err != nil {
		r.from.out.post(frame{kind: kindReply, id: r.id, status: statusNoReply})
		return fmt.Errorf("reply to %s: make the body: %w", r.Peer.From, err)
	}
	f := frame{kind: kindReply, id: r.id, head: head, bodyLen: total}
	if err := r.reply(f, src, body); err != nil {
		return fmt.Errorf("reply to %s: %w", r.Peer.From, err)
	}
	return nil
}

func (r *Request) reply(f frame, src p2p.Source, body [][]byte) error {
	s := r.from
	if s.dead() {
		return s.err
	}
	if r.isGone() {
		s.out.post(frame{kind: kindReply, id: r.id, status: statusCancelled})
		return ErrCancelled
	}
	var large *p2p.Outgoing
	if !f.inline() {
		large = send(s.moves, r.id, src, body)
	}
	if !s.out.send(f, body, s.done, r.gone) {
		if large != nil {
			large.Withdraw(ErrCancelled)
			<-large.Done()
		}
		if s.dead() {
			return s.err
		}
		s.out.post(frame{kind: kindReply, id: r.id, status: statusCancelled})
		return ErrCancelled
	}
	if large == nil {
		return nil
	}
	return r.deliver(large)
}

// deliver waits until the caller has taken the body.
func (r *Request) deliver(send *p2p.Outgoing) error {
	var cause error
	select {
	case <-send.Done():
		return r.from.outcome(send.Err())
	case <-r.over:
		cause = r.ended()
	}
	send.Cancel(cause)
	<-send.Done()
	if send.Err() == nil {
		return nil // it was complete at that moment
	}
	return because(cause, send.Err())
}

// ended says why the handler's context has ended while the caller took the body. Time alone is no reason the caller could be told: chunks may
// be on their way, and zeros in place of the rest would look like an answer. So the connection ends.
func (r *Request) ended() error {
	s := r.from
	if r.isGone() {
		return ErrCancelled
	}
	if !s.dead() {
		s.fail(fmt.Errorf("%w: it did not take a reply's body within %v", ErrPeer, s.timeout))
	}
	<-s.done
	return s.err
}

func (r *Request) isGone() bool {
	select {
	case <-r.gone:
		return true
	default:
		return false
	}
}

// silence is the status that stands for a reply which the handler did not give.
func (r *Request) silence() status {
	if r.isGone() {
		return statusCancelled
	}
	return statusNoReply
}
