package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sync/errgroup"

	"hcclps/ps/layout"
)

// recheck is how often the log's size is looked at when nothing is applied.
const recheck = 2 * time.Second

// Run owns raft, the log's and the snapshot store's goroutines until ctx ends
// (nil) or the group fails (the cause). A leader hands over before it ends.
func (n *Node) Run(ctx context.Context) error {
	n.fit()
	_, budget := n.cfg.Log.Bytes()
	n.threshold.Store(budget / 2)
	r, err := n.open(ctx)
	if err != nil {
		return err
	}
	n.raft.Store(r)
	// The log and the snapshot store end after raft does.
	below, stopBelow := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBelow()
	var stores errgroup.Group
	stores.Go(func() error { return n.own("log", n.cfg.Log.Run(below)) })
	stores.Go(func() error { return n.own("snapshots", n.cfg.Snapshots.Run(below)) })
	work, ctxWork := errgroup.WithContext(ctx)
	work.Go(func() error { return n.watch(ctxWork, r) })
	work.Go(func() error { return n.compact(ctxWork) })
	work.Go(func() error { return n.await(ctxWork) })
	err = work.Wait()
	n.leave(ctx, r, err)
	stopBelow()
	err = errors.Join(err, stores.Wait())
	select {
	case <-n.failed:
		return n.cause
	default:
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// own turns the early end of a store into the group's failure.
func (n *Node) own(what string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return nil // it was told to end
	}
	n.Fail(fmt.Errorf("run %s: %w", what, err))
	return nil
}

// await returns when the node failed or ctx ended.
func (n *Node) await(ctx context.Context) error {
	select {
	case <-n.failed:
		return n.cause
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave ends raft after what is under way, handing leadership over unless the group failed or plays a crash.
func (n *Node) leave(ctx context.Context, r *raft.Raft, err error) {
	n.intake.close()
	healthy := ctx.Err() != nil && errors.Is(err, ctx.Err()) && !errors.Is(context.Cause(ctx), ErrCrash)
	if healthy && r.State() == raft.Leader && len(r.GetConfiguration().Configuration().Servers) > 1 {
		if err := r.LeadershipTransfer().Error(); err != nil {
			n.cfg.Logger.Debug("leadership not handed over", "group", n.cfg.Group, "err", err)
		}
	}
	// A request to a silent peer would hold the shutdown for its time-out.
	if t, ok := n.cfg.Transport.(raft.WithClose); ok {
		if err := t.Close(); err != nil {
			n.cfg.Logger.Warn("transport not closed", "group", n.cfg.Group, "err", err)
		}
	}
	if err := r.Shutdown().Error(); err != nil {
		n.cfg.Logger.Warn("raft did not shut down cleanly", "group", n.cfg.Group, "err", err)
	}
	n.leading.Store(0)
	n.raft.Store(nil)
}

// open bootstraps the group if it is ours to do and starts raft.
func (n *Node) open(ctx context.Context) (*raft.Raft, error) {
	c, conf := n.cfg, n.config(ctx)
	if len(c.Bootstrap) > 0 {
		servers := make([]raft.Server, len(c.Bootstrap))
		for i, id := range c.Bootstrap {
			servers[i] = raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id)}
		}
		err := raft.BootstrapCluster(conf, c.Log, c.Stable, c.Snapshots, c.Transport, raft.Configuration{Servers: servers})
		if err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
			return nil, fmt.Errorf("bootstrap %s: %w", layout.GroupName(c.Group), err)
		}
	}
	r, err := raft.NewRaft(conf, &machine{node: n, fsm: c.FSM}, c.Log, c.Stable, c.Snapshots, c.Transport)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", layout.GroupName(c.Group), err)
	}
	return r, nil
}

// config is raft's, by the figures measured: batches, pre-vote, and snapshots
// by bytes of log instead of by count.
func (n *Node) config(ctx context.Context) *raft.Config {
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(n.cfg.Self)
	conf.HeartbeatTimeout = n.cfg.Heartbeat
	conf.ElectionTimeout = n.cfg.Heartbeat
	conf.LeaderLeaseTimeout = n.cfg.Heartbeat
	conf.CommitTimeout = commitTimeout
	conf.MaxAppendEntries = maxAppend
	conf.BatchApplyCh = true
	conf.SnapshotInterval = 24 * time.Hour
	conf.SnapshotThreshold = math.MaxUint64
	conf.NoLegacyTelemetry = true
	conf.Logger = bridge(ctx, n.cfg.Logger.With("group", n.cfg.Group))
	return conf
}

// watch runs the leader's work while this replica leads.
func (n *Node) watch(ctx context.Context, r *raft.Raft) error {
	end := func() {}
	defer func() { end() }()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case leader := <-r.LeaderCh():
			end() // a second "true" means: lost and won again
			end = func() {}
			if leader {
				end = n.lead(ctx, r)
			}
		}
	}
}

// lead starts the leader's work; the function it returns ends it and waits.
func (n *Node) lead(ctx context.Context, r *raft.Raft) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		term := r.CurrentTerm()
		if err := n.Barrier(ctx); err != nil {
			n.cfg.Logger.Debug("leadership lost before the barrier", "group", n.cfg.Group, "term", term, "err", err)
			return
		}
		n.elections.Add(1)
		n.leading.Store(term)
		n.cfg.Logger.Info("leading", "group", n.cfg.Group, "term", term)
		if n.cfg.Lead != nil {
			n.cfg.Lead(ctx, term)
		}
	}()
	return func() {
		n.leading.Store(0)
		cancel()
		<-done
		n.leading.Store(0)
	}
}

// compact takes a snapshot each time the log has passed its threshold.
func (n *Node) compact(ctx context.Context) error {
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	grown := n.grown
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-grown:
		case <-n.resume:
		case <-tick.C:
		}
		grown = n.grown
		if used, _ := n.cfg.Log.Bytes(); used <= n.threshold.Load() {
			continue
		}
		err := n.Snapshot(ctx)
		switch {
		case err == nil || ctx.Err() != nil || errors.Is(err, raft.ErrNothingNewToSnapshot):
			continue
		case errors.Is(err, ErrLater):
			n.cfg.Logger.Debug("a snapshot is put off", "group", n.cfg.Group, "err", err)
		default:
			n.cfg.Logger.Warn("snapshot failed; the log keeps growing until one succeeds", "group", n.cfg.Group, "err", err)
		}
		grown = nil // not again at once: the disk may be full
	}
}

// stateShare is the part of a group's state that its log may be: a snapshot may have to write all of the state again, so a log that stayed
// small would have more and more written for each of its bytes.
const stateShare = 10

// fit lets the log grow with the state, of which the newest snapshot tells, as far as its configuration lets it.
func (n *Node) fit() {
	snaps, err := n.cfg.Snapshots.List()
	if err == nil && len(snaps) > 0 {
		err = n.cfg.Log.Grow(snaps[0].Size / stateShare)
	}
	if err != nil {
		n.cfg.Logger.Warn("the log does not grow with the state: snapshots are taken more often", "group", n.cfg.Group, "err", err)
	}
}

// Resume says that what put a snapshot off, or ended it, is over: one that is due is taken at once.
func (n *Node) Resume() {
	select {
	case n.resume <- struct{}{}:
	default:
	}
}

// behind is how many bytes of log stay behind a snapshot, for replicas that lag a little: none where there are no others, so that the next
// snapshot is due later.
func behind(r *raft.Raft, budget int64) int64 {
	if len(r.GetConfiguration().Configuration().Servers) == 1 {
		return 0
	}
	return budget / 4
}

// Snapshot takes a snapshot now and cuts the log behind it. An error has ErrLater in its chain if the state machine put it off.
func (n *Node) Snapshot(ctx context.Context) error {
	r := n.raft.Load()
	if r == nil {
		return ErrStopped
	}
	used, budget := n.cfg.Log.Bytes()
	knobs := r.ReloadableConfig()
	knobs.TrailingLogs = max(1, n.cfg.Log.TrailingFor(behind(r, budget)))
	if err := r.ReloadConfig(knobs); err != nil {
		return fmt.Errorf("set trailing logs of %s: %w", layout.GroupName(n.cfg.Group), err)
	}
	err := n.start(func(r *raft.Raft) raft.Future { return r.Snapshot() }).Wait(ctx)
	if later := n.later.Swap(nil); later != nil && err != nil {
		err = *later
	}
	if err != nil {
		return fmt.Errorf("snapshot %s: %w", layout.GroupName(n.cfg.Group), err)
	}
	n.fit()
	after, budget := n.cfg.Log.Bytes()
	// Space comes back by whole segments: do not snapshot again for every entry,
	// but always before the high-water mark.
	n.threshold.Store(max(budget/2, min(after+budget/8, budget/16*11)))
	n.cfg.Logger.Debug("snapshot taken", "group", n.cfg.Group, "log_bytes", used, "log_bytes_after", after)
	return nil
}
