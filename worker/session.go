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
	cursor      []byte // after the last completed step
	shards      []shardPosition
	finished    bool

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

func (c *Client) jobParams() wire.JobParams {
	return wire.JobParams{
		World: uint32(c.cfg.World), Sync: c.cfg.Sync, Staleness: uint32(c.cfg.Staleness),
		Parts: uint32(c.cfg.Parts), Sum: c.cfg.Sum, Seed: c.cfg.Seed, Data: c.cfg.Data,
	}
}

// openSession gets a new incarnation from the meta group, fences off older
// ones at every shard, and resumes after the last step that all shards have.
func (c *Client) openSession(ctx context.Context) error {
	var opened wire.OpenReply
	start := time.Now()
	err := c.servers.control(ctx, "open session", wire.KindOpen, wire.OpenRequest{
		Job: c.cfg.Job, Worker: c.cfg.Worker, Rank: uint32(c.cfg.Rank), Params: c.jobParams(), Owner: owner(),
	}, &opened)
	if err != nil {
		return err
	}
	if opened.Lease < time.Millisecond {
		return fmt.Errorf("open session: the servers grant a lease of %v", opened.Lease)
	}
	s := &c.session
	s.incarnation, s.params, s.lease = opened.Incarnation, opened.Params, opened.Lease
	s.renewed, s.changed = start, make(chan struct{})
	c.servers.owner = opened.Owner
	for _, t := range opened.Tables {
		c.tables[t.Name] = newTable(t)
	}
	return c.fence(ctx, opened)
}

func (c *Client) fence(ctx context.Context, opened wire.OpenReply) error {
	shards := len(c.servers.layout.Shards)
	answers := make([]wire.Answer, shards)
	eg, ectx := errgroup.WithContext(ctx)
	for i := range shards {
		eg.Go(func() error {
			m := wire.Fence{Target: c.target(i), Params: opened.Params, Rank: uint32(c.cfg.Rank), Owner: opened.Owner}
			var err error
			answers[i], _, err = c.servers.do(ectx, request{op: "open session", group: layout.GroupOf(i), head: wire.Append(nil, &m), prio: link.Push})
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return err
	}
	s := &c.session
	s.shards = make([]shardPosition, shards)
	first := 0
	for i, a := range answers {
		s.shards[i].advance(a)
		s.shards[i].resumed = a.Done
		if a.Done < answers[first].Done {
			first = i
		}
	}
	c.step.Store(answers[first].Done)
	s.cursor = answers[first].Cursor
	if len(s.cursor) == 0 {
		s.cursor = nil
	}
	if opened.Rejoin != nil {
		c.step.Store(max(c.Clock(), *opened.Rejoin))
		if s.params.Sync != BSP {
			s.cursor = nil // what it had claimed was handed on
		}
	}
	c.cfg.Logger.Info("session open", "job", c.cfg.Job, "worker", c.cfg.Worker, "incarnation", s.incarnation, "step", c.Clock())
	return nil
}

func (c *Client) target(shard int) wire.Target {
	return wire.Target{Group: layout.GroupOf(shard), Job: c.cfg.Job, Worker: c.cfg.Worker, Incarnation: c.session.incarnation}
}

func (c *Client) ref() wire.SessionRef {
	return wire.SessionRef{Job: c.cfg.Job, Worker: c.cfg.Worker, Incarnation: c.session.incarnation}
}

// keepLease renews the lease three times per term until ctx ends.
func (s *session) keepLease(ctx context.Context, c *Client) {
	tick := time.NewTicker(s.lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		start := time.Now()
		renew, cancel := context.WithTimeout(ctx, s.lease/3)
		err := c.servers.control(renew, "renew lease", wire.KindRenew, wire.RenewRequest{SessionRef: c.ref()}, nil)
		cancel()
		var refused *RefusedError
		switch {
		case err == nil:
			s.renewal(start, nil)
		case errors.As(err, &refused):
			s.renewal(start, err)
			return
		default:
			c.cfg.Logger.Warn("lease not renewed", "err", err)
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

// Finish says that this worker has no more steps: nobody waits for it from now
// on.
func (c *Client) Finish(ctx context.Context) error {
	eg, ectx := errgroup.WithContext(ctx)
	for i := range c.session.shards {
		eg.Go(func() error {
			m := wire.Finish{Target: c.target(i), Step: c.Clock()}
			a, _, err := c.servers.do(ectx, request{op: "finish", group: layout.GroupOf(i), head: wire.Append(nil, &m), prio: link.Push})
			if err == nil {
				c.session.shards[i].advance(a)
			}
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return fmt.Errorf("finish at step %d: %w", c.Clock(), err)
	}
	c.session.finished = true
	return nil
}

func (c *Client) closeSession(ctx context.Context) error {
	err := c.servers.control(ctx, "close session", wire.KindClose, wire.CloseRequest{SessionRef: c.ref(), Finished: c.session.finished}, nil)
	if errors.Is(err, ErrFenced) || errors.Is(err, ErrExpelled) {
		return nil // nothing left to close
	}
	return err
}
