package world_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/world"
)

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
		rank := 3
		if at == byRegister && p.meeting() == rank { // that one has a test of its own
			rank = 2
		}
		late := p.actors[rank]
		p.actors = slices.Delete(p.actors, rank, rank+1)
		p.rebuild(2)
		if took := time.Since(began); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("waited for %v", took)
		}
		_, err := late.w.Rebuild(t.Context())
		want(t, err, p2p.ErrRefused, "epoch 2", "under way with 3 ranks", fmt.Sprintf("rank %d (process at h", rank), "of epoch 1 did not come in time")
		_ = late.end()
		_, err = late.w.Rebuild(t.Context())
		want(t, err, p2p.ErrClosed)
		p.kill(1)
		p.hear(1)
		began = time.Now()
		if p.rebuild(3); time.Since(began) > time.Second {
			t.Errorf("the epoch after that waited for %v, though nobody is missing", time.Since(began))
		}
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
					host = p.meeting()
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
					host = p.meeting()
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
