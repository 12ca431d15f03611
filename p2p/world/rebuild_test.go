package world_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
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

// Whoever dies, the others go on as one world, and a new process comes in later.
func TestRebuild(t *testing.T) {
	for _, victim := range []int{0, 2, 4} {
		t.Run(fmt.Sprint("kill ", victim), func(t *testing.T) {
			everywhere(t, func(t *testing.T, at place) {
				t.Helper()
				p := newTroupe(t, 5, at, nil)
				wait(t.Context(), time.Minute)
				p.verify(1)
				began := time.Now()
				p.kill(victim)
				p.hear(victim)
				p.rebuild(2)
				if took := time.Since(began); took > time.Second {
					t.Errorf("it took %v", took)
				}
				n := p.arrive(victim)
				wait(t.Context(), time.Minute)
				for _, a := range p.actors {
					if a.w.Waiting() != 1 {
						t.Errorf("%s knows of %d that wait", a.info, a.w.Waiting())
					}
				}
				p.rebuild(3, n)
				wait(t.Context(), time.Minute)
				p.verify(3)
			})
		})
	}
}

func TestRebuildWithTwoNewcomers(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		t.Helper()
		p := newTroupe(t, 4, at, nil)
		p.kill(0, 2)
		for _, a := range p.actors {
			<-a.w.Failed()
		}
		first, second := p.arrive(0), p.arrive(2)
		wait(t.Context(), 5*time.Second)
		p.rebuild(2, first, second)
	})
}

// Who does not come is left behind, and told so; the others do not wait for it for ever.
func TestStraggler(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		t.Helper()
		p := newTroupe(t, 5, at, nil)
		p.kill(4)
		p.hear(4)
		began := time.Now()
		late := p.actors[3]
		p.actors = p.actors[:3]
		p.rebuild(2)
		if took := time.Since(began); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("waited for %v", took)
		}
		_, err := late.w.Rebuild(t.Context())
		want(t, err, p2p.ErrRefused, "epoch 2", "under way with 3 ranks", "rank 3 (process at h", "of epoch 1 did not come in time")
		_ = late.end()
		_, err = late.w.Rebuild(t.Context())
		want(t, err, p2p.ErrClosed)
	})
}

// A straggler in whose process the rendezvous is leaves too, and the others go on from there.
func TestStragglerWithTheRendezvous(t *testing.T) {
	for _, at := range []place{rankZero, byRegister} {
		t.Run(string(at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newTroupe(t, 4, at, nil)
				host := 0
				if at == byRegister {
					host = slices.IndexFunc(p.actors, func(a *actor) bool { return strings.Contains(p.register.text, " "+a.host+":") })
				}
				late := p.actors[host]
				late.w.Fail("stuck")
				p.hear(host)
				p.actors = slices.Delete(p.actors, host, host+1)
				p.rebuild(2)
				_, err := late.w.Rebuild(t.Context())
				want(t, err, p2p.ErrRefused, "epoch 2", "went on without it")
				_ = late.end()
				p.hear(-1)
				p.rebuild(3)
				p.kill(1)
				p.hear(1)
				p.rebuild(4)
			})
		})
	}
}

// One that asks for it alone draws the others in.
func TestRebuildAlone(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		t.Helper()
		p := newTroupe(t, 3, at, nil)
		n := p.arrive(0)
		wait(t.Context(), time.Minute)
		var w *world.World
		var err error
		first := p.actors[1]
		p.all.Go(func() { w, err = first.w.Rebuild(t.Context()) })
		p.actors = slices.Delete(p.actors, 1, 2)
		p.hear(1)
		worlds, errs := make([]*world.World, 2), make([]error, 2)
		var all sync.WaitGroup
		for i, a := range p.actors {
			all.Go(func() { worlds[i], errs[i] = a.w.Rebuild(t.Context()) })
		}
		all.Wait()
		synctest.Wait()
		check(t, errors.Join(errs[0], errs[1], err))
		for i, a := range p.actors {
			p.run(a, worlds[i])
		}
		p.run(first, w)
		p.actors = append(slices.Insert(p.actors, 1, first), n.join())
		p.verify(2)
	})
}

// Fewer ranks than the least wait for newcomers.
func TestLeast(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		t.Helper()
		p := newTroupe(t, 3, at, func(c *world.Config) { c.Least = 3 })
		p.kill(0)
		p.hear(0)
		errs, worlds := make([]error, 2), make([]*world.World, 2)
		began := time.Now()
		var all sync.WaitGroup
		for i, a := range p.actors {
			all.Go(func() { worlds[i], errs[i] = a.w.Rebuild(t.Context()) })
		}
		wait(t.Context(), time.Minute)
		n := p.arrive(0)
		all.Wait()
		check(t, errors.Join(errs...))
		if took := time.Since(began); took < time.Minute || took > 61*time.Second {
			t.Errorf("went on after %v", took)
		}
		for i, a := range p.actors {
			p.run(a, worlds[i])
		}
		p.actors = append(p.actors, n.join())
		p.verify(2)
	})
}

// A process that dies while others rebuild is not waited for, wherever the rendezvous is.
func TestDeathWhileRebuilding(t *testing.T) {
	for _, victim := range []int{0, 1, 3} {
		t.Run(fmt.Sprint("then ", victim), func(t *testing.T) {
			everywhere(t, func(t *testing.T, at place) {
				t.Helper()
				p := newTroupe(t, 6, at, nil)
				p.kill(5)
				p.hear(5)
				// The victim and some others have come, rank 4 has not.
				dying, die := context.WithCancel(t.Context())
				defer die()
				worlds, errs := make([]*world.World, 5), make([]error, 5)
				var all, dead sync.WaitGroup
				for i, a := range p.actors {
					switch i {
					case victim:
						dead.Go(func() {
							if w, err := a.w.Rebuild(dying); err == nil { // with the rendezvous, it may have a world of its own
								if at == apart {
									t.Error("the victim is in the world")
								}
								_ = w.Close()
							}
						})
					default:
						all.Go(func() {
							if i == 4 {
								wait(t.Context(), 3*time.Second)
							}
							worlds[i], errs[i] = a.w.Rebuild(t.Context())
						})
					}
				}
				wait(t.Context(), time.Second)
				host := p.actors[victim].host
				p.net.Partition([]string{host}, []string{"h0", "h1", "h2", "h3", "h4", "h5", "h6", "launcher"})
				p.net.Kill(host)
				die()
				dead.Wait()
				p.net.Heal()
				all.Wait()
				check(t, errors.Join(errs...))
				p.actors = slices.Delete(p.actors, victim, victim+1)
				worlds = slices.Delete(worlds, victim, victim+1)
				for i, a := range p.actors {
					p.run(a, worlds[i])
				}
				p.verify(2)
			})
		})
	}
}

// A rendezvous that dies when some have heard of the epoch that it decided, and one has not, takes nobody with it.
func TestDeathWhileTelling(t *testing.T) {
	for _, at := range []place{rankZero, byRegister} {
		t.Run(string(at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newTroupe(t, 5, at, nil)
				host := 0
				if at == byRegister {
					host = slices.IndexFunc(p.actors, func(a *actor) bool { return strings.Contains(p.register.text, " "+a.host+":") })
				}
				dead, deaf := p.actors[host], p.actors[(host+1)%5]
				gone := (host + 2) % 5
				p.kill(gone)
				p.hear(gone)
				p.net.Cut(dead.host, deaf.host)
				worlds := make(map[*actor]*world.World)
				var mu sync.Mutex
				var early, last sync.WaitGroup
				for _, a := range p.actors {
					all := &early
					if a == deaf {
						all = &last
					}
					all.Go(func() {
						w, err := a.w.Rebuild(t.Context())
						checkSoft(t, err)
						mu.Lock()
						worlds[a] = w
						mu.Unlock()
					})
				}
				early.Wait() // deaf waits
				var others []string
				p.actors = slices.DeleteFunc(p.actors, func(a *actor) bool { return a == dead })
				for _, a := range p.actors {
					if others = append(others, a.host); a != deaf {
						p.run(a, worlds[a])
					}
				}
				p.net.Partition([]string{dead.host}, others)
				p.net.Kill(dead.host)
				check(t, worlds[dead].Close())
				p.net.Heal()
				for _, a := range p.actors {
					if a == deaf {
						continue
					}
					<-a.w.Failed()
					last.Go(func() {
						w, err := a.w.Rebuild(t.Context())
						checkSoft(t, err)
						mu.Lock()
						worlds[a] = w
						mu.Unlock()
					})
				}
				last.Wait()
				slices.SortFunc(p.actors, func(a, b *actor) int { return worlds[a].Rank() - worlds[b].Rank() })
				for _, a := range p.actors {
					p.run(a, worlds[a])
				}
				p.verify(3)
			})
		})
	}
}

// A rank that was only silent comes back with the others.
func TestSilentRankComesBack(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		t.Helper()
		p := newTroupe(t, 4, at, nil)
		p.net.Partition([]string{p.actors[2].host}, []string{"h0", "h1", "h2", "h3", "h4", "launcher"})
		for _, a := range p.actors {
			<-a.w.Failed()
		}
		p.net.Heal()
		synctest.Wait()
		worlds, errs := make([]*world.World, 4), make([]error, 4)
		var all sync.WaitGroup
		for i, a := range p.actors {
			all.Go(func() {
				if i != 2 {
					wait(t.Context(), time.Second)
				}
				worlds[i], errs[i] = a.w.Rebuild(t.Context())
			})
		}
		all.Wait()
		check(t, errors.Join(errs...))
		for i, a := range p.actors {
			p.run(a, worlds[i])
		}
		p.verify(2)
	})
}

// A job whose processes are all gone begins again at a rendezvous that is left.
func TestAllAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTroupe(t, 3, apart, nil)
		early := p.arrive(1)
		wait(t.Context(), time.Second)
		p.kill(0, 1, 2)
		wait(t.Context(), time.Second)
		two, zero := p.arrive(2), p.arrive(0)
		p.actors = []*actor{zero.join(), early.join(), two.join()}
		p.verify(2)
	})
}

// The two sides of a network that is cut do not both go on: the register decides for one.
func TestPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTroupe(t, 6, byRegister, nil)
		one, other := []string{"h0", "h1", "h2"}, []string{"h3", "h4", "h5"}
		p.net.Partition(one, other)
		for _, a := range p.actors {
			<-a.w.Failed()
		}
		worlds, errs := make([]*world.World, 6), make([]error, 6)
		var all sync.WaitGroup
		for i, a := range p.actors {
			all.Go(func() { worlds[i], errs[i] = a.w.Rebuild(t.Context()) })
		}
		all.Wait()
		var left []*actor
		for i, a := range p.actors {
			if errs[i] == nil {
				p.run(a, worlds[i])
				left = append(left, a)
				continue
			}
			want(t, errs[i], p2p.ErrRefused, "start anew")
		}
		p.actors = left
		if len(left) != 3 {
			t.Fatalf("%d of 6 go on: %v", len(left), errors.Join(errs...))
		}
		p.verify(2)
		p.net.Heal()
		p.kill(0)
		p.hear(0)
		p.rebuild(3)
	})
}

// A rendezvous that dies when it has written an epoch down and told nobody does not end the world.
func TestDeathAfterDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTroupe(t, 5, byRegister, nil)
		at := slices.IndexFunc(p.actors, func(a *actor) bool { return p.register.text[len(p.register.text)-len("h0:1"):][:2] == a.host })
		p.kill((at + 1) % 5)
		<-p.actors[0].w.Failed()
		p.register.stalls = true
		at = slices.IndexFunc(p.actors, func(a *actor) bool { return p.register.text[len(p.register.text)-len("h0:1"):][:2] == a.host })
		dying, die := context.WithCancel(t.Context())
		worlds, errs := make([]*world.World, 4), make([]error, 4)
		var all sync.WaitGroup
		for i, a := range p.actors {
			ctx := t.Context()
			if i == at {
				ctx = dying
			}
			all.Go(func() { worlds[i], errs[i] = a.w.Rebuild(ctx) })
		}
		wait(t.Context(), 5*time.Second)
		die()
		all.Wait()
		if errs[at] == nil {
			t.Fatal("the one that died is in the world")
		}
		errs[at] = nil
		check(t, errors.Join(errs...))
		p.actors, worlds = slices.Delete(p.actors, at, at+1), slices.Delete(worlds, at, at+1)
		for i, a := range p.actors {
			p.run(a, worlds[i])
		}
		p.verify(2)
	})
}

// One that nobody can reach any more does not stand in the way of the next.
func TestAllAnewByRegister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTroupe(t, 3, byRegister, nil)
		p.kill(0, 1, 2)
		wait(t.Context(), time.Minute)
		var fresh []*pending
		for _, r := range []int{2, 0, 1} {
			fresh = append(fresh, p.arrive(r))
		}
		p.actors = []*actor{fresh[1].join(), fresh[2].join(), fresh[0].join()}
		p.verify(1)
	})
}

// A Host that ends is a verdict that names no rank.
func TestHostEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTroupe(t, 3, apart, nil)
		p.host()
		p.hear(-1)
		want(t, p.actors[1].w.Err(), p2p.ErrPeer, "the rendezvous (launcher) is lost: connection closed")
		p.rebuild(2) // one of them is the rendezvous now
		p.kill(0)
		p.hear(0)
		p.rebuild(3)
	})
}

func TestRebuildOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTroupe(t, 1, rankZero, nil)
		p.actors[0].w.Fail("no memory")
		p.hear(0)
		p.rebuild(2)
	})
}

// Processes die and come in any order, again and again.
func TestManyRebuilds(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			everywhere(t, func(t *testing.T, at place) {
				t.Helper()
				rng := rand.New(rand.NewPCG(seed, 7))
				p := newTroupe(t, 6, at, nil)
				epoch := uint32(1)
				for range 8 {
					victim := rng.IntN(len(p.actors))
					wait(t.Context(), time.Duration(rng.Int64N(int64(3*time.Second))))
					p.kill(victim)
					p.hear(victim)
					epoch++
					p.rebuild(epoch)
					wait(t.Context(), time.Duration(rng.Int64N(int64(3*time.Second))))
					n := p.arrive(victim)
					wait(t.Context(), time.Second)
					epoch++
					p.rebuild(epoch, n)
				}
			})
		})
	}
}
