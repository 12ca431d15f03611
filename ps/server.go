// Package ps is a server of the cluster: one listener, the meta group and the
// shard groups it replicates, formation, restart and status.
//
//	s, err := ps.New(ps.Config{Name: "s1", Dir: dir, Listen: addr, Peers: addrs})
//	err = s.Run(ctx) // serves until ctx ends
//
// New starts nothing. Run owns every goroutine: below, the plane of connections
// (listener, calls in, calls out, Raft's transport), and on it the groups. When
// ctx ends the groups go first, handing their leaderships over, then the plane,
// then logs and store. A server is fail-stop: whatever breaks one of its groups
// ends Run with the cause.
//
// Local is a whole cluster in one process.
package ps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"hcclps/checkpoint"
	"hcclps/p2p/backend"
	"hcclps/p2p/link"
	"hcclps/ps/cold"
	"hcclps/ps/layout"
	"hcclps/ps/raftlog"
	"hcclps/ps/rafttransport"
)

// readyPoll is how often Ready looks again.
const readyPoll = 20 * time.Millisecond

// Server is one server of a cluster. Run is called once; all other methods may
// be called concurrently, at any time.
type Server struct {
	cfg     Config // Run completes it by what is recorded
	called  string // the name until then
	log     *slog.Logger
	started time.Time

	// Made by Run, in this order.
	store  *raftlog.Store
	self   identity
	bulk   *backend.Bulk
	client *link.Client
	server *link.Server
	mux    *rafttransport.Mux
	disk   *disk
	cold   *cold.Store // rows that memory has no room for

	checkpoints *checkpoint.Store // nil: none are made

	formation atomic.Pointer[formation]
	formedCh  chan struct{} // closed when formation is known
	adopting  chan struct{} // held by who adopts one
	groups    atomic.Pointer[groups]
	running   atomic.Bool
	opened    chan struct{} // closed when cfg and all that Run makes are there
	over      chan struct{} // closed when Run returns
	crash     *crash
	mu        sync.Mutex // guards logs
	logs      []*raftlog.Log
}

// New checks the configuration. It starts nothing and touches no file.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.local()
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, called: cfg.called(), log: cfg.Logger, started: time.Now(),
		formedCh: make(chan struct{}), adopting: make(chan struct{}, 1), opened: make(chan struct{}), over: make(chan struct{}), crash: newCrash(),
	}
	return s, nil
}

// Run serves until ctx ends (nil) or the server fails (the cause). It forms the
// cluster at the first start and goes on from the data directory later. A server
// whose log is lost or whose files are damaged refuses: the error names groups and
// files.
func (s *Server) Run(ctx context.Context) error {
	if !s.running.CompareAndSwap(false, true) {
		return fmt.Errorf("run server %q: it was run before: make a new one", s.name())
	}
	defer close(s.over)
	if err := s.open(ctx); err != nil {
		return fmt.Errorf("start server %q: %w", s.cfg.called(), err)
	}
	err := s.run(ctx)
	return errors.Join(err, s.close())
}

// open takes the data directory and reads who this server is.
func (s *Server) open(ctx context.Context) error {
	if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	store, err := raftlog.OpenStore(filepath.Join(s.cfg.Dir, "store"), raftlog.Options{Logger: s.log})
	if err != nil {
		return fmt.Errorf("open data directory %s: %w", s.cfg.Dir, err)
	}
	s.store = store
	if err := s.recall(ctx); err != nil {
		return errors.Join(err, store.Close())
	}
	return nil
}

// recall reads the server's records, completes the configuration and prepares
// the plane.
func (s *Server) recall(ctx context.Context) error {
	var id identity
	var f *formation
	if _, err := load(s.store, keyIdentity, &id); err != nil {
		return err
	}
	if _, err := load(s.store, keyFormation, &f); err != nil {
		return err
	}
	var err error
	if s.cfg, err = s.cfg.recorded(s.store, id, f); err != nil {
		return err
	}
	if f == nil {
		if err := s.affordable(); err != nil {
			return &ConfigError{fmt.Errorf("configure server %q in %s: %w", s.cfg.Name, s.cfg.Dir, err)}
		}
		if err := s.restorable(ctx); err != nil {
			return err
		}
	}
	if s.self, err = identify(s.store, s.cfg); err != nil {
		return err
	}
	if f != nil {
		if err := s.belongs(*f); err != nil {
			return err
		}
		s.formation.Store(f)
		close(s.formedCh)
	}
	if err := s.cfg.remember(s.store); err != nil {
		return err
	}
	s.log = s.cfg.Logger.With("server", s.cfg.Name)
	s.disk = s.newDisk()
	if err := errors.Join(s.folder(), s.plane()); err != nil {
		return err
	}
	close(s.opened)
	return nil
}

// plane makes what connections need.
func (s *Server) plane() (err error) {
	self := s.introduction()
	if s.bulk, err = backend.NewBulk(s.cfg.Bulk); err != nil {
		return err
	}
	s.client, err = link.NewClient(link.Config{
		Network: s.cfg.Network, Pair: s.bulk.Pair, Upgrade: s.bulk.Upgrade(), Cluster: s.cfg.Cluster, ID: self.ID, Info: self.Info, Logger: s.log, Trace: s.cfg.Trace,
		Heartbeat: s.cfg.PeerHeartbeat, Suspect: s.cfg.PeerSuspect, Limits: link.Limits{Scratch: scratch(s.cfg.Memory)},
	})
	if err != nil {
		return err
	}
	s.server, err = link.NewServer(link.ServerConfig{
		Handler: link.HandlerFunc(s.serve), Pair: s.bulk.Pair, Upgrade: s.bulk.Upgrade(), Logger: s.log, Trace: s.cfg.Trace,
		Heartbeat: s.cfg.PeerHeartbeat, Suspect: s.cfg.PeerSuspect, Limits: link.Limits{Scratch: scratch(s.cfg.Memory)},
	})
	if err != nil {
		return err
	}
	s.mux, err = rafttransport.New(rafttransport.Config{
		Network: s.cfg.Network, Cluster: s.cfg.Cluster, Self: s.self.ID, Resolve: s.resolve, Logger: s.log,
		SameHost: s.cfg.sameHost,
	})
	return err
}

// introduction is what this server says of itself on every connection.
func (s *Server) introduction() link.Identity {
	return link.Identity{Cluster: s.cfg.Cluster, ID: s.self.ID, Info: fmt.Sprintf("server %s, pid %d", s.cfg.Name, os.Getpid())}
}

// run keeps the plane and, on it, the groups.
func (s *Server) run(ctx context.Context) error {
	listeners, err := s.listen(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // stopped before it began
	case err != nil:
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	below, sink := context.WithCancel(context.WithoutCancel(ctx))
	defer sink()
	plane, planeCtx := errgroup.WithContext(below)
	gate := &link.Gate{Identity: s.introduction(), Handle: s.accept, Logger: s.log}
	for _, ln := range listeners {
		plane.Go(func() error { return early(planeCtx, "listener", gate.Serve(planeCtx, ln)) })
	}
	plane.Go(func() error { return early(planeCtx, "device", s.bulk.Run(planeCtx)) })
	plane.Go(func() error { return early(planeCtx, "server", s.server.Run(planeCtx)) })
	plane.Go(func() error { return early(planeCtx, "client", s.client.Run(planeCtx)) })
	plane.Go(func() error { return early(planeCtx, "raft transport", s.mux.Run(planeCtx)) })
	sunk := make(chan struct{})
	var planeErr error
	go func() {
		planeErr = plane.Wait()
		close(sunk)
	}()
	defer s.crashes(sink, sunk, stop)()

	work, workCtx := errgroup.WithContext(ctx)
	work.Go(func() error { return s.work(workCtx) })
	work.Go(func() error { return s.guard(workCtx, planeCtx) })
	work.Go(func() error { return s.disk.Run(workCtx) })
	err = work.Wait()
	sink()
	<-sunk
	return outcome(ctx, errors.Join(err, planeErr))
}

// outcome is what Run returns: nil when it was told to end and did.
func outcome(ctx context.Context, err error) error {
	if crashed(ctx) {
		return ErrCrashed
	}
	if told := ctx.Err(); told != nil && errors.Is(err, told) {
		err = nil
	}
	return err
}

// early turns the end of a part that should have gone on into an error.
func early(ctx context.Context, what string, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
	}
	if err == nil {
		err = errors.New("ended early")
	}
	return fmt.Errorf("%s: %w", what, err)
}

// guard returns when something below the groups has failed.
func (s *Server) guard(ctx, plane context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.store.Failed():
		return fmt.Errorf("store in %s: %w", s.cfg.Dir, s.store.Err())
	case <-plane.Done():
		if s.crash.begun.Load() {
			<-ctx.Done()
			return ctx.Err()
		}
		return errors.New("connections cannot be served")
	}
}

// accept hands a verified connection to whom it is for.
func (s *Server) accept(conn net.Conn, h link.Hello) {
	switch h.Purpose {
	case link.Control, link.Bulk, link.Upgrade:
		s.server.Accept(conn, h)
	case link.RaftControl, link.RaftBulk, link.RaftSnapshot:
		s.mux.Accept(conn, h)
	default:
		_ = conn.Close()
	}
}

// close gives the logs and the data directory back.
func (s *Server) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, l := range s.logs {
		errs = append(errs, l.Close())
	}
	s.logs = nil
	if s.checkpoints != nil {
		errs = append(errs, s.checkpoints.Close())
	}
	if s.cold != nil {
		errs = append(errs, s.cold.Close())
	}
	errs = append(errs, s.store.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close server %q: %w", s.cfg.Name, err)
	}
	return nil
}

// Snapshot has every shard group here take a snapshot now; groups do so by
// themselves when their logs have grown. A knob for tests.
func (s *Server) Snapshot(ctx context.Context) error {
	g := s.groups.Load()
	if g == nil {
		return fmt.Errorf("snapshot server %q: its groups are not open", s.name())
	}
	var errs []error
	for _, id := range g.ids {
		if sh := g.shards[id]; sh != nil {
			errs = append(errs, sh.Snapshot(ctx))
		}
	}
	return errors.Join(errs...)
}

// name is what the operator calls this server, as far as it is known before Run has read what is recorded. Other
// methods than those that run inside Run must not read cfg itself.
func (s *Server) name() string {
	select {
	case <-s.opened:
		return s.cfg.Name
	default:
		return s.called
	}
}

// formed is how the cluster was formed, if this server knows.
func (s *Server) formed() (formation, bool) {
	f := s.formation.Load()
	if f == nil {
		return formation{}, false
	}
	return *f, true
}

// Layout is the layout in force; its Epoch is 0 before formation.
func (s *Server) Layout() layout.Layout {
	f, _ := s.formed()
	return f.Layout
}

// Ready returns when the cluster is formed and every group this server
// replicates has a leader that answers, as far as this server knows.
func (s *Server) Ready(ctx context.Context) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		lacking := s.leaderless()
		if lacking == "" {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.over:
			return fmt.Errorf("server %q has ended", s.name())
		case <-ctx.Done():
			return fmt.Errorf("server %q is not ready: %s: %w", s.name(), lacking, context.Cause(ctx))
		}
	}
}
