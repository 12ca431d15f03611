package ps

import (
	"context"
	"log/slog"
	"time"

	"hcclps/p2p/link"
)

// LocalConfig describes a cluster inside one process. The zero value is three replicated servers in a temporary folder.
type LocalConfig struct {
	Servers    int           // default 3
	Replicas   int           // default 3, or 1 with fewer than 3 servers
	Scratch    bool          // one server without replication or log
	Shards     int           // default 4
	Dir        string        // default a temporary folder, removed at a clean end
	Durability string        // default QuorumMemory
	LogBudget  int64         // default 8 MiB a group
	Memory     int64         // of each server
	Network    link.Network  // default in-process
	Heartbeat  time.Duration // default 300 ms
	Lease      time.Duration // default 30 s
	Logger     *slog.Logger  // nil = discard
}

// Local is a cluster inside one process.
type Local struct{}

// NewLocal checks the configuration. It starts nothing.
func NewLocal(cfg LocalConfig) (*Local, error) { return nil, errUnbuilt }

// Run serves until ctx ends (nil) or a server fails (the cause).
func (l *Local) Run(ctx context.Context) error { return errUnbuilt }

// Ready returns when every group has a leader.
func (l *Local) Ready(ctx context.Context) error { return errUnbuilt }

// Addrs are the addresses workers connect to.
func (l *Local) Addrs() []string { return nil }

// Cluster is the cluster's name, which workers must give.
func (l *Local) Cluster() string { return "" }

// Network is the network workers must dial on.
func (l *Local) Network() link.Network { return nil }
