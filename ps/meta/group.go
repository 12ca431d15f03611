package meta

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/ps/layout"
	"hcclps/ps/raftgroup"
	"hcclps/ps/raftlog"
	"hcclps/ps/snapshot"
	"hcclps/ps/wire"
)

// DefaultLease is how long a session lives without being renewed.
const DefaultLease = 30 * time.Second

// Shards carries the plan driver's messages to the shard groups.
type Shards interface {
	// Call asks the leader of a group and returns its answer; it goes on asking
	// over changes of leader until ctx ends. Statuses NotLeader and Busy are
	// dealt with inside.
	Call(ctx context.Context, group uint32, m wire.Message) (a wire.Answer, body []byte, err error)
}

// Request is a request as Serve sees it; *link.Request is one.
type Request interface {
	Reply(head []byte, body ...[]byte) error
	// Body receives the body, once, into new memory.
	Body(ctx context.Context) ([]byte, error)
}

// Config describes a replica of the meta group.
type Config struct {
	Self      string               // server id
	Layout    func() layout.Layout // as the cluster was formed
	Log       *raftlog.Log         // always opened with Sync
	Stable    raft.StableStore
	Snapshots *snapshot.Store
	Transport raft.Transport
	Bootstrap []string // server ids, on the preferred leader only
	Shards    Shards
	Folder    Folder        // of checkpoints, nil: none
	Dir       string        // its path, for people
	Restores  string        // what the cluster begins with, "": nothing; no job is opened before it is there
	Keep      Keep          // which of them
	Schedule  Schedule      // when they are made
	Lease     time.Duration // default 30 s
	Heartbeat time.Duration // default 300 ms
	Logger    *slog.Logger  // nil = discard
}

// Group is one replica of the meta group. Its methods may be called concurrently.
type Group struct {
	cfg    Config
	node   *raftgroup.Node
	mu     sync.RWMutex // guards state and broken; apply alone writes
	state  *state
	broken error                  // why the state must not be used any more
	leader atomic.Pointer[leader] // nil on followers
}

// New checks the configuration. It starts nothing.
func New(cfg Config) (*Group, error) {
	if cfg.Layout == nil || cfg.Shards == nil {
		return nil, errors.New("configure meta group: the layout and a way to the shards are needed")
	}
	if cfg.Lease == 0 {
		cfg.Lease = DefaultLease
	}
	if cfg.Lease < 0 {
		return nil, fmt.Errorf("configure meta group: lease %v: want more than 0", cfg.Lease)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Group{cfg: cfg, state: newState()}
	node, err := raftgroup.New(raftgroup.Config{
		Group: layout.MetaGroup, Self: cfg.Self,
		Log: cfg.Log, Stable: cfg.Stable, Snapshots: cfg.Snapshots, Transport: cfg.Transport, Bootstrap: cfg.Bootstrap,
		FSM: machine{g}, Lead: g.lead, Heartbeat: cfg.Heartbeat, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	g.node = node
	return g, nil
}

// Run owns the group's goroutines until ctx ends; it returns the cause when the group fails.
func (g *Group) Run(ctx context.Context) error { return g.node.Run(ctx) }

// IsLeader says whether this replica leads the group and may answer.
func (g *Group) IsLeader() bool { return g.node.IsLeader() && g.leader.Load() != nil }

// read runs f under the reader's lock.
func (g *Group) read(f func(s *state)) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	f(g.state)
}

// propose commits an entry and returns its result.
func (g *Group) propose(ctx context.Context, kind string, body any) (result, error) {
	b, err := encodeEntry(kind, body)
	if err != nil {
		return result{}, err
	}
	got, err := g.node.Propose(ctx, b)
	if err != nil {
		return result{}, fmt.Errorf("commit %s entry to the meta log: %w", kind, err)
	}
	r, ok := got.(result)
	if !ok {
		return result{}, fmt.Errorf("commit %s entry to the meta log: %v", kind, got)
	}
	return r, nil
}

// machine is the group as raft's state machine.
type machine struct{ g *Group }

// Apply implements raft.FSM.
func (m machine) Apply(l *raft.Log) any {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	if m.g.broken != nil {
		return m.g.broken
	}
	m.g.state.index = l.Index
	r := m.g.state.apply(l.Data)
	if r.Fault != nil {
		m.g.broken = fmt.Errorf("apply entry %d: %w", l.Index, r.Fault)
		m.g.node.Fail(m.g.broken)
		return m.g.broken
	}
	return r
}

// Snapshot implements raft.FSM: the state is small, so the capture is its encoding.
func (m machine) Snapshot() (raft.FSMSnapshot, error) {
	var head []byte
	var err error
	m.g.read(func(s *state) {
		if err = m.g.broken; err == nil {
			head, err = s.encode()
		}
	})
	return capture(head), err
}

// Restore implements raft.FSM.
func (m machine) Restore(rc io.ReadCloser) error {
	defer rc.Close() //nolint:errcheck // only read
	r := snapshot.NewReader(rc)
	kind, _, head, err := r.Next()
	if err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	if kind != snapshot.Head {
		return fmt.Errorf("read snapshot: begins with a record of kind %d, want a head", kind)
	}
	s, err := decodeState(head)
	if err != nil {
		return err
	}
	if _, _, _, err := r.Next(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("read snapshot: more than a head (%w)", err)
	}
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	m.g.state = s
	return nil
}

// capture is an encoded state.
type capture []byte

// Persist implements raft.FSMSnapshot.
func (c capture) Persist(sink raft.SnapshotSink) error {
	s, ok := sink.(*snapshot.Sink)
	if !ok {
		return fmt.Errorf("persist meta snapshot: sink is a %T", sink)
	}
	return s.WriteHead(c)
}

// Release implements raft.FSMSnapshot.
func (capture) Release() {}

// Snapshot takes a snapshot of this replica now.
func (g *Group) Snapshot(ctx context.Context) error { return g.node.Snapshot(ctx) }
