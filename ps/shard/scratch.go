package shard

import (
	"context"
	"sync/atomic"

	"hcclps/ps/raftgroup"
	"hcclps/ps/wire"
)

// scratch applies in place what raft would replicate: the mode of --replicas 0.
// Nothing survives it.
type scratch struct {
	g      *Group
	queue  chan *scratchFuture
	index  uint64
	lead   atomic.Bool
	failed chan error // the first failure
}

func newScratch(g *Group) *scratch {
	return &scratch{g: g, queue: make(chan *scratchFuture, flights), failed: make(chan error, 1)}
}

// scratchFuture is an outcome.
type scratchFuture struct {
	entry    []byte      // nil: steps
	steps    []wire.Item // from where they lie
	response any
	err      error
	done     chan struct{}
}

func (f *scratchFuture) Error() error {
	<-f.done
	return f.err
}
func (f *scratchFuture) Response() any { return f.response }

// Run applies entries until ctx ends, and does the leader's work all the time.
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
	for {
		select {
		case f := <-s.queue:
			s.index++
			p := f.ready(&s.g.state.work)
			f.response = s.g.apply(ctx, &p, s.index, 1)
			f.err, _ = f.response.(error)
			s.g.wake()
			close(f.done)
		case cause = <-s.failed:
			cancel()
		case <-led: // everything it proposed is answered
			s.lead.Store(false)
			return cause
		}
	}
}

// ready makes what is proposed ready to be applied.
func (f *scratchFuture) ready(w *workspace) prepared {
	if f.entry != nil {
		return w.prepare(f.entry)
	}
	return w.ready(wire.Entry{Steps: f.steps})
}

// propose has pushes applied from where they lie: the inbox keeps them until they are answered. What else is asked for is
// copied, since its memory may be gone by then.
func (s *scratch) propose(e wire.Entry, size int) (outcome, []byte) {
	f := &scratchFuture{steps: e.Steps, done: make(chan struct{})}
	if e.Steps == nil {
		f.entry = wire.AppendEntry(make([]byte, 0, size), e)
	}
	s.queue <- f
	return f, nil
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
