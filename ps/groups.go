package ps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/raft"
	"golang.org/x/sync/errgroup"

	"hcclps/ps/cold"
	"hcclps/ps/corrupt"
	"hcclps/ps/layout"
	"hcclps/ps/meta"
	"hcclps/ps/raftlog"
	"hcclps/ps/shard"
	"hcclps/ps/snapshot"
	"hcclps/ps/table"
)

// groups are the replicas this server runs.
type groups struct {
	meta   *meta.Group // nil if it is elsewhere
	shards map[uint32]*shard.Group
	ids    []uint32 // of all of them, ascending
	memory *table.Memory
}

// parts are what a replica is made of.
type parts struct {
	log       *raftlog.Log
	stable    *raftlog.Stable
	snapshots *snapshot.Store
	transport raft.Transport
	bootstrap []string
}

// work forms the cluster, opens this server's groups and runs them.
func (s *Server) work(ctx context.Context) error {
	if err := s.form(ctx); err != nil {
		return err
	}
	g, err := s.openGroups()
	if err != nil {
		return err
	}
	s.groups.Store(g)
	s.log.Info("serving", "id", s.self.ID, "addr", s.cfg.Advertise, "groups", len(g.ids))
	run, ctx := errgroup.WithContext(ctx)
	if g.meta != nil {
		run.Go(func() error { return g.meta.Run(ctx) })
	}
	for _, sh := range g.shards {
		run.Go(func() error { return sh.Run(ctx) })
	}
	run.Go(func() error { return s.cold.Run(ctx) })
	run.Go(func() error { <-ctx.Done(); return ctx.Err() })
	run.Go(func() error { return s.begin(ctx) })
	return run.Wait()
}

// openGroups opens and verifies the files of every group before the first one
// starts: a server with one lost log starts none.
func (s *Server) openGroups() (*groups, error) {
	f, _ := s.formed()
	mem, err := s.memory(f, s.self.ID)
	if err != nil {
		return nil, err
	}
	mem.say(s.log)
	logRoot, inMemory, err := s.logRoot(f)
	if err != nil {
		return nil, err
	}
	rows := table.NewMemory(mem.tables())
	if s.cold, err = cold.Open(cold.Config{Dir: filepath.Join(s.cfg.Dir, "cold"), Memory: rows, Logger: s.log}); err != nil {
		return nil, err
	}
	with := shard.Config{
		Self: s.self.ID, Layout: s.Layout, Budget: shard.NewBudget(mem.inbox), CopyBudget: table.NewBudget(mem.copies), Memory: rows, Cold: s.cold.Table,
		Heartbeat: s.cfg.Heartbeat, Logger: s.log, Trace: s.cfg.Trace, Bugs: s.cfg.Bugs, Refuse: s.disk.Refuse,
	}
	g := &groups{memory: rows, shards: map[uint32]*shard.Group{}}
	var errs []error
	for id := range f.Groups() {
		if !slices.Contains(f.Replicas(id), s.self.ID) {
			continue
		}
		g.ids = append(g.ids, id)
		if id == layout.MetaGroup {
			g.meta, err = s.openMeta(f)
		} else {
			g.shards[id], err = s.openShard(f, id, logRoot, inMemory, with)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", layout.GroupName(id), err))
		}
	}
	return g, refusal(errs)
}

// refusal says what an operator does about groups that cannot be opened.
func refusal(errs []error) error {
	err := errors.Join(errs...)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raftlog.ErrLost):
		return fmt.Errorf("refused: this server might vote without entries it has acknowledged: its id is retired and it must not start again; the groups go on with the other servers: %w", err)
	case errors.Is(err, corrupt.Err):
		return fmt.Errorf("refused: files are damaged; nothing was changed; the groups go on with the other servers: %w", err)
	default:
		return err
	}
}

// openParts opens a group's log and snapshots and checks that they belong together.
func (s *Server) openParts(f formation, id uint32, dir string, cfg raftlog.Config) (parts, error) {
	cfg.Dir = filepath.Join(dir, fmt.Sprintf("group-%d", id))
	cfg.Group, cfg.Store, cfg.Logger = id, s.store, s.log
	snapshots, err := snapshot.Open(snapshot.Config{Dir: filepath.Join(s.cfg.Dir, "snapshots", fmt.Sprintf("group-%d", id)), Logger: s.log})
	if err != nil {
		return parts{}, err
	}
	log, err := raftlog.Open(cfg)
	if errors.Is(err, raftlog.ErrLost) && s.cfg.Bugs.LostLogVotes {
		log, err = raftlog.OpenAmnesiac(cfg)
	}
	if err != nil {
		return parts{}, err
	}
	s.mu.Lock()
	s.logs = append(s.logs, log)
	s.mu.Unlock()
	list, err := snapshots.List()
	if err != nil {
		return parts{}, err
	}
	var newest uint64
	if len(list) > 0 {
		newest = list[0].Index
	}
	if err := log.CheckSnapshot(newest); err != nil {
		return parts{}, err
	}
	p := parts{log: log, stable: s.store.Group(id), snapshots: snapshots, transport: s.mux.Group(id, log)}
	if ids := f.Replicas(id); ids[0] == s.self.ID {
		p.bootstrap = ids
	}
	return p, nil
}

func (s *Server) openMeta(f formation) (*meta.Group, error) {
	p, err := s.openParts(f, layout.MetaGroup, filepath.Join(s.cfg.Dir, "log"), raftlog.Config{Sync: true, Budget: metaLogBudget})
	if err != nil {
		return nil, err
	}
	return meta.New(s.saves(meta.Config{
		Self: s.self.ID, Layout: s.Layout, Log: p.log, Stable: p.stable, Snapshots: p.snapshots, Transport: p.transport,
		Bootstrap: p.bootstrap, Shards: caller{s}, Lease: s.cfg.Lease, Heartbeat: s.cfg.Heartbeat, Logger: s.log,
	}))
}

func (s *Server) openShard(f formation, id uint32, logRoot string, inMemory bool, cfg shard.Config) (*shard.Group, error) {
	cfg.Group = id
	if s.checkpoints != nil {
		cfg.Folder, cfg.Rate = s.checkpoints, s.cfg.Checkpoint.rate()
	}
	if f.Scratch {
		return shard.New(cfg)
	}
	p, err := s.openParts(f, id, logRoot, raftlog.Config{Sync: f.Durability == QuorumDisk, Budget: min(s.cfg.LogBudget, FirstLogBudget), Most: s.cfg.LogBudget, Prefault: inMemory})
	if err != nil {
		return nil, err
	}
	cfg.Log, cfg.Stable, cfg.Snapshots, cfg.Transport, cfg.Bootstrap = p.log, p.stable, p.snapshots, p.transport, p.bootstrap
	return shard.New(cfg)
}

// logRoot is the folder of the shards' logs: where it was before, or chosen now
// and written down, so that a later start looks in the same place. Inside the data
// directory it is written down relative to it: the directory may be moved.
func (s *Server) logRoot(f formation) (dir string, inMemory bool, err error) {
	found, err := load(s.store, keyLogDir, &dir)
	if err != nil {
		return "", false, err
	}
	if !found {
		if dir, err = s.chooseLogRoot(f); err != nil {
			return "", false, err
		}
		if err := save(s.store, keyLogDir, dir); err != nil {
			return "", false, err
		}
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(s.cfg.Dir, dir)
	}
	if want, err := filepath.Abs(s.cfg.LogDir); s.cfg.LogDir != "" && (err != nil || want != dir) {
		return "", false, fmt.Errorf("the logs of %s are in %s, started with %s (LogDir, --log-dir): they cannot be moved", s.cfg.Dir, dir, s.cfg.LogDir)
	}
	return dir, under(dir, tmpfs), nil
}

// chooseLogRoot is a folder of its own, or one inside the data directory as a relative path.
func (s *Server) chooseLogRoot(f formation) (string, error) {
	const inside = "log"
	if s.cfg.LogDir != "" {
		return filepath.Abs(s.cfg.LogDir)
	}
	if f.Durability != QuorumMemory {
		return inside, nil
	}
	need := int64(shardsOf(f, s.self.ID)) * s.cfg.LogBudget
	dir := MemoryLogDir(s.cfg.Cluster, s.cfg.Name)
	err := raftlog.CheckSpace(tmpfs, need)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		s.log.Warn("the logs go to the data directory, which is slower: the memory file system cannot take them", "dir", s.cfg.Dir, "need", need, "err", err)
		return inside, nil
	}
	return dir, nil
}

// shardsOf counts the shards of which a server has a replica.
func shardsOf(f formation, server string) (n int) {
	for id := range f.Groups() {
		if id != layout.MetaGroup && slices.Contains(f.Replicas(id), server) {
			n++
		}
	}
	return n
}

// resolve says where a server listens, for Raft's transport.
func (s *Server) resolve(id raft.ServerAddress) (string, error) {
	m, ok := s.Layout().Member(string(id))
	if !ok {
		return "", fmt.Errorf("server %q is no member of cluster %q", id, s.cfg.Cluster)
	}
	return m.Addr, nil
}
