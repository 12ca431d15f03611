package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// World is one epoch of membership: ranks that know each other. Its methods may be called by any number of goroutines.
type World struct {
	cfg       Config
	self      identity
	table     roster
	rank      int
	hosts     []int
	link      uplink       // nil in a world of one
	center    *center      // nil: elsewhere
	local     string       // this side's address to the rendezvous
	ln        net.Listener // of pairs
	lobby     *lobby
	fate      *fate
	place     place
	questions *questions
	waiting   atomic.Int64 // newcomers
	gone      atomic.Bool  // the rendezvous is
	pulse     pulse
	moved     atomic.Bool // but to another place

	wake    chan struct{} // one token: fresh has changed
	quit    chan struct{} // closed when Rebuild takes over
	stopped chan struct{} // closed when Run ends
	done    chan struct{} // closed when it has ended

	mu     sync.Mutex
	state  state
	names  map[string]bool // of comms, ever
	scopes map[string]*Scope
	comms  map[*Comm]struct{}
	fresh  []*lane // not yet running
}

// state is how far a World is.
type state uint8

const (
	opened state = iota
	running
	handed // to Rebuild
	ended
)

// Open makes this process one rank of a world: it returns when all ranks are there, or an error that says which are not. Where the world is under way
// already, it waits until the ranks of it let this one in by Rebuild. Nothing runs yet, so call Run soon: the others take a rank for dead that is
// silent for long. A World that is not to run must be closed.
func Open(ctx context.Context, cfg Config) (*World, error) {
	if err := cfg.setDefaults(true); err != nil {
		return nil, fmt.Errorf("configure world: %w", err)
	}
	j := &joiner{cfg: &cfg, self: identity{process: rand.Uint64()}, dead: -1}
	if cfg.Size == 1 {
		j.alone(1)
	} else if err := j.within(ctx); err != nil {
		return nil, fmt.Errorf("open world %s as rank %d of %d: %w", cfg.where(), cfg.Rank, cfg.Size, err)
	}
	return newWorld(j), nil
}

// within joins in the time there is.
func (j *joiner) within(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, j.cfg.Timeout, fmt.Errorf("no world within %v: %w", j.cfg.Timeout, context.DeadlineExceeded))
	defer cancel()
	return j.join(ctx)
}

// alone makes an epoch of this process, without a rendezvous.
func (j *joiner) alone(epoch uint32) {
	j.self.born = 1
	j.table = roster{epoch: epoch, members: []member{{host: j.cfg.Host, info: j.cfg.Info}}, center: -1}
}

// newWorld is the epoch that a process has joined.
func newWorld(j *joiner) *World {
	w := &World{
		cfg: *j.cfg, self: j.self, table: j.table, rank: j.table.rank, hosts: number(j.table.members),
		link: j.link, center: j.center, local: j.local, ln: j.ln, lobby: newLobby(), fate: newFate(), questions: newQuestions(),
		pulse: pulse{began: time.Now(), bound: j.cfg.Suspect}, wake: make(chan struct{}, 1), quit: make(chan struct{}), stopped: make(chan struct{}), done: make(chan struct{}),
		names: make(map[string]bool), scopes: make(map[string]*Scope), comms: make(map[*Comm]struct{}),
	}
	w.cfg.Logger.Info("world formed", "rank", w.rank, "size", w.Size(), "epoch", w.table.epoch, "hosts", slices.Max(w.hosts)+1)
	return w
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
func (w *World) Rank() int { return w.rank }

// Size is the number of ranks.
func (w *World) Size() int { return len(w.table.members) }

// Epoch counts the memberships of a job: the first is 1.
func (w *World) Epoch() uint32 { return w.table.epoch }

// Hosts are the machines by rank: ranks on one have one number. The first is 0.
func (w *World) Hosts() []int { return append([]int(nil), w.hosts...) }

// Info says for people where a rank runs.
func (w *World) Info(rank int) string { return w.table.members[rank].info }

// Joined is the epoch in which this process came in. Where it is Epoch, and above 1, others have been there before.
func (w *World) Joined() uint32 { return w.self.born }

// Close lets go of a World that was never run, and the others are told that this rank has left. One that runs ends when the context of Run does.
func (w *World) Close() error {
	if !w.enter(running) {
		return nil
	}
	over, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("closed"))
	return w.run(over)
}

// Run owns the goroutines of the World and of its Comms: it answers the others, and notices who dies. It returns when ctx has ended, or Rebuild takes
// over, and everything is closed. The others are told that this rank has left. The error is that of the World, see Err; nil if all was well, or Rebuild
// is to mend it. It runs once.
func (w *World) Run(ctx context.Context) error {
	if !w.enter(running) {
		select {
		case <-w.quit:
			return nil
		default:
		}
		return errors.New("run world: it ran already, or was closed")
	}
	return w.run(ctx)
}

// enter begins a state that comes after opened.
func (w *World) enter(s state) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state != opened {
		return false
	}
	w.state = s
	return true
}

func (w *World) run(ctx context.Context) error {
	defer close(w.done)
	inner, stop := context.WithCancel(context.WithoutCancel(ctx)) // ends when the others have been told
	defer stop()
	var all sync.WaitGroup
	if w.center != nil {
		all.Go(func() { w.center.run(inner) })
	}
	if w.link != nil {
		all.Go(func() { w.lost(w.link.run(inner, w.heard)) })
		all.Go(func() { w.lobby.serve(inner, w) })
	}
	all.Go(func() { w.pulse.run(inner, w.cfg.Heartbeat) })
	w.tend(ctx, &all)
	leaves := w.stop()
	if leaves && w.link != nil {
		w.link.post(frame{kind: kindLeft, rank: w.rank, text: context.Cause(ctx).Error()})
	}
	stop()
	all.Wait()
	if !leaves {
		return nil
	}
	w.part()
	return w.Err()
}

// part ends the connection to the rendezvous, and the rendezvous if it is here.
func (w *World) part() {
	if w.link != nil {
		w.link.close()
	}
	if w.center != nil {
		w.center.close()
	}
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
		case <-w.quit:
			return
		case <-failed:
			failed = nil
			for _, c := range w.openComms() {
				c.die(w.Err())
			}
		case <-ctx.Done():
		}
	}
}

// stop ends what others wait for at this rank, and says whether it leaves for good.
func (w *World) stop() (leaves bool) {
	w.mu.Lock()
	if leaves = w.state != handed; leaves {
		w.state = ended
	}
	w.mu.Unlock()
	close(w.stopped)
	for _, c := range w.openComms() {
		c.die(errStopped)
	}
	w.lobby.close()
	return leaves
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
