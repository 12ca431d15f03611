package p2p

import "fmt"

// upgraded is a Comm that was made beside the one in use.
type upgraded struct {
	attempt uint32
	comm    RunningComm
}

// Upgrade offers a Comm, made by both sides beside the one in use, for the next epoch. When both sides have called Upgrade with the same attempt, a
// number from 1 that rises, they move to it: nothing more is asked for over the old Comm, and when what was has arrived the next epoch begins over
// the new. The Transfer owns comm from then on, and closes it when it is not used, or not any more. When it fails the next epoch is one of Open.
func (t *Transfer) Upgrade(attempt uint32, comm RunningComm) {
	if !t.adopt(&upgraded{attempt, comm}) {
		_ = comm.Close() // it will not come into use
	}
}

// adopt takes a Comm for the next epoch, unless that is known to be in vain.
func (t *Transfer) adopt(c *upgraded) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dead != nil || c.attempt <= t.refused {
		return false
	}
	t.drop(t.candidate)
	t.candidate = c
	t.cfg.Post(Signal{Kind: SignalReady, Epoch: t.epoch, Offset: 1, Bytes: c.attempt})
	if t.cfg.Rank == 0 && t.bothReady() {
		t.pause()
	}
	return true
}

// CannotUpgrade tells the peer that this side has no Comm of that attempt.
func (t *Transfer) CannotUpgrade(attempt uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dead == nil {
		t.cfg.Post(Signal{Kind: SignalReady, Epoch: t.epoch, Bytes: attempt})
	}
}

// peerIsReady acts on SignalReady; t.mu is held.
func (t *Transfer) peerIsReady(s Signal) {
	if s.Offset == 1 {
		t.peerReady = s.Bytes
		if t.cfg.Rank == 0 && t.bothReady() {
			t.pause()
		}
		return
	}
	if t.peerReady == s.Bytes {
		t.peerReady = 0
	}
	t.refused = max(t.refused, s.Bytes)
	t.discard(s.Bytes)
}

// discard closes the Comm of an attempt of which the peer has no other end; t.mu is held.
func (t *Transfer) discard(attempt uint32) {
	if c := t.candidate; c != nil && c.attempt == attempt {
		t.candidate = nil
		t.drop(c)
	}
}

// drop closes a Comm that never came into use, beside the caller, who may be the reader of the control plane; t.mu is held.
func (t *Transfer) drop(c *upgraded) {
	if c != nil {
		t.dropping.Go(func() { _ = c.comm.Close() })
	}
}

// bothReady says whether both sides have the Comm of one attempt; t.mu is held.
func (t *Transfer) bothReady() bool {
	return t.candidate != nil && t.candidate.attempt == t.peerReady
}

// pause stops asking in this epoch; t.mu is held.
func (t *Transfer) pause() {
	if t.pausing || t.ended {
		return
	}
	t.pausing = true
	t.cfg.Post(Signal{Kind: SignalPause, Epoch: t.epoch})
	signal(t.wakeReceive) // what comes unasked is not waited for
	t.quiet()
}

// peerPauses acts on SignalPause; t.mu is held.
func (t *Transfer) peerPauses() error {
	if t.peerPaused {
		return fmt.Errorf("second pause in epoch %d: %w", t.epoch, ErrMalformed)
	}
	t.peerPaused = true
	t.pause()
	t.quiet()
	return nil
}

// meaning is why an epoch ended: the peer may have left for the better Comm, and closed this one, before its last signal was here.
func (t *Transfer) meaning(cause error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	lost := t.unsent > 0 || len(t.early) > 0
	for _, in := range t.ins {
		lost = lost || in.posted > in.taken
	}
	if t.pausing && !lost {
		return errSwitch
	}
	return cause
}

// quiet ends the epoch if it is paused and nothing is on its way; t.mu is held.
func (t *Transfer) quiet() {
	if t.pausing && t.peerPaused && t.flying == 0 && t.unsent == 0 && len(t.early) == 0 && t.stop != nil {
		t.stop(errSwitch)
	}
}
