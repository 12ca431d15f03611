package ps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"hcclps/internal/trace"
	"hcclps/p2p/inproc"
	"hcclps/p2p/link"
	"hcclps/ps/raftlog"
	"hcclps/ps/shard"
)

// LocalConfig describes a cluster inside one process. The zero value is three
// replicated servers in a temporary folder.
type LocalConfig struct {
	Servers    int           // default 3
	Replicas   int           // default 3, or 1 with fewer than 3 servers
	Scratch    bool          // one server without replication or log
	Shards     int           // default 4
	Dir        string        // default a temporary folder, removed at the end
	Durability string        // default QuorumMemory
	LogBudget  int64         // default 8 MiB a group
	Memory     int64         // of each server, default a share of what the machine has free
	Network    link.Network  // default in-process
	Addrs      []string      // of the servers on Network; default names, which only the in-process network has
	Heartbeat  time.Duration // default 300 ms
	Lease      time.Duration // default 30 s
	Checkpoint CheckpointConfig
	Restore    string // as in Config

	RestoreWorld int
	Logger       *slog.Logger    // nil = discard
	Trace        *trace.Recorder // gets what the servers do; nil = nobody
	Bugs         shard.Bugs      // planted faults, for the verifier's own tests
}

// localCluster is the cluster's name.
const localCluster = "local"

// localReady bounds the start of the servers in With.
const localReady = 2 * time.Minute

// Local is a cluster inside one process. Run is called once; the other methods
// may be called concurrently.
type Local struct {
	cfg       LocalConfig
	temporary bool
	servers   atomic.Pointer[[]*Server]
	started   chan struct{} // closed when servers is set
}

// NewLocal checks the configuration. It starts nothing and touches no file.
func NewLocal(cfg LocalConfig) (*Local, error) {
	if cfg.Scratch {
		cfg.Servers = def(cfg.Servers, 1)
	}
	cfg.Servers = def(cfg.Servers, 3)
	cfg.Shards = def(cfg.Shards, 4)
	if cfg.Replicas == 0 && (cfg.Servers < 3 || cfg.Scratch) {
		cfg.Replicas = 1
	}
	cfg.Replicas = def(cfg.Replicas, 3)
	cfg.Durability = def(cfg.Durability, QuorumMemory)
	cfg.LogBudget = def(cfg.LogBudget, 8<<20)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Network == nil {
		cfg.Network = inproc.NewNetwork()
	}
	if cfg.Servers < 1 || cfg.Servers > 99 {
		return nil, fmt.Errorf("configure local cluster: %d servers: want 1 to 99", cfg.Servers)
	}
	for i := len(cfg.Addrs); i < cfg.Servers; i++ {
		cfg.Addrs = append(cfg.Addrs, fmt.Sprintf("s%d:7000", i+1))
	}
	if cfg.Memory == 0 {
		free, _, err := raftlog.FreeMemory()
		if err != nil {
			return nil, fmt.Errorf("configure local cluster: %w", err)
		}
		cfg.Memory = max(free/2/int64(cfg.Servers), 1<<28)
	}
	l := &Local{cfg: cfg, temporary: cfg.Dir == "", started: make(chan struct{})}
	for i := range cfg.Servers { // all faults now, not in Run
		if _, err := New(l.server(i, "unused", "")); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *Local) server(i int, dir, logDir string) Config {
	c := l.cfg
	name := fmt.Sprintf("s%d", i+1)
	cfg := Config{
		Cluster: localCluster, Name: name, Dir: filepath.Join(dir, name), Listen: c.Addrs[i], Peers: c.Addrs[:c.Servers],
		Network: c.Network, Replicas: c.Replicas, Scratch: c.Scratch, Shards: c.Shards, Durability: c.Durability,
		Memory: c.Memory, LogBudget: c.LogBudget, AllowSameHost: true, Heartbeat: c.Heartbeat, Lease: c.Lease,
		Checkpoint: c.Checkpoint, Restore: c.Restore, RestoreWorld: c.RestoreWorld,
		Logger: c.Logger, Trace: c.Trace.For(name), Bugs: c.Bugs,
	}
	switch {
	case logDir != "":
		cfg.LogDir = filepath.Join(logDir, name)
	case c.Durability == QuorumMemory && c.Replicas > 1:
		cfg.LogDir = filepath.Join(dir, name, "log") // no room in memory: never the folder of another cluster
	}
	if n, ok := c.Network.(*inproc.Network); ok {
		cfg.Network = n.Host(name)
	}
	return cfg
}

// Run serves until ctx ends (nil) or a server fails (the cause).
func (l *Local) Run(ctx context.Context) (err error) {
	dir, logDir, err := l.folders()
	if err != nil {
		return err
	}
	if l.temporary {
		defer func() { err = errors.Join(err, l.remove(dir, logDir)) }()
	}
	servers := make([]*Server, l.cfg.Servers)
	for i := range servers {
		if servers[i], err = New(l.server(i, dir, logDir)); err != nil {
			return err
		}
	}
	l.servers.Store(&servers)
	close(l.started)
	run, runCtx := errgroup.WithContext(ctx)
	for _, s := range servers {
		run.Go(func() error { return s.Run(runCtx) })
	}
	if err := run.Wait(); err != nil {
		return fmt.Errorf("local cluster in %s: %w", dir, err)
	}
	return nil
}

// With runs fn beside the servers: once they are ready, until it returns, with a
// ctx that also ends when a server fails. It returns when all have ended.
func (l *Local) With(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	served := make(chan error, 1)
	go func() {
		err := l.Run(serving)
		cancel(errors.New("a server of the local cluster has ended"))
		served <- err
	}()
	ready, done := context.WithTimeout(ctx, localReady)
	defer done()
	unready := l.Ready(ready)
	if unready == nil {
		err = fn(ctx)
	}
	stop()
	switch serr := <-served; {
	case serr == nil:
		return errors.Join(unready, err)
	case unready != nil:
		return serr // which is why
	default:
		return errors.Join(serr, err) // the cause first
	}
}

// logsRecord is the file in Dir that says where the logs of its cluster are.
const logsRecord = "logs"

// folders makes the data folder, and says where logs live in memory: "" where
// there is no room, or no wish, for that.
func (l *Local) folders() (dir, logDir string, err error) {
	if dir = l.cfg.Dir; l.temporary {
		if dir, err = os.MkdirTemp("", "hcclps-local-"); err != nil {
			return "", "", fmt.Errorf("make folder of local cluster: %w", err)
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", "", fmt.Errorf("folder of local cluster: %w", err)
	}
	switch {
	case l.cfg.Durability != QuorumMemory || l.cfg.Scratch:
		return dir, "", nil
	case l.temporary:
		return dir, l.drawLogDir(8), nil // doctor knows by the length that nobody comes back for it
	case l.cfg.Replicas == 1:
		return dir, "", nil // of the only copy: on disk
	}
	logDir, err = FolderRecord(dir, logsRecord, func() string { return def(l.drawLogDir(16), inData) })
	if logDir == inData {
		logDir = ""
	}
	return dir, logDir, err
}

// inData is recorded where the logs are in the data folders.
const inData = "data"

// drawLogDir names a new folder in the tmpfs, "" if there is no room.
func (l *Local) drawLogDir(letters int) string {
	need := int64(l.cfg.Shards) * int64(l.cfg.Replicas) * l.cfg.LogBudget
	if err := raftlog.CheckSpace(tmpfs, need); err != nil {
		l.cfg.Logger.Warn("the logs go to the data directory, which is slower: the memory file system cannot take them", "need", need, "err", err)
		return ""
	}
	return filepath.Join(tmpfs, fmt.Sprintf("hcclps-%s-%s", localCluster, DrawName(letters)))
}

func (l *Local) remove(dir, logDir string) error {
	err := os.RemoveAll(dir)
	if logDir != "" {
		err = errors.Join(err, os.RemoveAll(logDir))
	}
	if err != nil {
		return fmt.Errorf("remove folders of local cluster: %w", err)
	}
	return nil
}

// Ready returns when every group has a leader.
func (l *Local) Ready(ctx context.Context) error {
	select {
	case <-l.started:
	case <-ctx.Done():
		return fmt.Errorf("local cluster is not running: %w", context.Cause(ctx))
	}
	for _, s := range l.Servers() {
		if err := s.Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Servers are the servers, none before Run has made them.
func (l *Local) Servers() []*Server {
	if s := l.servers.Load(); s != nil {
		return *s
	}
	return nil
}

// Addrs are the addresses workers connect to.
func (l *Local) Addrs() []string { return l.cfg.Addrs[:l.cfg.Servers] }

// Cluster is the cluster's name, which workers must give.
func (l *Local) Cluster() string { return localCluster }

// Network is the network workers must dial on.
func (l *Local) Network() link.Network { return l.cfg.Network }
