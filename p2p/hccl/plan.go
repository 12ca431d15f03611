package hccl

import (
	"fmt"

	"hcclps/p2p"
)

// A flow is one direction of a pair, numbered by the rank that sends.
const flows = 2

// posted is a message as one side announced it.
type posted struct {
	n      uint64 // bytes not yet in a step
	device bool   // lies in device memory: no piece has to be staged
}

// step is one operator that both sides issue: a Send at the rank of the flow's number, a Recv at the other. A message of length
// 0 has one step of 0 bytes, for which nothing is issued.
type step struct {
	flow int
	n    uint64
	last bool // the message ends with it
}

// plan is how rank 0 puts the operators of a pair in one order for both sides. A step is planned when its message
// is posted on both sides, the sender has staged the piece and the receiver has room for it, so that nothing on a stream waits
// for a host. The flows take turns. It is a plain function of what it was told.
type plan struct {
	piece uint64 // bytes of a staged piece
	whole uint64 // bytes of a step between two device memories
	flow  [flows]struct {
		sends, recvs queue[posted]
		staged, room int // pieces
	}
	turn int
}

// lengthError says that the two sides named different lengths for one message.
type lengthError struct {
	flow       int
	sent, room uint64
}

func (e *lengthError) Error() string {
	return fmt.Sprintf("%v: message of %d bytes from rank %d for a receive of %d", p2p.ErrLength, e.sent, e.flow, e.room)
}

// Unwrap is p2p.ErrLength.
func (e *lengthError) Unwrap() error { return p2p.ErrLength }

// next returns the next step, if there is one that can be done now.
func (p *plan) next() (step, bool, error) {
	for range flows {
		f := p.turn
		p.turn = (p.turn + 1) % flows
		if s, ok, err := p.nextOf(f); ok || err != nil {
			return s, ok, err
		}
	}
	return step{}, false, nil
}

func (p *plan) nextOf(f int) (step, bool, error) {
	w := &p.flow[f]
	if w.sends.len() == 0 || w.recvs.len() == 0 {
		return step{}, false, nil
	}
	s, r := w.sends.front(), w.recvs.front()
	if s.n != r.n {
		return step{}, false, &lengthError{f, s.n, r.n}
	}
	n := min(s.n, p.whole)
	if !s.device || !r.device {
		n = min(s.n, p.piece)
	}
	if n > 0 && (!s.device && w.staged == 0 || !r.device && w.room == 0) {
		return step{}, false, nil
	}
	if n > 0 && !s.device {
		w.staged--
	}
	if n > 0 && !r.device {
		w.room--
	}
	s.n -= n
	r.n -= n
	last := s.n == 0
	if last {
		w.sends.pop()
		w.recvs.pop()
	}
	return step{f, n, last}, true, nil
}
