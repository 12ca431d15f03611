package pstest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"hcclps/p2p/p2ptest"
	"hcclps/ps"
	"hcclps/ps/layout"
	"hcclps/ps/raftlog"
	"hcclps/ps/shard"
	"hcclps/ps/wire"
)

const (
	clusterName = "verify"
	logBudget   = 4 << 20
	memoryLimit = 1 << 30
)

// ClusterConfig describes a Cluster. Dir is needed.
type ClusterConfig struct {
	Dir        string       // data of the servers
	Seed       uint64       // of the network's faults
	Shards     int          // default 2
	Durability string       // default ps.QuorumMemory; the logs lie below Dir all the same
	Logger     *slog.Logger // nil = discard
	Bugs       shard.Bugs   // planted faults
}

// Cluster is three servers on a network with faults. Its methods may be called
// concurrently, but those that start and stop one server not for the same one.
type Cluster struct {
	cfg     ClusterConfig
	net     *p2ptest.Net
	addrs   []string
	spawn   func(s *ps.Server, over func(error)) context.CancelFunc // runs a server
	stop    context.CancelFunc
	mu      sync.Mutex
	members []member
	faults  []error // servers that ended by themselves
}

// member is one server through its lives.
type member struct {
	server  *ps.Server // nil: down
	cancel  context.CancelFunc
	ended   chan struct{}
	err     error // why the last life ended; read after ended
	wanted  bool  // its end was ordered
	retired bool  // its log was lost
}

// NewCluster makes the network. It starts no server; Close it.
func NewCluster(ctx context.Context, cfg ClusterConfig) *Cluster {
	if cfg.Shards == 0 {
		cfg.Shards = shards
	}
	if cfg.Durability == "" {
		cfg.Durability = ps.QuorumMemory
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Cluster{cfg: cfg, net: p2ptest.NewNet(cfg.Seed), members: make([]member, servers)}
	for i := range servers {
		c.addrs = append(c.addrs, Host(i)+":7000")
	}
	ctx, c.stop = context.WithCancel(ctx)
	c.spawn = func(s *ps.Server, over func(error)) context.CancelFunc {
		ctx, cancel := context.WithCancel(ctx)
		go func() { over(s.Run(ctx)) }()
		return cancel
	}
	return c
}

// Host is the name of a server, and of its host on the network.
func Host(i int) string { return fmt.Sprintf("s%d", i+1) }

// Net is the network.
func (c *Cluster) Net() *p2ptest.Net { return c.net }

// Addrs are the servers' addresses.
func (c *Cluster) Addrs() []string { return c.addrs }

// LogDir is where a server's logs of shards are.
func (c *Cluster) LogDir(i int) string { return filepath.Join(c.cfg.Dir, "logs", Host(i)) }

// Dir is a server's data directory.
func (c *Cluster) Dir(i int) string { return filepath.Join(c.cfg.Dir, Host(i)) }

// Start starts a server that is down, in its directories.
func (c *Cluster) Start(i int) error {
	s, err := ps.New(ps.Config{
		Cluster: clusterName, Name: Host(i), Dir: c.Dir(i), LogDir: c.LogDir(i), Listen: c.addrs[i], Peers: c.addrs,
		Network: c.net.Host(Host(i)), Shards: c.cfg.Shards, LogBudget: logBudget, Durability: c.cfg.Durability,
		Memory: memoryLimit, Logger: c.cfg.Logger, Bugs: c.cfg.Bugs,
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &c.members[i]
	if m.server != nil || m.retired {
		return nil
	}
	*m = member{server: s, ended: make(chan struct{})}
	m.cancel = c.spawn(s, func(err error) { c.over(i, err) })
	return nil
}

// over notes the end of a server's life.
func (c *Cluster) over(i int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &c.members[i]
	m.err, m.server = err, nil
	switch {
	case errors.Is(err, raftlog.ErrLost):
		m.retired = true
	case err != nil && !errors.Is(err, ps.ErrCrashed):
		c.faults = append(c.faults, fmt.Errorf("server %s ended: %w", Host(i), err))
	case !m.wanted:
		c.faults = append(c.faults, fmt.Errorf("server %s ended unasked", Host(i)))
	}
	close(m.ended)
}

// StartAll starts all servers that are down and were not retired.
func (c *Cluster) StartAll() error {
	var errs []error
	for i := range servers {
		errs = append(errs, c.Start(i))
	}
	return errors.Join(errs...)
}

// Ready waits until every server has seen a leader of every group.
func (c *Cluster) Ready(ctx context.Context) error {
	for i := range servers {
		if s := c.Server(i); s != nil {
			if err := s.Ready(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Stop stops a server that is up as an operator does; it says why the server's
// life ended.
func (c *Cluster) Stop(i int) error {
	return c.end(i, func(_ *ps.Server, cancel context.CancelFunc) { cancel() })
}

// Crash stops a server that is up as kill -9 does.
func (c *Cluster) Crash(i int) error {
	return c.end(i, func(s *ps.Server, cancel context.CancelFunc) {
		s.Crash()
		cancel() // where it had not come far enough to crash
	})
}

func (c *Cluster) end(i int, how func(*ps.Server, context.CancelFunc)) error {
	c.mu.Lock()
	m := &c.members[i]
	m.wanted = true
	s, cancel, ended := m.server, m.cancel, m.ended
	c.mu.Unlock()
	if s == nil {
		return nil
	}
	how(s, cancel)
	return c.wait(i, ended)
}

// Wait waits for the end of a server's life and says why it ended.
func (c *Cluster) Wait(ctx context.Context, i int) error {
	c.mu.Lock()
	ended := c.members[i].ended
	c.mu.Unlock()
	select {
	case <-ended:
		return c.wait(i, ended)
	case <-ctx.Done():
		return fmt.Errorf("wait for server %s to end: %w", Host(i), context.Cause(ctx))
	}
}

func (c *Cluster) wait(i int, ended chan struct{}) error {
	if ended == nil {
		return nil
	}
	<-ended
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.members[i].err; !errors.Is(err, ps.ErrCrashed) {
		return err
	}
	return nil
}

// Server is a server that is up, or nil.
func (c *Cluster) Server(i int) *ps.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[i].server
}

// Forget removes a server's logs of shards; the server should be down.
func (c *Cluster) Forget(i int) error { return os.RemoveAll(c.LogDir(i)) }

// Faults are the servers that ended although nobody asked them to, other than
// by refusing a lost log.
func (c *Cluster) Faults() []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]error(nil), c.faults...)
}

// Leader is the server that leads a group, or -1.
func (c *Cluster) Leader(group uint32) int {
	best, term := -1, uint64(0)
	for i := range servers {
		s := c.Server(i)
		if s == nil {
			continue
		}
		for _, g := range s.Status(false).Groups {
			if g.Group == group && g.State == "leader" && g.Term >= term {
				best, term = i, g.Term
			}
		}
	}
	return best
}

// Layout is the layout as the first server that knows it has it.
func (c *Cluster) Layout() (layout.Layout, bool) {
	for i := range servers {
		if s := c.Server(i); s != nil && s.Layout().Epoch != 0 {
			return s.Layout(), true
		}
	}
	return layout.Layout{}, false
}

// Isolate cuts a server off from all other hosts in one or both directions.
// Heal ends it.
func (c *Cluster) Isolate(i int, others []string, both bool) {
	for _, o := range others {
		if o == Host(i) {
			continue
		}
		c.net.Cut(o, Host(i))
		if both {
			c.net.Cut(Host(i), o)
		}
	}
}

// settledPoll is how often Settled looks again.
const settledPoll = 100 * time.Millisecond

// Settled waits until all replicas of each shard are equal, and returns the
// status of all servers that are up; at the end of ctx it returns it as it is.
func (c *Cluster) Settled(ctx context.Context) []wire.ServerStatus {
	tick := time.NewTicker(settledPoll)
	defer tick.Stop()
	for {
		var all []wire.ServerStatus
		digests := map[uint32]string{}
		equal := true
		for i := range servers {
			s := c.Server(i)
			if s == nil {
				continue
			}
			st := s.Status(false)
			all = append(all, st)
			for _, g := range st.Groups {
				if d, ok := digests[g.Group]; ok && d != g.Digest {
					equal = false
				}
				digests[g.Group] = g.Digest
			}
		}
		if equal {
			return all
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return all
		}
	}
}

// Close stops all servers and the network, and waits for them.
func (c *Cluster) Close() error {
	c.net.Heal()
	c.net.Delay(0)
	c.net.Break(0)
	var errs []error
	for i := range servers {
		if err := c.Stop(i); !errors.Is(err, raftlog.ErrLost) {
			errs = append(errs, err)
		}
	}
	c.stop()
	return errors.Join(append(errs, c.net.Close())...)
}
