package shard

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/ps/layout"
	"hcclps/ps/raftlog"
	"hcclps/ps/snapshot"
	"hcclps/ps/table"
	"hcclps/ps/wire"
)

var errUnbuilt = errors.New("shard: not built yet")

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
	Heartbeat  time.Duration        // default 300 ms
	Logger     *slog.Logger         // nil = discard
	Bugs       Bugs                 // planted faults
}

// Budget bounds the bytes of pushes admitted and not yet applied.
type Budget struct{}

// NewBudget makes a budget; zero means 256 MiB.
func NewBudget(bytes int64) *Budget { return &Budget{} }

// Request is a request as Serve sees it; *link.Request is one.
type Request interface {
	Body(ctx context.Context) ([]byte, error)
	Reply(head []byte, body ...[]byte) error
}

// Group is one replica of a shard's group.
type Group struct{}

// New checks the configuration and restores nothing yet. It starts nothing.
func New(cfg Config) (*Group, error) { return nil, errUnbuilt }

// Run owns the group's goroutines until ctx ends; it returns the cause when the group fails.
func (g *Group) Run(ctx context.Context) error { return errUnbuilt }

// Serve answers one request to this group. bodyLen is the length of its body.
func (g *Group) Serve(ctx context.Context, m wire.Message, bodyLen int, r Request) {}

// Status is this replica's view.
func (g *Group) Status(waiting bool) wire.GroupStatus { return wire.GroupStatus{} }

// IsLeader says whether this replica leads its group and may answer.
func (g *Group) IsLeader() bool { return false }
