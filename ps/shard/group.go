package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/internal/trace"
	"hcclps/p2p"
	"hcclps/ps/layout"
	"hcclps/ps/raftgroup"
	"hcclps/ps/raftlog"
	"hcclps/ps/snapshot"
	"hcclps/ps/table"
	"hcclps/ps/wire"
)

// maxPart bounds a log entry, beside the log's own bound.
const maxPart = 8 << 20

// Config describes a replica of a shard's group.
type Config struct {
	Group      uint32
	Self       string               // server id
	Layout     func() layout.Layout // the layout in force
	Log        *raftlog.Log         // nil: scratch mode, applied in place without a log
	Stable     *raftlog.Stable      // term and vote
	Snapshots  *snapshot.Store      // of this group
	Transport  raft.Transport       // of this group
	Bootstrap  []string             // server ids, only on the preferred leader at formation
	Budget     *Budget              // bytes admitted and not yet applied, shared by the groups of a server; nil: one of its own
	CopyBudget *table.Budget        // copies for snapshots, shared by the tables of a server; nil: one of its own
	Folder     Folder               // where checkpoints are written; nil: nowhere
	Rate       int64                // bytes a second of a checkpoint; 0: no bound
	Memory     *table.Memory        // of tables, shared by those of a server; nil: nobody counts
	Cold       func() table.Cold    // makes the store of an embedding's rows that Memory has no room for; nil: all stay there
	Refuse     func() string        // why no push can be taken now, "" = it can; nil: never
	Heartbeat  time.Duration        // default 300 ms
	Logger     *slog.Logger         // nil = discard
	Trace      *trace.Recorder      // gets what the group does; nil = nobody
	Bugs       Bugs                 // planted faults
}

// Request is a request as Serve sees it; *link.Request is one.
type Request interface {
	// Body receives the body, once, into new memory. Nothing of a large body
	// travels before.
	Body(ctx context.Context) ([]byte, error)
	// BodyTo is Body to a sink, which has the length of the body and takes it while it arrives.
	BodyTo(ctx context.Context, sink p2p.Sink) error
	// Reply answers, once. The pieces of body are read until it returns.
	Reply(head []byte, body ...[]byte) error
	// ReplyFrom is Reply with a body that src makes while it is sent, until it returns.
	ReplyFrom(head []byte, src p2p.Source) error
}

// replica brings entries to every replica's State, in one order:
// replicated, or scratch.
type replica interface {
	Run(ctx context.Context) error
	// arrived is called when there is something more in the inbox. It may propose it at once.
	arrived()
	// propose begins to bring an entry. The memory, if any, may be used again when the entry is applied.
	propose(p proposal) (outcome, []byte)
	Barrier(ctx context.Context) error
	Leading() (term uint64, ok bool)
	Status() raftgroup.Status
	// Resume is called when a snapshot that was put off can be taken.
	Resume()
	Fail(err error)
}

// proposal is an entry, with what its proposer knows of it beside.
type proposal struct {
	entry wire.Entry
	size  int              // bytes of the entry, about
	sums  [][]wire.Section // of each of entry.Steps, what it adds up to; good until propose returns
}

// outcome is what became of a proposal; a part of raft.ApplyFuture.
type outcome interface {
	Error() error  // waits
	Response() any // after Error
}

// replicated is a replica by raft.
type replicated struct {
	*raftgroup.Node
	inbox  *inbox
	memory *p2p.Pool
}

func (r replicated) arrived() { r.inbox.signal() }

func (r replicated) propose(p proposal) (outcome, []byte) {
	entry := wire.AppendEntry(r.memory.Get(p.size)[:0], p.entry)
	return r.Apply(entry, proposeTimeout), entry
}

// Group is one replica of a shard's group. Its methods may be called
// concurrently.
type Group struct {
	cfg      Config
	log      replica
	scratch  bool
	maxEntry int
	inbox    *inbox
	fresh    *barriers
	parked   parking
	memory   *p2p.Pool // of entries, and of bodies of requests
	views    views     // answers to pulls, under way
	dups     counters
	last     lastSnapshot
	tracks   tracks
	tight    chan struct{} // memory is short
	saving   *saving
	short    atomic.Bool // an entry waits for room for copies

	mu      sync.RWMutex
	state   *State        // replaced by restores
	changed chan struct{} // closed, and another made, after each batch of entries
	ended   bool          // Run has ended: the tables are gone
	shot    *capture      // the newest snapshot's

	broken error // of the goroutine that applies: why nothing more is applied
}

// New checks the configuration. It starts nothing.
func New(cfg Config) (*Group, error) {
	if cfg.Group == layout.MetaGroup || cfg.Self == "" || cfg.Layout == nil {
		return nil, errors.New("configure shard group: group above 0, server id and layout are all needed")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Budget == nil {
		cfg.Budget = NewBudget(0)
	}
	g := &Group{
		cfg: cfg, scratch: cfg.Log == nil, maxEntry: maxPart,
		inbox: newInbox(cfg.Budget), memory: cfg.Budget.memory, fresh: newBarriers(), changed: make(chan struct{}),
		tracks: newTracks(cfg.Trace, cfg.Group), saving: newSaving(),
		state: NewState(StateConfig{HashSeed: cfg.Layout().HashSeed, CopyBudget: cfg.CopyBudget, Memory: cfg.Memory, Cold: cfg.Cold, Alone: cfg.Log == nil, Logger: cfg.Logger, Bugs: cfg.Bugs}),
		tight: make(chan struct{}, 1),
	}
	if g.scratch {
		g.log = newScratch(g)
		return g, nil
	}
	g.maxEntry = min(maxPart, cfg.Log.MaxEntry())
	if cfg.Stable == nil {
		return nil, fmt.Errorf("configure %s: no stable store", layout.GroupName(cfg.Group))
	}
	node, err := raftgroup.New(raftgroup.Config{
		Group: cfg.Group, Self: cfg.Self, Log: cfg.Log, Stable: cfg.Stable, Snapshots: cfg.Snapshots,
		Transport: cfg.Transport, Bootstrap: cfg.Bootstrap, FSM: machine{g}, Lead: g.lead,
		Heartbeat: cfg.Heartbeat, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	g.log = replicated{node, g.inbox, g.memory}
	return g, nil
}

// Run owns the group's goroutines until ctx ends (nil) or the group fails (the
// cause: a failed sync, a panic, divergence). It runs once.
func (g *Group) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { g.fresh.run(ctx, g.log) })
	wg.Go(func() { g.save(ctx) })
	wg.Go(func() { g.tellTime(ctx) })
	wg.Go(func() { g.cool(ctx) })
	err := g.log.Run(ctx)
	cancel()
	wg.Wait()
	g.mu.Lock()
	g.ended = true
	g.views.settle()
	err = errors.Join(err, g.state.Close())
	g.mu.Unlock()
	g.wake()
	return err
}

// IsLeader says whether this replica leads its group and has applied everything
// earlier leaders committed: whether it may answer.
func (g *Group) IsLeader() bool {
	_, ok := g.log.Leading()
	return ok
}

// catchUp is how long a caller waits, in milliseconds, for a leader that has
// just been elected.
const catchUp = 10

// elsewhere is the answer of a replica that does not lead.
func (g *Group) elsewhere() wire.Answer {
	st := g.log.Status()
	if st.Leader == g.cfg.Self {
		return wire.Answer{Status: wire.Busy, After: catchUp, Detail: "this replica is becoming the leader"}
	}
	return wire.Answer{Status: wire.NotLeader, Leader: st.Leader}
}

// refuses says why the server takes no push now, or nothing.
func (g *Group) refuses() string {
	if why, stuck := g.overfull(); stuck {
		return why
	}
	if g.cfg.Refuse == nil {
		return ""
	}
	return g.cfg.Refuse()
}

// refusesRows says why the server takes no rows of a load now, or nothing.
func (g *Group) refusesRows() string {
	if why, _ := g.overfull(); why != "" {
		return why
	}
	return g.refuses()
}

// full says that the log is above its high-water mark: nothing more is
// proposed until a snapshot has made room.
func (g *Group) full() bool {
	if g.scratch {
		return false
	}
	used, budget := g.cfg.Log.Bytes()
	return used > budget/4*3
}
