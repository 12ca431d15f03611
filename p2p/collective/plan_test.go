package collective_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/collective"
	"hcclps/p2p/inproc"
)

// linked is a calibration of links whose rates and latencies are given by a function.
func linked(ranks int, link func(a, b int) (rate float64, latency time.Duration)) *collective.Calibration {
	c := &collective.Calibration{Ranks: ranks, Reduce: 1e9, Ports: 1}
	for a := range ranks {
		c.Alone, c.Bandwidth = append(c.Alone, make([]float64, ranks)), append(c.Bandwidth, make([]float64, ranks))
		c.Latency = append(c.Latency, make([]time.Duration, ranks))
		for b := range ranks {
			if a != b {
				c.Alone[a][b], c.Latency[a][b] = link(min(a, b), max(a, b))
				c.Bandwidth[a][b] = c.Alone[a][b]
			}
		}
	}
	return c
}

func TestPlan(t *testing.T) {
	const us = time.Microsecond
	noise := func(a, b int) float64 { return 1 + float64((7*a+3*b)%5)/20 }
	for name, test := range map[string]struct {
		ranks int
		link  func(a, b int) (float64, time.Duration)
		want  collective.Grouping
	}{
		"alone":         {1, nil, collective.Grouping{Order: []int{0}}},
		"two":           {2, func(a, b int) (float64, time.Duration) { return 1e9, us }, collective.Grouping{Order: []int{0, 1}}},
		"all alike":     {5, func(a, b int) (float64, time.Duration) { return 1e9 * noise(a, b), us }, collective.Grouping{Order: []int{0, 1, 2, 3, 4}}},
		"one slow rank": {5, slowRank(2), collective.Grouping{Order: []int{0, 1, 3, 4, 2}, Apart: []int{4}}},
		"two slow ranks": {
			6, func(a, b int) (float64, time.Duration) {
				if a == 0 || b == 0 || a == 4 || b == 4 {
					return 1e8 * noise(a, b), us
				}
				return 1e9 * noise(a, b), us
			},
			collective.Grouping{Order: []int{1, 2, 3, 5, 0, 4}, Apart: []int{4, 5}},
		},
		"interleaved hosts": {
			6, func(a, b int) (float64, time.Duration) {
				if a%2 == b%2 {
					return 1e10 * noise(a, b), us
				}
				return 1e9 * noise(a, b), 30 * us
			},
			collective.Grouping{Order: []int{0, 2, 4, 1, 3, 5}, Hosts: []int{0, 0, 0, 1, 1, 1}},
		},
		"hosts by latency alone": {
			4, func(a, b int) (float64, time.Duration) {
				if a/2 == b/2 {
					return 1e9, us
				}
				return 1e9, 10 * us
			},
			collective.Grouping{Order: []int{0, 1, 2, 3}, Hosts: []int{0, 0, 1, 1}},
		},
		"two hosts and one slow rank": {
			7, func(a, b int) (float64, time.Duration) {
				switch {
				case a == 1 || b == 1:
					return 1e7, 100 * us
				case a%2 == b%2:
					return 1e10, us
				}
				return 1e9, 30 * us
			},
			collective.Grouping{Order: []int{0, 2, 4, 6, 3, 5, 1}, Hosts: []int{0, 0, 0, 0, 1, 1, 2}, Apart: []int{6}},
		},
		"a ring of cables": {
			6, func(a, b int) (float64, time.Duration) { // 0-3-1-4-2-5-0, the rest goes over a switch
				if d := b - a; d == 3 || a == 1 && b == 3 || a == 2 && b == 4 || a == 0 && b == 5 {
					return 1e9, us
				}
				return 2e8, us
			},
			collective.Grouping{Order: []int{0, 3, 1, 4, 2, 5}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := collective.Plan(linked(test.ranks, test.link)); !reflect.DeepEqual(got, test.want) {
				t.Errorf("planned %+v, want %+v", got, test.want)
			} else if changes := name != "alone" && name != "two" && name != "all alike"; got.Changes() != changes {
				t.Errorf("%+v changes: %v", got, got.Changes())
			}
		})
	}
}

func slowRank(slow int) func(a, b int) (float64, time.Duration) {
	return func(a, b int) (float64, time.Duration) {
		if a == slow || b == slow {
			return 1e8, time.Microsecond
		}
		return 1e9, time.Microsecond
	}
}

// Ranks apart change nothing of what an AllReduce gives.
func TestApart(t *testing.T) {
	most := 6
	if testing.Short() {
		most = 4
	}
	for ranks := 2; ranks <= most; ranks++ {
		for _, apart := range [][]int{{0}, {ranks - 1}, {1, 0, 3}} {
			apart = slices.DeleteFunc(slices.Clone(apart), func(r int) bool { return r >= ranks })
			if len(apart) == ranks {
				continue
			}
			for _, order := range []bool{false, true} {
				t.Run(fmt.Sprint(ranks, apart, order), func(t *testing.T) {
					w := newWorld(t, ranks, func(_ int, c *collective.Config) {
						c.Apart, c.RankOrder, c.Piece = apart, order, 2048
						c.Algorithms = collective.Algorithms{collective.AllReduce: {Level1: collective.Mesh}}
					})
					for _, k := range kinds(ranks) {
						for _, n := range []int{0, 1, 5000, 20001} {
							checkReduction(t, w, collective.AllReduce, k, n)
						}
					}
				})
			}
		}
	}
}

func TestApartIsChecked(t *testing.T) {
	for _, apart := range [][]int{{3}, {-1}, {0, 0}, {0, 1, 2}} {
		_, err := collective.New(collective.Config{Comm: inproc.World(3)[0], Apart: apart})
		if err == nil {
			t.Errorf("ranks apart %v of 3 were taken", apart)
		}
	}
}

// With one rank's link slowed ten times, the group that the plan makes is 1.3 times as fast as the flat one, whatever that does it by.
func TestPlanIsFaster(t *testing.T) {
	for _, ranks := range []int{4, 8} {
		if testing.Short() && ranks > 4 {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			slow := ranks / 2
			f := inproc.Fabric{Overhead: time.Microsecond, Port: 10e9, Link: inproc.Link{Latency: 5 * time.Microsecond}, Uplink: 1e9, Hosts: make([]int, ranks)}
			f.Hosts[slow] = 1 // its link to all others
			c := calibrated(t, f.World(ranks))[0]
			plan := collective.Plan(c)
			if len(plan.Apart) != 1 || plan.Order[plan.Apart[0]] != slow {
				t.Fatalf("planned %+v, rank %d is slow", plan, slow)
			}
			for _, size := range []int{1 << 20, 16 << 20} {
				planned, _ := timeFabric(t, f, c, size, "", &plan)
				for _, algo := range []string{"", "allreduce=ring", "allreduce=mesh", "allreduce=H-D_R", "allreduce=tree"} {
					flat, by := timeFabric(t, f, c, size, algo, nil)
					ratio := float64(flat) / float64(planned)
					t.Logf("%d ranks, %d bytes: flat by %s %v, planned %v: x%.2f", ranks, size, by, flat, planned, ratio)
					if ratio < 1.3 && size > 1<<20 {
						t.Errorf("the plan is x%.2f as fast as the flat group by %s", ratio, by)
					}
				}
			}
		})
	}
}

// timeFabric is how long an AllReduce takes, at the slowest rank, after a plan is applied.
func timeFabric(t *testing.T, f inproc.Fabric, c *collective.Calibration, size int, algo string, plan *collective.Grouping) (took time.Duration, by string) {
	t.Helper()
	algorithms, err := collective.ParseAlgorithms(algo)
	if err != nil {
		t.Fatal(err)
	}
	inside, across := c.Links(nil)
	cfg := collective.Config{Algorithms: algorithms, Inside: inside, Across: across}
	fresh := newReordered(f, c.Ranks, plan)
	var mu sync.Mutex
	w := &fleet{t: t}
	for r, comm := range f.World(c.Ranks) {
		w.all.Go(func() {
			mine := cfg
			mine.Comm = comm
			mine.Open = func(_ context.Context, ranks []int) (p2p.Comm, error) { return fresh[slices.Index(ranks, r)], nil }
			g := w.group(mine, plan)
			b := p2p.Bytes(make([]byte, size))
			if err := errors.Join(g.Barrier().Wait(t.Context()), g.Barrier().Wait(t.Context())); err != nil {
				t.Error(err)
			}
			start := time.Now()
			work := g.AllReduce(b, b, p2p.Float32, collective.Sum)
			if err := work.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			mu.Lock()
			took, by = max(took, time.Since(start)), work.Call().Algorithm.String()
			mu.Unlock()
			if err := g.Barrier().Wait(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	w.all.Wait()
	for _, g := range w.groups {
		_ = g.Close()
	}
	w.runs.Wait()
	return took, by
}

// newReordered is Comms of the same ranks in another order, over a network of the same quality.
func newReordered(f inproc.Fabric, ranks int, plan *collective.Grouping) []p2p.Comm {
	if plan == nil {
		return nil
	}
	hosts := make([]int, ranks)
	for i, r := range plan.Order {
		hosts[i] = f.Hosts[r]
	}
	f.Hosts = hosts
	return f.World(ranks)
}

// fleet is groups that run.
type fleet struct {
	t         *testing.T
	all, runs sync.WaitGroup
	mu        sync.Mutex
	groups    []*collective.Group
}

// group makes one and, where there is a plan, the one that this makes of it.
func (w *fleet) group(cfg collective.Config, plan *collective.Grouping) *collective.Group {
	g, err := collective.New(cfg)
	if err == nil && plan != nil {
		old := g
		if g, err = old.Regroup(w.t.Context(), *plan); err == nil {
			_ = old.Close()
		}
	}
	if err != nil {
		w.t.Error(err)
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.groups = append(w.groups, g)
	w.runs.Go(func() { _ = g.Run(w.t.Context()) })
	return g
}
