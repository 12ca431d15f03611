package world_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p/p2ptest"
	"hcclps/p2p/world"
)

// actor is a process of a world that changes; it has a host of its own on the network, and all are on one machine.
type actor struct {
	w     *world.World
	host  string
	info  string
	stop  context.CancelFunc
	ended chan error // the result of Run, of every epoch
}

// end waits for the end of Run.
func (a *actor) end() error { return <-a.ended }

// troupe is processes that come and go.
type troupe struct {
	t        *testing.T
	net      *p2ptest.Net
	size     int
	all      sync.WaitGroup
	actors   []*actor             // that live, by rank
	stops    []context.CancelFunc // of all that ever ran
	came     int
	change   func(*world.Config)
	host     context.CancelFunc // of the rendezvous; nil: it is at a rank
	register *register          // nil: its address is known
}

// newTroupe makes a world of n, whose rendezvous is apart or at rank 0.
func newTroupe(t *testing.T, n int, at place, change func(*world.Config)) *troupe {
	t.Helper()
	p := &troupe{t: t, net: newNet(t), size: n, change: change}
	t.Cleanup(p.end)
	switch at {
	case apart:
		cfg := p.config(0)
		cfg.Network, cfg.Info = p.net.Host("launcher"), "launcher"
		h, err := world.OpenHost(t.Context(), cfg)
		check(t, err)
		ctx, stop := context.WithCancel(context.Background())
		p.host = stop
		p.all.Go(func() { checkSoft(t, h.Run(ctx)) })
	case byRegister:
		p.register = &register{}
	case rankZero:
	}
	var cfgs []world.Config
	for r := range n {
		cfgs = append(cfgs, p.config(r))
	}
	p.actors = p.start(cfgs)
	return p
}

// config is that of the next process, started as some rank.
func (p *troupe) config(rank int) world.Config {
	host := fmt.Sprintf("h%d", p.came)
	p.came++
	cfg := world.Config{
		Rank: rank, Size: p.size, Master: "master:1", Host: "machine", Info: "process at " + host, Job: "train",
		Network: p.net.Host(host), Pair: pair,
	}
	if p.register != nil {
		cfg.Master, cfg.Register, cfg.Listen, cfg.Host = "", p.register, host+":0", host
	}
	if p.change != nil {
		p.change(&cfg)
	}
	return cfg
}

// start opens processes at the same time and runs them.
func (p *troupe) start(cfgs []world.Config) []*actor {
	p.t.Helper()
	worlds, errs := openAll(p.t.Context(), cfgs...)
	check(p.t, errors.Join(errs...))
	var fresh []*actor
	for i, w := range worlds {
		a := &actor{host: cfgs[i].Info[len("process at "):], info: cfgs[i].Info}
		p.run(a, w)
		fresh = append(fresh, a)
	}
	return fresh
}

func (p *troupe) run(a *actor, w *world.World) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	a.w, a.stop, a.ended = w, stop, ended
	p.stops = append(p.stops, stop)
	p.all.Go(func() { ended <- w.Run(ctx) })
}

func (p *troupe) end() {
	for _, stop := range p.stops {
		stop()
	}
	if p.host != nil {
		p.host()
	}
	p.all.Wait()
}

// kill ends processes as a signal would: nothing they say is heard.
func (p *troupe) kill(ranks ...int) {
	var dead []string
	for _, r := range ranks {
		dead = append(dead, p.actors[r].host)
	}
	var others []string
	for i := range p.came {
		if h := fmt.Sprintf("h%d", i); !slices.Contains(dead, h) {
			others = append(others, h)
		}
	}
	p.net.Partition(dead, append(others, "launcher"))
	for _, r := range ranks {
		p.net.Kill(p.actors[r].host)
		p.actors[r].stop()
		_ = p.actors[r].end()
	}
	p.net.Heal()
	var left []*actor
	for r, a := range p.actors {
		if !slices.Contains(ranks, r) {
			left = append(left, a)
		}
	}
	p.actors = left
}

// meeting is the number among the actors of who has the rendezvous by the register, or -1.
func (p *troupe) meeting() int {
	return slices.IndexFunc(p.actors, func(a *actor) bool { return strings.Contains(p.register.text, " "+a.host+":") })
}

// hear waits until all know a verdict about a rank of the last epoch.
func (p *troupe) hear(rank int) {
	p.t.Helper()
	for _, a := range p.actors {
		wait(p.t.Context(), 0)
		late := time.NewTimer(soon)
		select {
		case <-a.w.Failed():
			if got, reason := a.w.Verdict(); got != rank {
				p.t.Errorf("%s blames rank %d (%s), want %d", a.info, got, reason, rank)
			}
		case <-late.C:
			p.t.Fatalf("%s has heard of no failure", a.info)
		}
		late.Stop()
	}
}

// rebuild makes the next epoch of all that live and of newcomers that wait, and checks it.
func (p *troupe) rebuild(epoch uint32, newcomers ...*pending) {
	p.t.Helper()
	worlds, errs := make([]*world.World, len(p.actors)), make([]error, len(p.actors))
	var all sync.WaitGroup
	for i, a := range p.actors {
		all.Go(func() { worlds[i], errs[i] = a.w.Rebuild(p.t.Context()) })
	}
	all.Wait()
	check(p.t, errors.Join(errs...))
	for i, a := range p.actors {
		if err := a.end(); err != nil {
			p.t.Errorf("%s: the run of the old epoch ends with %v", a.info, err)
		}
		p.run(a, worlds[i])
	}
	for _, n := range newcomers {
		a := n.join()
		if a.w.Joined() != epoch {
			p.t.Errorf("%s joined in epoch %d, want %d", a.info, a.w.Joined(), epoch)
		}
		p.actors = append(p.actors, a)
	}
	p.verify(epoch)
}

// verify checks that all agree who they are, and that they can talk.
func (p *troupe) verify(epoch uint32) {
	p.t.Helper()
	var worlds []*world.World
	for r, a := range p.actors {
		if a.w.Rank() != r || a.w.Size() != len(p.actors) || a.w.Epoch() != epoch {
			p.t.Fatalf("%s is rank %d of %d of epoch %d, want %d of %d of %d", a.info, a.w.Rank(), a.w.Size(), a.w.Epoch(), r, len(p.actors), epoch)
		}
		for q, b := range p.actors {
			if a.w.Info(q) != b.info {
				p.t.Errorf("%s takes %s for rank %d, want %s", a.info, a.w.Info(q), q, b.info)
			}
		}
		worlds = append(worlds, a.w)
	}
	m := &team{t: p.t, net: p.net, worlds: worlds}
	talk(p.t, m.comms("", nil))
	for _, w := range worlds {
		check(p.t, w.Err())
	}
}

// pending is a process that wants to join.
type pending struct {
	p    *troupe
	cfg  world.Config
	w    *world.World
	err  error
	done chan struct{}
}

func (p *troupe) arrive(rank int) *pending {
	n := &pending{p: p, cfg: p.config(rank), done: make(chan struct{})}
	p.all.Go(func() {
		defer close(n.done)
		n.w, n.err = world.Open(p.t.Context(), n.cfg)
	})
	return n
}

func (n *pending) join() *actor {
	n.p.t.Helper()
	<-n.done
	check(n.p.t, n.err)
	a := &actor{host: n.cfg.Info[len("process at "):], info: n.cfg.Info}
	n.p.run(a, n.w)
	return a
}

// place is where the rendezvous is.
type place string

const (
	apart      place = "rendezvous apart"
	rankZero   place = "rendezvous at rank 0"
	byRegister place = "rendezvous by register"
)

// everywhere runs a test with each of them.
func everywhere(t *testing.T, f func(t *testing.T, at place)) {
	t.Helper()
	for _, at := range []place{apart, rankZero, byRegister} {
		t.Run(string(at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, at) })
		})
	}
}

// register is a Register of one job.
type register struct {
	mu     sync.Mutex
	stalls bool // writes, and never answers
	number uint64
	text   string
}

func (r *register) Swap(ctx context.Context, instead uint64, text string) (uint64, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if instead == r.number {
		r.number++
		r.text = text
		if r.stalls {
			r.stalls = false
			r.mu.Unlock()
			<-ctx.Done()
			r.mu.Lock()
			return 0, "", context.Cause(ctx)
		}
	}
	return r.number, r.text, nil
}
