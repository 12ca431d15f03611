package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"hcclps/p2p/link"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// session is one incarnation of a worker: the lease, and how far each shard
// is with it.
type session struct {
	incarnation uint64
	params      wire.JobParams
	lease       time.Duration
	shards      []shardPosition

	mu      sync.Mutex
	renewed time.Time     // start of the last renewal that was answered
	changed chan struct{} // closed and replaced at each renewal
	lost    error         // the meta group refuses this session
}

// shardPosition is what this session knows of a shard. Pushes and pulls of
// several goroutines move it on.
type shardPosition struct {
	resumed uint64 // steps done when the session opened: this shard may be one ahead

	mu    sync.Mutex
	done  uint64 // steps of this worker that the shard has acknowledged
	term  uint64 // highest applied position seen there
	index uint64
}

func (p *shardPosition) advance(a wire.Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.Term > p.term || a.Term == p.term && a.Index > p.index {
		p.term, p.index = a.Term, a.Index
	}
	p.done = max(p.done, a.Done)
}

// stamp makes a pull ask for nothing older than what was seen.
func (p *shardPosition) stamp(m *wire.Pull) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.Own, m.Term, m.Index = p.done, p.term, p.index
}

// resumed is where a session goes on.
type resumed struct {
	step        uint64
	cursor      []byte // after the last completed step; nil: none
	incarnation uint64
	params      wire.JobParams
	tables      []wire.Table
	restored    *wire.Restored // nil: the job has begun anew
}

func (cfg Config) jobParams() wire.JobParams {
	return wire.JobParams{
		World: uint32(cfg.World), Sync: cfg.Sync, Staleness: uint32(cfg.Staleness),
		Parts: uint32(cfg.Parts), Sum: cfg.Sum, Seed: cfg.Seed, Data: cfg.Data,
	}
}

// open gets a new incarnation from the meta group, fences off older
// ones at every shard, and resumes after the last step that all shards have.
func (s *servers) open(ctx context.Context) (resumed, error) {
	if err := s.discover(ctx); err != nil {
		return resumed{}, err
	}
	var opened wire.OpenReply
	start := time.Now()
	err := s.control(ctx, "open session", wire.KindOpen, wire.OpenRequest{
		Job: s.cfg.Job, Worker: s.cfg.Worker, Rank: uint32(s.cfg.Rank), Params: s.cfg.jobParams(), Owner: owner(), State: true, Mode: s.cfg.Mode.String(),
	}, &opened)
	if err != nil {
		return resumed{}, err
	}
	if opened.Lease < time.Millisecond {
		return resumed{}, fmt.Errorf("open session: the servers grant a lease of %v", opened.Lease)
	}
	n := &s.session
	n.incarnation, n.params, n.lease = opened.Incarnation, opened.Params, opened.Lease
	n.renewed, n.changed = start, make(chan struct{})
	s.owner = opened.Owner
	r, err := s.fence(ctx, opened)
	r.incarnation, r.params, r.tables, r.restored = opened.Incarnation, opened.Params, opened.Tables, opened.Restored
	return r, err
}

func (s *servers) fence(ctx context.Context, opened wire.OpenReply) (r resumed, err error) {
	shards := len(s.layout.Shards)
	answers := make([]wire.Answer, shards)
	eg, ectx := errgroup.WithContext(ctx)
	for i := range shards {
		eg.Go(func() error {
			m := wire.Fence{Target: s.target(i), Params: opened.Params, Rank: uint32(s.cfg.Rank), Owner: opened.Owner}
			var err error
			answers[i], _, err = s.do(ectx, request{op: "open session", group: layout.GroupOf(i), head: wire.Append(nil, &m), prio: link.Push})
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return r, err
	}
	s.session.shards = make([]shardPosition, shards)
	first := 0
	for i, a := range answers {
		s.session.shards[i].advance(a)
		s.session.shards[i].resumed = a.Done
		if a.Done < answers[first].Done {
			first = i
		}
	}
	r.step = answers[first].Done
	if r.cursor = answers[first].Cursor; len(r.cursor) == 0 {
		r.cursor = nil
	}
	if opened.Rejoin != nil {
		r.step = max(r.step, *opened.Rejoin)
		if opened.Params.Sync != BSP {
			r.cursor = nil // what it had claimed was handed on
		}
	}
	s.log.Info("session open", "job", s.cfg.Job, "worker", s.cfg.Worker, "incarnation", opened.Incarnation, "step", r.step)
	return r, nil
}

func (s *servers) target(shard int) wire.Target {
	return wire.Target{Group: layout.GroupOf(shard), Job: s.cfg.Job, Worker: s.cfg.Worker, Incarnation: s.session.incarnation}
}

func (s *servers) ref() wire.SessionRef {
	return wire.SessionRef{Job: s.cfg.Job, Worker: s.cfg.Worker, Incarnation: s.session.incarnation}
}

// keepLease renews the lease three times per term until ctx ends.
func (s *servers) keepLease(ctx context.Context) {
	n := &s.session
	tick := time.NewTicker(n.lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		start := time.Now()
		renew, cancel := context.WithTimeout(ctx, n.lease/3)
		err := s.control(renew, "renew lease", wire.KindRenew, wire.RenewRequest{SessionRef: s.ref()}, nil)
		cancel()
		var refused *RefusedError
		switch {
		case err == nil:
			n.renewal(start, nil)
		case errors.As(err, &refused):
			n.renewal(start, err)
			return
		default:
			s.log.Warn("lease not renewed", "err", err)
		}
	}
}

func (s *session) renewal(at time.Time, lost error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = lost
	s.renewed = at
	close(s.changed)
	s.changed = make(chan struct{})
}

// holdsLease waits while the lease has not been renewed for two thirds of its
// term: such a worker may be about to be expelled and must not push.
func (s *session) holdsLease(ctx context.Context) error {
	for {
		s.mu.Lock()
		left, lost, changed := time.Until(s.renewed.Add(s.lease*2/3)), s.lost, s.changed
		s.mu.Unlock()
		if lost != nil {
			return lost
		}
		if left > 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("lease not renewed for %v: meta group unreachable: %w", s.lease-left, context.Cause(ctx))
		}
	}
}

// finish implements store.
func (s *servers) finish(ctx context.Context, step uint64) error {
	eg, ectx := errgroup.WithContext(ctx)
	for i := range s.session.shards {
		eg.Go(func() error {
			m := wire.Finish{Target: s.target(i), Step: step}
			a, _, err := s.do(ectx, request{op: "finish", group: layout.GroupOf(i), head: wire.Append(nil, &m), prio: link.Push})
			if err == nil {
				s.session.shards[i].advance(a)
			}
			return err
		})
	}
	return eg.Wait()
}

// close implements store.
func (s *servers) close(ctx context.Context, finished bool) error {
	err := s.control(ctx, "close session", wire.KindClose, wire.CloseRequest{SessionRef: s.ref(), Finished: finished}, nil)
	if errors.Is(err, ErrFenced) || errors.Is(err, ErrExpelled) {
		return nil // nothing left to close
	}
	return err
}
