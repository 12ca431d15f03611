package shard

import (
	"context"
	"sync"
	"sync/atomic"

	"hcclps/ps/raftgroup"
	"hcclps/ps/wire"
)

// scratch applies in place, as soon as it is proposed, what raft would replicate: the mode of --replicas 0. Nothing survives it.
//
// Whoever has put something into the inbox proposes, and so applies, what is there; when another does so already, a goroutine
// that waits for its turn looks once more.
type scratch struct {
	g      *Group
	lead   atomic.Bool
	failed chan error // the first failure

	turn     sync.Mutex // guards the rest
	proposer proposer
	index    uint64
}

func newScratch(g *Group) *scratch {
	return &scratch{g: g, failed: make(chan error, 1), proposer: proposer{g: g, follow: g.land}}
}

// applied is the outcome of an entry that is applied already.
type applied struct {
	response any
	err      error
}

func (a applied) Error() error  { return a.err }
func (a applied) Response() any { return a.response }

// Run does what others leave, until ctx ends or an entry could not be applied.
func (s *scratch) Run(ctx context.Context) (cause error) {
	s.g.inbox.begin()
	s.lead.Store(true)
	s.g.saving.lead(true)
	for done := false; !done; {
		select {
		case <-s.g.inbox.ready:
			s.turn.Lock()
			s.rounds()
			s.turn.Unlock()
		case cause = <-s.failed:
			done = true
		case <-ctx.Done():
			done = true
		}
	}
	s.turn.Lock() // everything that was proposed is answered
	defer s.turn.Unlock()
	s.g.inbox.end(s.g.elsewhere())
	s.g.saving.lead(false)
	s.lead.Store(false)
	s.g.wake() // pulls that only a leader answers
	return cause
}

// arrived proposes what is in the inbox, unless someone else is about it.
func (s *scratch) arrived() {
	if !s.turn.TryLock() {
		s.g.inbox.signal()
		return
	}
	defer s.turn.Unlock()
	s.rounds()
}

// rounds proposes what there is, and what that makes possible, for a few rounds; more is left to Run.
func (s *scratch) rounds() {
	for range 4 {
		if some, _ := s.proposer.round(); !some {
			return
		}
	}
	s.g.inbox.signal()
}

// propose applies an entry: pushes from where they lie.
func (s *scratch) propose(p proposal) (outcome, []byte) {
	work := &s.g.state.work
	var ready prepared
	if p.entry.Steps != nil {
		ready = work.sums(p.entry, p.sums)
	} else {
		ready = work.prepare(wire.AppendEntry(make([]byte, 0, p.size), p.entry))
	}
	s.index++
	response := s.g.apply(context.Background(), &ready, s.index, 1)
	s.g.wake()
	err, _ := response.(error)
	return applied{response, err}, nil
}

// Barrier has nothing to wait for: what was answered is applied.
func (s *scratch) Barrier(context.Context) error { return nil }

// Leading is true while Run runs.
func (s *scratch) Leading() (term uint64, ok bool) { return 1, s.lead.Load() }

// Resume does nothing: there are no snapshots.
func (*scratch) Resume() {}

// Fail ends Run with err.
func (s *scratch) Fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// Status says leader while Run runs.
func (s *scratch) Status() raftgroup.Status {
	st := raftgroup.Status{State: "stopped", Term: 1}
	if s.lead.Load() {
		st.State, st.Leader, st.Elections = "leader", s.g.cfg.Self, 1
	}
	return st
}
