package world

import (
	"fmt"
	"sync"

	"hcclps/p2p"
)

// RankError names the rank that ended a world: it has died, or has said that it failed. It wraps p2p.ErrPeer.
type RankError struct {
	Rank   int    // negative: the rendezvous is lost, which was at no rank
	Info   string // where it ran, for people
	Reason string
}

// Error is "rank 3 (host a, process 7) failed: reason".
func (e *RankError) Error() string {
	if e.Rank < 0 {
		return e.Reason
	}
	return fmt.Sprintf("rank %d (%s) failed: %s", e.Rank, e.Info, e.Reason)
}

// Unwrap is p2p.ErrPeer.
func (e *RankError) Unwrap() error { return p2p.ErrPeer }

// fate is what a rank knows of the ends of others.
type fate struct {
	failed chan struct{} // closed with the verdict

	mu      sync.Mutex
	verdict *RankError
	left    map[int]string // who has left of its own will, and why
}

func newFate() *fate { return &fate{failed: make(chan struct{}), left: make(map[int]string)} }

// judge keeps the first verdict, and says whether this was it.
func (f *fate) judge(v *RankError) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.verdict != nil {
		return false
	}
	f.verdict = v
	close(f.failed)
	return true
}

// known is the verdict, nil if there is none.
func (f *fate) known() *RankError {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.verdict
}

func (f *fate) verdictOf() (rank int, reason string) {
	if v := f.known(); v != nil {
		return v.Rank, v.Reason
	}
	return -1, ""
}

func (f *fate) leaves(rank int, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left[rank] = why
}

func (f *fate) hasLeft(rank int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.left[rank]
	return ok
}

// why is the reason for which a rank has left, "" if it has not.
func (f *fate) why(rank int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left[rank]
}

// departures tells for people which ranks have left; "" if none has.
func (f *fate) departures(members []member) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r := range members { // the lowest will do
		if why, ok := f.left[r]; ok {
			return fmt.Sprintf("rank %d (%s) has left: %s", r, members[r].info, why)
		}
	}
	return ""
}

// Failed is closed when the World has failed: a rank is dead, or has called Fail. All its Comms die of that.
func (w *World) Failed() <-chan struct{} { return w.fate.failed }

// Verdict says which rank ended the World, and why; the rank is negative while all is well, and if it was the loss of a rendezvous at no rank. All ranks
// are told the same, except that who loses the rendezvous blames the rank where it is.
func (w *World) Verdict() (rank int, reason string) { return w.fate.verdictOf() }

// Err is the verdict as a *RankError, nil while all is well.
func (w *World) Err() error {
	if v := w.fate.known(); v != nil {
		return v
	}
	return nil
}

// Fail tells all ranks that this one cannot go on. It does not wait: Failed is closed here too when the rendezvous has heard it. If another
// rank has failed before, that stays the verdict.
func (w *World) Fail(reason string) {
	if !w.reachable() {
		w.judge(w.rank, reason)
		return
	}
	w.link.post(frame{kind: kindFailed, rank: w.rank, text: reason})
}

// reachable says whether there is a rendezvous that can be told something.
func (w *World) reachable() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.link != nil && w.state != handed && w.state != ended && !w.gone.Load()
}

// blame is a verdict.
func (w *World) blame(rank int, reason string) *RankError {
	v := &RankError{Rank: rank, Reason: clip(reason)}
	if rank >= 0 {
		v.Info = w.Info(rank)
	}
	return v
}

// judge ends the World for a rank's failure.
func (w *World) judge(rank int, reason string) {
	v := w.blame(rank, reason)
	if w.fate.judge(v) {
		w.condemn(v)
		w.cfg.Logger.Error("world failed", "rank", v.Rank, "info", v.Info, "reason", v.Reason, "epoch", w.table.epoch)
	}
}
