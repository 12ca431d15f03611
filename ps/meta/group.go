package meta

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/ps/layout"
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
	Call(ctx context.Context, group uint32, m wire.Message) (wire.Answer, error)
}

// Request is a request as Serve sees it; *link.Request is one.
type Request interface {
	Reply(head []byte, body ...[]byte) error
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
	Lease     time.Duration // default 30 s
	Heartbeat time.Duration // default 300 ms
	Logger    *slog.Logger  // nil = discard
}

// Group is one replica of the meta group.
type Group struct{}

// New checks the configuration. It starts nothing.
func New(cfg Config) (*Group, error) { return nil, errors.New("meta: not built yet") }

// Run owns the group's goroutines until ctx ends; it returns the cause when the group fails.
func (g *Group) Run(ctx context.Context) error { return errors.New("meta: not built yet") }

// Serve answers one request of kind KindOpen to KindPlan.
func (g *Group) Serve(ctx context.Context, kind wire.Kind, head []byte, r Request) {}

// Status is this replica's view.
func (g *Group) Status(waiting bool) wire.GroupStatus { return wire.GroupStatus{} }

// IsLeader says whether this replica leads the group and may answer.
func (g *Group) IsLeader() bool { return false }
