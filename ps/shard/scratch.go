package shard

import (
	"context"
	"sync/atomic"

	"hcclps/ps/raftgroup"
	"hcclps/ps/wire"
)

// scratch applies in place, as soon as it is proposed, what raft would replicate: the mode of --replicas 0. Nothing survives it.
type scratch struct {
	g      *Group
	index  uint64
	lead   atomic.Bool
	failed chan error // the first failure
}

func newScratch(g *Group) *scratch { return &scratch{g: g, failed: make(chan error, 1)} }

// applied is the outcome of an entry that is applied already.
type applied struct {
	response any
	err      error
}

func (a applied) Error() error  { return a.err }
func (a applied) Response() any { return a.response }

// Run does the leader's work until ctx ends or an entry could not be applied.
func (s *scratch) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.lead.Store(true)
	led := make(chan struct{})
	go func() {
		defer close(led)
		s.g.lead(ctx, 1)
	}()
	var cause error
	select {
	case cause = <-s.failed:
		cancel()
		<-led
	case <-led: // everything it proposed is answered
	}
	s.lead.Store(false)
	return cause
}

// propose applies an entry, for one goroutine: pushes from where they lie.
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
