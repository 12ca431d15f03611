package p2p

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// The ends of an epoch that are no faults of its own.
var (
	errSwitch    = errors.New("the pair moves to another comm")
	errPeerEnded = errors.New("the other side ended the epoch")
)

// epochs is what the Transfer's mutex guards of the succession of Comms.
type epochs struct {
	epoch     uint32
	stop      context.CancelCauseFunc // ends what this side does in the epoch
	ended     bool                    // this side has let go of the epoch's Comm and said so
	peerEnded bool                    // the peer has
	peerTaken uint64                  // chunks that it took
	peerCause string
	next      uint32        // number of the upgrade that the next epoch uses, 0 for none; rank 0 decides when it ends an epoch
	using     uint32        // that of this epoch
	advanced  chan struct{} // closed and made anew when the next epoch begins

	pausing    bool // this side asks for nothing more in this epoch
	peerPaused bool // nor does the peer
	candidate  *upgraded
	peerReady  uint32 // number of the upgrade that the peer has
	refused    uint32 // number of the last one that the peer could not make
	dropping   sync.WaitGroup
}

// round is what this side does in one epoch. It returns why that ended, when nothing of the Comm is left.
func (t *Transfer) round(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	t.mu.Lock()
	t.stop = stop
	if t.peerEnded {
		stop(t.peerFault())
	}
	t.quiet()
	epoch, use := t.epoch, t.using
	t.mu.Unlock()
	if t.cfg.Rank == 0 && use == 0 {
		t.awaitNeed(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	comm, err := t.open(ctx, epoch, use)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("open epoch %d: %w", epoch, err)
	}
	t.log.Debug("epoch opened", "peer", t.cfg.Peer, "epoch", epoch, "upgraded", use > 0)
	return t.move(ctx, comm)
}

// open makes the Comm of the epoch, or takes the upgraded one.
func (t *Transfer) open(ctx context.Context, epoch, use uint32) (RunningComm, error) {
	if use == 0 {
		return t.cfg.Open(ctx, epoch)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.candidate
	if c == nil || c.attempt != use {
		return nil, fmt.Errorf("the comm of upgrade %d is gone", use)
	}
	t.candidate = nil
	return c.comm, nil
}

// awaitNeed waits until there is something to move.
func (t *Transfer) awaitNeed(ctx context.Context) {
	for {
		t.mu.Lock()
		need := len(t.ins) > 0
		for _, o := range t.outs {
			need = need || !o.cancelled
		}
		t.mu.Unlock()
		if need {
			return
		}
		select {
		case <-t.need:
		case <-ctx.Done():
			return
		}
	}
}

// agree tells the peer that this side has ended the epoch, and waits until the peer has too.
func (t *Transfer) agree(ctx context.Context, cause error) error {
	t.mu.Lock()
	s := Signal{Kind: SignalReset, Epoch: t.epoch, Offset: t.taken, Text: cause.Error()}
	t.discard(t.using) // the epoch may have ended before this side came to use it
	if t.cfg.Rank == 0 && t.bothReady() {
		t.next = t.candidate.attempt
		s.Bytes = t.next
	}
	t.ended = true
	t.cfg.Post(s)
	advanced := t.advanced
	if errors.Is(cause, errSwitch) {
		t.stats.Switches++
	} else {
		t.stats.Resets++
	}
	if t.peerEnded {
		t.advance()
	}
	t.mu.Unlock()
	timer := time.NewTimer(t.policy.Agree)
	defer timer.Stop()
	select {
	case <-advanced:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return fmt.Errorf("%w: it did not end epoch %d within %v after %w", ErrPeer, s.Epoch, t.policy.Agree, cause)
	}
}

// peerEnds acts on SignalReset; t.mu is held.
func (t *Transfer) peerEnds(s Signal) error {
	if s.Offset < t.confirmed || s.Offset > t.confirmed+uint64(len(t.asked)) {
		return fmt.Errorf("%d chunks taken, %d to %d were sent: %w", s.Offset, t.confirmed, t.confirmed+uint64(len(t.asked)), ErrMalformed)
	}
	t.peerEnded, t.peerTaken, t.peerCause = true, s.Offset, s.Text
	if t.cfg.Rank == 1 {
		t.next = s.Bytes
	}
	if t.ended {
		t.advance()
	} else if t.stop != nil {
		t.stop(t.peerFault())
	}
	return nil
}

// peerFault is the peer's end of the epoch as an error; t.mu is held.
func (t *Transfer) peerFault() error {
	if t.pausing && t.peerPaused {
		return errSwitch // the peer was done a moment earlier; what is left is settled by its count
	}
	return fmt.Errorf("%w: %w: %s", ErrPeer, errPeerEnded, t.peerCause)
}

// advance begins the next epoch, when both sides have ended this one: they agree on what has arrived. t.mu is held.
func (t *Transfer) advance() {
	t.rewind(t.peerTaken)
	t.reask()
	t.epoch++
	t.using, t.next = t.next, 0
	t.ended, t.peerEnded, t.pausing, t.peerPaused = false, false, false, false
	t.stop = nil
	close(t.advanced)
	t.advanced = make(chan struct{})
	if t.cfg.Rank == 0 && t.bothReady() && t.using == 0 {
		t.pause() // it became ready when the last epoch had ended already
	}
}

// move runs the loops of an epoch over its Comm until the first fault, and returns that.
func (t *Transfer) move(ctx context.Context, comm RunningComm) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	e := newFlow(t, comm, fail)
	e.start(ctx)
	stalled := time.NewTicker(max(t.policy.Stall/4, 1))
	defer stalled.Stop()
	still := 0
	_, last := t.waiting()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-stalled.C:
			if is, now := t.waiting(); now != last || !is {
				still, last = 0, now
			} else if still++; still >= 4 {
				fail(fmt.Errorf("%w: no chunk arrived for %v", ErrPeer, t.policy.Stall))
			}
		}
	}
	_ = comm.Close() // what it could tell is told by the requests
	e.loops.Wait()
	return context.Cause(ctx)
}

// waiting says whether chunks are on their way, and how many ever came to an end.
func (t *Transfer) waiting() (is bool, active uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.flying > 0 || t.unsent > t.ahead || t.pausing, t.active
}
