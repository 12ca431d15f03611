package world

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// World is one epoch of membership: ranks that know each other. Its methods may be called by any number of goroutines.
type World struct {
	cfg       Config
	table     roster
	hosts     []int
	lines     []*line      // by rank: of rank 0 to all others, of others to rank 0 only
	ln        net.Listener // of pairs; nil if no rank below this one is there
	lobby     *lobby
	fate      *fate
	place     place
	polls     *polls     // of rank 0
	questions *questions // of the others

	wake    chan struct{} // one token: fresh has changed
	stopped chan struct{} // closed when Run ends

	mu      sync.Mutex
	started bool
	closed  bool
	names   map[string]bool // of comms, ever
	comms   map[*Comm]struct{}
	fresh   []*lane // not yet running
}

// Open makes this process one rank of a world: it returns when all ranks are there, or an error that says which are not. Nothing runs yet, so
// call Run soon: the others take a rank for dead that is silent for long. A World that is not to run must be closed.
func Open(ctx context.Context, cfg Config) (*World, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, fmt.Errorf("configure world: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.Timeout, fmt.Errorf("no world within %v: %w", cfg.Timeout, context.DeadlineExceeded))
	defer cancel()
	w := &World{
		cfg: cfg, lobby: newLobby(), fate: newFate(),
		wake: make(chan struct{}, 1), stopped: make(chan struct{}),
		names: make(map[string]bool), comms: make(map[*Comm]struct{}), questions: newQuestions(),
	}
	var err error
	switch {
	case cfg.Size == 1:
		w.table = roster{epoch: 1, members: []member{{host: cfg.Host, info: cfg.Info}}}
		w.lines = make([]*line, 1)
	case cfg.Rank == 0:
		err = w.form(ctx)
	default:
		err = w.join(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("open world at %s as rank %d of %d: %w", cfg.Master, cfg.Rank, cfg.Size, err)
	}
	w.hosts = number(w.table.members)
	w.polls = newPolls(w)
	cfg.Logger.Info("world formed", "rank", cfg.Rank, "size", cfg.Size, "epoch", w.table.epoch, "hosts", w.hosts[len(w.hosts)-1]+1)
	return w, nil
}

// form lets the others join this rank, which is 0.
func (w *World) form(ctx context.Context) error {
	at := w.cfg.Listen
	if at == "" {
		at = w.cfg.Master
	}
	ln, err := w.cfg.Network.Listen(ctx, at)
	if err != nil {
		return fmt.Errorf("listen for other ranks: %w", err)
	}
	w.table, w.lines, err = form(ctx, &w.cfg, ln)
	return err
}

func (w *World) join(ctx context.Context) error {
	j, l, err := join(ctx, &w.cfg)
	if err == nil {
		w.table, w.ln, w.lines = j.table, j.ln, []*line{l}
	}
	return err
}

// number gives each host a number, in the order of its first rank.
func number(members []member) []int {
	known := make(map[string]int)
	hosts := make([]int, len(members))
	for r, m := range members {
		n, ok := known[m.host]
		if !ok {
			n = len(known)
			known[m.host] = n
		}
		hosts[r] = n
	}
	return hosts
}

// Rank is this process's number, 0 <= Rank < Size.
func (w *World) Rank() int { return w.cfg.Rank }

// Size is the number of ranks.
func (w *World) Size() int { return len(w.table.members) }

// Epoch counts the memberships of a job: the first is 1.
func (w *World) Epoch() uint32 { return w.table.epoch }

// Hosts are the machines by rank: ranks on one have one number. The first is 0.
func (w *World) Hosts() []int { return append([]int(nil), w.hosts...) }

// Info says for people where a rank runs.
func (w *World) Info(rank int) string { return w.table.members[rank].info }

// Close lets go of a World that was never run, and the others are told that this rank has left. One that runs ends when the context of Run does.
func (w *World) Close() error {
	w.mu.Lock()
	started := w.started
	w.started = true
	w.mu.Unlock()
	if started {
		return nil
	}
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("closed"))
	return w.run(ended)
}

// Run owns the goroutines of the World and of its Comms: it answers the others, and notices who dies. It returns when ctx has ended and everything is
// closed. The others are told that this rank has left. The error is that of the World, see Err; nil if all was well. It runs once.
func (w *World) Run(ctx context.Context) error {
	w.mu.Lock()
	again := w.started
	w.started = true
	w.mu.Unlock()
	if again {
		return errors.New("run world: it ran already, or was closed")
	}
	return w.run(ctx)
}

func (w *World) run(ctx context.Context) error {
	inner, stop := context.WithCancel(context.WithoutCancel(ctx)) // ends when the others have been told
	defer stop()
	var all sync.WaitGroup
	for r, l := range w.lines {
		if l != nil {
			all.Go(func() { w.lost(r, l.run(inner, func(f frame) error { return w.heard(r, f) })) })
		}
	}
	if w.ln != nil {
		all.Go(func() { w.lobby.serve(inner, w) })
	}
	if w.cfg.Rank == 0 {
		all.Go(func() { w.polls.serve(inner) })
	}
	w.tend(ctx, &all)
	w.tellAll(frame{kind: kindLeft, rank: w.cfg.Rank, text: context.Cause(ctx).Error()})
	w.stop()
	stop()
	all.Wait()
	for _, l := range w.lines {
		if l != nil {
			_ = l.conn.Close()
		}
	}
	return w.Err()
}

// tend runs the comms that are opened, and ends them when the world has failed, until ctx ends.
func (w *World) tend(ctx context.Context, all *sync.WaitGroup) {
	failed := w.Failed()
	for ctx.Err() == nil {
		for _, l := range w.takeFresh() {
			all.Go(func() { l.run(ctx) })
		}
		select {
		case <-w.wake:
		case <-failed:
			failed = nil
			for _, c := range w.openComms() {
				c.die(w.Err())
			}
		case <-ctx.Done():
		}
	}
}

// stop ends what others wait for at this rank.
func (w *World) stop() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	close(w.stopped)
	for _, c := range w.openComms() {
		c.die(errStopped)
	}
	w.lobby.close()
}

func (w *World) takeFresh() []*lane {
	w.mu.Lock()
	defer w.mu.Unlock()
	fresh := w.fresh
	w.fresh = nil
	return fresh
}

func (w *World) openComms() []*Comm {
	w.mu.Lock()
	defer w.mu.Unlock()
	var open []*Comm
	for c := range w.comms {
		open = append(open, c)
	}
	return open
}
