// Package raftgroup is what every Raft group of a server has in common: a
// hashicorp/raft node over our log, snapshot store and transport, snapshots
// triggered by the bytes of the log, and the leader's work, started and ended
// with the leadership.
//
// A group is a state machine (raft.FSM) and, optionally, the work its leader
// does (Config.Lead). New starts nothing; Run owns raft's goroutines, those of
// the log and of the snapshot store, and waits for them. A group is
// fail-stop: a failed sync, a lost log or a panic in the state machine ends
// Run with the cause, and the server with it.
package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/ps/layout"
	"hcclps/ps/raftlog"
	"hcclps/ps/snapshot"
)

var (
	// ErrStopped is the error of futures and waits of a node that does not run.
	ErrStopped = errors.New("raft group is not running")
	// ErrCrash as the cause of a cancelled context ends Run without handing
	// leadership over, as if the process had been killed. For tests of crashes;
	// the caller freezes log and store first.
	ErrCrash = errors.New("crash on purpose")
	// ErrLater in the chain of an error of a state machine's Snapshot, or of its
	// Persist, means that nothing has failed: it is asked again.
	ErrLater = errors.New("not now")
)

// Defaults of a Config.
const (
	DefaultHeartbeat = 300 * time.Millisecond
	commitTimeout    = 50 * time.Millisecond
	maxAppend        = 64
)

// Config describes one replica of a group.
type Config struct {
	Group     uint32
	Self      string           // server id: raft's server id and address
	Log       *raftlog.Log     // opened and verified; closed by the caller after Run
	Stable    raft.StableStore // term and vote
	Snapshots *snapshot.Store
	Transport raft.Transport // closed by Run, if it can be
	// Bootstrap lists the server ids of the group. It is set on the preferred
	// leader only, and used when there is no state yet; the others wait.
	Bootstrap []string
	// FSM is the state machine. Only commands reach it. When it is a
	// raft.BatchingFSM, ApplyBatch is used. Apply, Snapshot and Restore are never
	// called at the same time; Persist of a snapshot runs beside Apply.
	FSM raft.FSM
	// Lead is the leader's work, nil if there is none. It is called, in a
	// goroutine of Run, each time this replica has become leader and has applied
	// everything earlier leaders committed. Its context ends when leadership is
	// lost or Run ends; it is not called again before it has returned.
	Lead      func(ctx context.Context, term uint64)
	Heartbeat time.Duration // time without a heartbeat before an election, default 300 ms
	Logger    *slog.Logger  // nil = discard
}

func (c *Config) validate() error {
	var errs []error
	if c.Self == "" {
		errs = append(errs, errors.New("no server id"))
	}
	if c.Log == nil || c.Stable == nil || c.Snapshots == nil || c.Transport == nil || c.FSM == nil {
		errs = append(errs, errors.New("log, stable store, snapshots, transport and state machine are all needed"))
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = DefaultHeartbeat
	}
	if c.Heartbeat < 10*time.Millisecond {
		errs = append(errs, fmt.Errorf("heartbeat %v: want at least 10ms", c.Heartbeat))
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("configure %s: %w", layout.GroupName(c.Group), err)
	}
	return nil
}

// Node is one replica of a group. Its methods may be called concurrently, before
// and after Run too.
type Node struct {
	cfg       Config
	raft      atomic.Pointer[raft.Raft]
	leading   atomic.Uint64 // term this replica leads in and is caught up, or 0
	elections atomic.Uint64
	grown     chan struct{}         // the log passed its snapshot threshold
	threshold atomic.Int64          // bytes
	resume    chan struct{}         // what put a snapshot off may be over
	later     atomic.Pointer[error] // of the last snapshot, if it was put off
	failOnce  sync.Once
	failed    chan struct{}
	cause     error
	intake    intake
}

// New checks the configuration. It starts nothing.
func New(cfg Config) (*Node, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Node{cfg: cfg, grown: make(chan struct{}, 1), resume: make(chan struct{}, 1), failed: make(chan struct{})}, nil
}

// Apply proposes an entry; timeout bounds the wait for the proposal to be taken.
// The future's response is what the FSM returned. entry is not copied and must
// not be written to afterwards.
func (n *Node) Apply(entry []byte, timeout time.Duration) *Future {
	return n.start(func(r *raft.Raft) raft.Future { return r.Apply(entry, timeout) })
}

// Propose applies an entry and waits for its response. An error says nothing
// about whether the entry will still be committed.
func (n *Node) Propose(ctx context.Context, entry []byte) (response any, err error) {
	f := n.Apply(entry, n.cfg.Heartbeat)
	if err := f.Wait(ctx); err != nil {
		return nil, err
	}
	return f.Response(), nil
}

// Barrier returns when everything committed before the call has been applied
// here and this replica was still the leader. It fails on a follower.
func (n *Node) Barrier(ctx context.Context) error {
	return n.start(func(r *raft.Raft) raft.Future { return r.Barrier(0) }).Wait(ctx)
}

// IsLeader says whether this replica leads the group and has applied everything
// earlier leaders committed: whether it may answer.
func (n *Node) IsLeader() bool {
	_, ok := n.Leading()
	return ok
}

// Leading is IsLeader with the term.
func (n *Node) Leading() (term uint64, ok bool) {
	r, t := n.raft.Load(), n.leading.Load()
	if r == nil || t == 0 || r.State() != raft.Leader || r.CurrentTerm() != t {
		return 0, false
	}
	return t, true
}

// Leader is the id of the server that leads, as far as this replica knows, or
// "". When it is Self while IsLeader is false, the new leader is catching up.
func (n *Node) Leader() string {
	r := n.raft.Load()
	if r == nil {
		return ""
	}
	_, id := r.LeaderWithID()
	return string(id)
}

// Full says that the log is above its high-water mark: proposals should be
// refused with Busy until a snapshot has made room.
func (n *Node) Full() bool {
	used, budget := n.cfg.Log.Bytes()
	return used > budget/4*3
}

// Status is what a replica knows of itself.
type Status struct {
	State     string // leader, follower, candidate, shutdown
	Leader    string // server id
	Term      uint64
	Applied   uint64
	Last      uint64 // log index
	LogBytes  int64
	Elections uint64 // times this replica became leader
}

// Status is the state of the replica at some moment during the call.
func (n *Node) Status() Status {
	used, _ := n.cfg.Log.Bytes()
	s := Status{State: "stopped", LogBytes: used, Elections: n.elections.Load()}
	if r := n.raft.Load(); r != nil {
		s.State, s.Term, s.Applied, s.Last = stateName(r.State()), r.CurrentTerm(), r.AppliedIndex(), r.LastIndex()
		s.Leader = n.Leader()
	}
	return s
}

func stateName(s raft.RaftState) string {
	switch s {
	case raft.Leader:
		return "leader"
	case raft.Follower:
		return "follower"
	case raft.Candidate:
		return "candidate"
	default:
		return "shutdown"
	}
}

// Fail ends Run with err, once: the state machine has found that it must not
// go on. Nothing more is applied.
func (n *Node) Fail(err error) {
	n.failOnce.Do(func() {
		n.cause = fmt.Errorf("%s: %w", layout.GroupName(n.cfg.Group), err)
		close(n.failed)
	})
}
