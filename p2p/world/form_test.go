package world_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/p2ptest"
	"hcclps/p2p/world"
)

// newNet is a network for a test.
func newNet(t *testing.T) *p2ptest.Net {
	t.Helper()
	network := p2ptest.NewNet(1)
	t.Cleanup(func() { _ = network.Close() })
	return network
}

// closeAll lets go of worlds that are not run.
func closeAll(t *testing.T, worlds []*world.World) {
	t.Helper()
	for _, w := range worlds {
		if w != nil {
			checkSoft(t, w.Close())
		}
	}
}

// Ranks may come in any order and late, rank 0 too.
func TestLateRanks(t *testing.T) {
	for first := range 3 {
		t.Run(fmt.Sprintf("rank %d first", first), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := newNet(t)
				began := time.Now()
				worlds, errs := make([]*world.World, 3), make([]error, 3)
				var all sync.WaitGroup
				for i := range 3 {
					r := (first + i) % 3
					all.Go(func() {
						wait(t.Context(), time.Duration(i)*20*time.Second)
						worlds[r], errs[r] = world.Open(t.Context(), config(network, r, 3))
					})
				}
				all.Wait()
				check(t, errors.Join(errs...))
				if took := time.Since(began); took < 40*time.Second || took > 41*time.Second {
					t.Errorf("formed after %v, the last rank came at 40s", took)
				}
				closeAll(t, worlds)
			})
		})
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Every rank that came says which did not.
func TestMissingRanks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newNet(t)
		var cfgs []world.Config
		for _, r := range []int{0, 1, 4, 6} {
			cfgs = append(cfgs, config(network, r, 7))
		}
		cfgs[0].Timeout = 30 * time.Second // the others', by default, is longer: who gives up at the same moment as rank 0 may be missing to it
		began := time.Now()
		_, errs := openAll(t.Context(), cfgs...)
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("gave up after %v", took)
		}
		for i, err := range errs {
			kind := p2p.ErrRefused // rank 0 said so
			if i == 0 {
				kind = context.DeadlineExceeded
			}
			want(t, err, kind, "ranks 2-3,5 of 7 missing", fmt.Sprintf("rank %d of 7", cfgs[i].Rank))
		}
	})
}

// Without a deadline of the caller the time is bounded all the same.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newNet(t)
		for _, r := range []int{0, 1} {
			cfg := config(network, r, 2)
			cfg.Timeout = 5 * time.Second
			_, err := world.Open(t.Context(), cfg)
			want(t, err, context.DeadlineExceeded, []string{"rank 1 of 2 missing", "the rendezvous cannot be reached", "h0:1"}[r], "within 5s")
		}
	})
}

// Rank 0's deadline is everybody's.
func TestRankZeroGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newNet(t)
		zero, one := config(network, 0, 3), config(network, 1, 3)
		zero.Timeout = 5 * time.Second
		_, errs := openAll(t.Context(), zero, one)
		want(t, errs[0], context.DeadlineExceeded, "rank 2 of 3 missing")
		want(t, errs[1], p2p.ErrRefused, "the rendezvous (at h0, process 100) gave up", "rank 2 of 3 missing")
	})
}

// A caller that does not fit is refused, with what both sides are; the others wait on, and are told when the time is over.
func TestMisfits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world.Config) // of rank 1, which comes second
		says   []string
	}{
		"doubled rank": {func(c *world.Config) { c.Rank = 2 }, []string{"rank 2 is at h2, process 102 already", "at h1, process 101"}},
		"rank 0 twice": {func(c *world.Config) { c.Rank, c.Listen = 0, "" }, []string{"rank 0 is at h0, process 100 already", "at h1, process 101"}},
		"other size":   {func(c *world.Config) { c.Size = 4 }, []string{"a world of 3", "at h0, process 100", "rank 1 (at h1, process 101) of 4"}},
		"out of range": {func(c *world.Config) { c.Size, c.Rank = 9, 7 }, []string{"a world of 3", "of 9"}},
		"other job":    {func(c *world.Config) { c.Job = "eval" }, []string{`"train"`, `"eval"`, "at h0, process 100", "at h1, process 101"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := newNet(t)
				odd := config(network, 1, 3)
				c.change(&odd)
				zero := config(network, 0, 3)
				zero.Timeout = 30 * time.Second
				var good []error
				var all sync.WaitGroup
				all.Go(func() { _, good = openAll(t.Context(), zero, config(network, 2, 3)) })
				wait(t.Context(), time.Second)
				began := time.Now()
				_, err := world.Open(t.Context(), odd)
				if took := time.Since(began); took != 0 {
					t.Errorf("was refused after %v", took)
				}
				all.Wait()
				want(t, err, p2p.ErrRefused, c.says...)
				want(t, good[0], context.DeadlineExceeded, append(c.says, "rank 1 of 3 missing")...)
				want(t, good[1], p2p.ErrRefused, append(c.says, "the rendezvous (at h0, process 100) gave up")...)
			})
		})
	}
}

// A rank that dies before the world is whole is missing again, and a new process may take its place.
func TestDeathWhileForming(t *testing.T) {
	for name, die := range map[string]func(network *p2ptest.Net, kill func()){
		"killed":       func(_ *p2ptest.Net, kill func()) { kill() },
		"disconnected": func(network *p2ptest.Net, _ func()) { network.Cut("h2", "h0"); network.Cut("h0", "h2") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := newNet(t)
				var worlds []*world.World
				var errs []error
				var all sync.WaitGroup
				all.Go(func() {
					worlds, errs = openAll(t.Context(), config(network, 0, 4), config(network, 1, 4))
				})
				dead, kill := context.WithCancel(t.Context())
				defer kill()
				all.Go(func() {
					if _, err := world.Open(dead, config(network, 2, 4)); err == nil {
						t.Error("the rank that died is in the world")
					}
				})
				wait(t.Context(), 10*time.Second)
				die(network, kill)
				wait(t.Context(), 10*time.Second)
				kill()
				network.Heal()
				again := config(network, 2, 4)
				again.Info = "again"
				later, laterErrs := openAll(t.Context(), again, config(network, 3, 4))
				all.Wait()
				check(t, errors.Join(append(errs, laterErrs...)...))
				worlds = append(worlds, later...)
				for r, w := range worlds {
					if w.Info(2) != "again" {
						t.Errorf("rank %d takes %q for rank 2", r, w.Info(2))
					}
				}
				closeAll(t, worlds)
			})
		})
	}
}

// The others wait for a rank 0 that is started again, and say so if it is not.
func TestDeathOfRankZeroWhileForming(t *testing.T) {
	for _, again := range []bool{true, false} {
		t.Run(fmt.Sprintf("again %v", again), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := newNet(t)
				var one *world.World
				var err error
				var all sync.WaitGroup
				all.Go(func() { one, err = world.Open(t.Context(), config(network, 1, 3)) })
				dead, kill := context.WithCancel(t.Context())
				defer kill()
				all.Go(func() { _, _ = world.Open(dead, config(network, 0, 3)) })
				wait(t.Context(), 10*time.Second)
				network.Cut("h0", "h1") // what it says when it goes is not heard
				kill()
				synctest.Wait()
				network.Kill("h0")
				network.Heal()
				wait(t.Context(), 10*time.Second)
				if !again {
					all.Wait()
					want(t, err, context.DeadlineExceeded, "the rendezvous cannot be reached", "connection refused", "no world within 2m0s")
					return
				}
				worlds, errs := openAll(t.Context(), config(network, 0, 3), config(network, 2, 3))
				all.Wait()
				check(t, errors.Join(append(errs, err)...))
				closeAll(t, append(worlds, one))
			})
		})
	}
}

// A connection that breaks while the world forms is made anew by the same process.
func TestBrokenWhileForming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newNet(t)
		var worlds []*world.World
		var errs []error
		var all sync.WaitGroup
		all.Go(func() { worlds, errs = openAll(t.Context(), config(network, 0, 3), config(network, 1, 3)) })
		wait(t.Context(), time.Second)
		network.Kill("h1")
		wait(t.Context(), time.Second)
		two, err := world.Open(t.Context(), config(network, 2, 3))
		all.Wait()
		check(t, errors.Join(append(errs, err)...))
		closeAll(t, append(worlds, two))
	})
}

// A slow network, on which everything comes late and no two things in the same order.
func TestSlowNetwork(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			network := p2ptest.NewNet(seed)
			defer func() { _ = network.Close() }()
			network.Delay(300 * time.Millisecond)
			var cfgs []world.Config
			for r := range 6 {
				cfgs = append(cfgs, config(network, r, 6))
			}
			m := run(t, network, cfgs)
			talk(t, m.comms("all", nil))
			for r, w := range m.worlds {
				if err := w.Err(); err != nil {
					t.Errorf("seed %d: rank %d: %v", seed, r, err)
				}
			}
			m.end()
		})
	}
}

func TestConfigFaults(t *testing.T) {
	_, err := world.Open(t.Context(), world.Config{Rank: 3, Size: 3, Stripes: 99, Suspect: time.Millisecond, Job: string(make([]byte, 256))})
	want(t, err, err, "rank 3 is not in 0..2", "network is nil", "pair is nil", "master is empty", "stripes 99", "suspect 1ms must be above heartbeat 500ms", "256 bytes")
	_, err = world.Open(t.Context(), world.Config{})
	want(t, err, err, "world size 0")
}
