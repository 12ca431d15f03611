package collective_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/collective"
	"hcclps/p2p/inproc"
	"hcclps/p2p/p2ptest"
	"hcclps/p2p/tcp"
)

// setting is a way to connect ranks whose links are as fast as one says.
type setting struct {
	name  string
	hosts func(rank, ranks int) int // nil: one host
	open  func(ctx context.Context, ranks int, hosts []int) (comms []p2p.Comm, stop func())
}

// fabric is a setting over a network of ports, links and hosts.
func fabric(name string, f inproc.Fabric, hosts func(rank, ranks int) int) setting {
	return setting{name, hosts, func(_ context.Context, ranks int, hosts []int) ([]p2p.Comm, func()) {
		f := f
		f.Hosts = hosts
		return f.World(ranks), func() {}
	}}
}

// overTCP is a setting of the tcp backend, over connections of a given quality.
func overTCP(name string, shape p2ptest.Shape) setting {
	return setting{name, nil, func(ctx context.Context, ranks int, _ []int) ([]p2p.Comm, func()) {
		comms := make([]*pairwise, ranks)
		for r := range comms {
			comms[r] = &pairwise{rank: r, pairs: make([]p2p.Comm, ranks)}
		}
		var runs sync.WaitGroup
		for a := range ranks {
			for b := a + 1; b < ranks; b++ {
				x, y := inproc.Pipe(1 << 20)
				for i, c := range []net.Conn{x, y} {
					pair := tcp.Pair([]net.Conn{shape.Conn(c)}, i)
					comms[[]int{a, b}[i]].pairs[[]int{b, a}[i]] = pair
					runs.Go(func() { _ = pair.Run(ctx) })
				}
			}
		}
		var all []p2p.Comm
		for _, c := range comms {
			all = append(all, c)
		}
		return all, runs.Wait
	}}
}

// pairwise is a Comm made of pairs, of which the lower rank is rank 0.
type pairwise struct {
	rank  int
	pairs []p2p.Comm
}

func (c *pairwise) Rank() int { return c.rank }
func (c *pairwise) Size() int { return len(c.pairs) }

func (c *pairwise) end(peer int) int {
	if peer < c.rank {
		return 0
	}
	return 1
}

func (c *pairwise) Isend(peer int, b p2p.Buffer) *p2p.Request {
	return c.pairs[peer].Isend(c.end(peer), b)
}

func (c *pairwise) Irecv(peer int, b p2p.Buffer) *p2p.Request {
	return c.pairs[peer].Irecv(c.end(peer), b)
}

func (c *pairwise) Close() error {
	var errs []error
	for _, p := range c.pairs {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(errs...)
}

// measure is how long an AllReduce of each size takes at the slowest rank, and by what it was done.
func (s setting) measure(t *testing.T, ranks int, sizes []int, algo string, links *[2]collective.Link) (took []time.Duration, by []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var hosts []int
		for r := range ranks {
			if s.hosts != nil {
				hosts = append(hosts, s.hosts(r, ranks))
			}
		}
		comms, stop := s.open(ctx, ranks, hosts)
		defer stop()
		if *links == ([2]collective.Link{}) {
			links[0], links[1] = calibrated(t, comms)[0].Links(hosts)
			for _, c := range comms {
				_ = c.Close()
			}
			return
		}
		algorithms, err := collective.ParseAlgorithms(algo)
		if err != nil {
			t.Fatal(err)
		}
		took, by = make([]time.Duration, len(sizes)), make([]string, len(sizes))
		const calls = 2 // of which the fastest counts
		all := make([][calls]time.Duration, len(sizes))
		var mu sync.Mutex
		var groups []*collective.Group
		var posted, runs sync.WaitGroup
		for _, comm := range comms {
			g, err := collective.New(collective.Config{Comm: comm, Algorithms: algorithms, Hosts: hosts, Inside: links[0], Across: links[1]})
			if err != nil {
				t.Fatal(err)
			}
			groups = append(groups, g)
			runs.Go(func() { _ = g.Run(ctx) })
			posted.Go(func() {
				for i, size := range sizes {
					b := p2p.Bytes(make([]byte, size))
					for again := range calls {
						if err := errors.Join(g.Barrier().Wait(ctx), g.Barrier().Wait(ctx)); err != nil {
							t.Error(err)
						}
						start := time.Now()
						w := g.AllReduce(b, b, p2p.Float32, collective.Sum)
						if err := w.Wait(ctx); err != nil {
							t.Error(err)
						}
						mu.Lock()
						all[i][again], by[i] = max(all[i][again], time.Since(start)), w.Call().Algorithm.String()
						mu.Unlock()
					}
				}
			})
		}
		posted.Wait() // what is under way when a connection is closed is lost
		for _, g := range groups {
			_ = g.Close()
		}
		runs.Wait()
		for i := range all {
			took[i] = slices.Min(all[i][:])
		}
	})
	return took, by
}

// halves puts the first half of ranks on one host, the others on another.
func halves(rank, ranks int) int { return 2 * rank / ranks }

func settings() []setting {
	us := time.Microsecond
	return []setting{
		fabric("a link to everybody", inproc.Fabric{Link: inproc.Link{Latency: 5 * us, Bandwidth: 10e9}}, nil),
		fabric("one card a rank", inproc.Fabric{Overhead: 2 * us, Port: 1.25e9, Link: inproc.Link{Latency: 30 * us}}, nil),
		fabric("dear messages", inproc.Fabric{Overhead: 15 * us, Port: 5e9, Link: inproc.Link{Latency: 5 * us}}, nil),
		fabric("two hosts", inproc.Fabric{
			Overhead: us, Port: 10e9, Link: inproc.Link{Latency: 2 * us}, Across: inproc.Link{Latency: 50 * us, Bandwidth: 1.25e9}, Uplink: 1.25e9,
		}, halves),
		overTCP("tcp, 100 us, 1 GB/s", p2ptest.Shape{Latency: 100 * us, Bandwidth: 1e9, Exact: true}),
		overTCP("tcp, 1 ms, 1 GB/s", p2ptest.Shape{Latency: 1000 * us, Bandwidth: 1e9, Exact: true}),
	}
}

// score is how the choice of the model compares.
type score struct {
	cells, good int
	wins        map[string]int           // cells in which one is faster than all others by a hundredth
	chosen      time.Duration            // sums over all cells
	constant    map[string]time.Duration // of the same choice everywhere
	thumb       time.Duration            // of the rule of thumb
}

// add judges one cell: the times of what can be pinned, and what was chosen.
func (s *score) add(t *testing.T, what string, size int, all map[string]time.Duration, by string, got time.Duration, pins []string) {
	t.Helper()
	if pinned, ok := all[by]; ok {
		got = pinned // goroutines of one moment run in any order, which makes one run a little unlike another
	}
	order := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return int(all[a] - all[b]) })
	best := all[order[0]]
	line := what
	for _, pin := range order {
		line += fmt.Sprintf("  %s %.1f", pin, float64(all[pin])/1e3)
	}
	ratio := float64(got) / float64(best)
	t.Logf("%s us; chosen %s: x%.2f", line, by, ratio)
	s.cells++
	if ratio <= 1.15 {
		s.good++
	}
	if all[order[1]]-best > best/100 {
		s.wins[order[0]]++
	}
	s.chosen += got
	s.thumb += all[collective.RuleOfThumb(size, false).String()]
	for _, pin := range pins {
		d, ok := all[pin]
		if !ok {
			d = all["mesh"] // there are no two levels
		}
		s.constant[pin] += d
	}
}

// On links of a known quality, which fake time measures exactly, the choice with measured constants is near the best of all that can be pinned.
func TestTheModelChoosesWell(t *testing.T) {
	sizes := []int{256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20}
	pins := []string{"ring", "H-D_R", "mesh", "tree", "level0:mesh;level1:mesh", "level0:ring;level1:ring"}
	total := score{wins: make(map[string]int), constant: make(map[string]time.Duration)}
	all := settings()
	if testing.Short() {
		all = all[2:4] // those over tcp take longer
	}
	for _, s := range all {
		for _, ranks := range []int{2, 4, 8} {
			var links [2]collective.Link
			s.measure(t, ranks, nil, "", &links)
			t.Logf("%s, %d ranks: %+v", s.name, ranks, links)
			took := make(map[string][]time.Duration)
			for _, pin := range pins {
				if !strings.Contains(pin, ":") || s.hosts != nil && ranks >= 4 {
					took[pin], _ = s.measure(t, ranks, sizes, "allreduce="+pin, &links)
				}
			}
			got, by := s.measure(t, ranks, sizes, "", &links)
			for i, size := range sizes {
				all := make(map[string]time.Duration)
				for pin, d := range took {
					all[pin] = d[i]
				}
				total.add(t, fmt.Sprintf("%9d B:", size), size, all, by[i], got[i], pins)
			}
		}
	}
	t.Logf("%d of %d cells within 1.15 of the fastest; alone the fastest: %v; sum of the choice %v, of the rule of thumb %v, of constant ones %v",
		total.good, total.cells, total.wins, total.chosen, total.thumb, total.constant)
	total.constant["by the rule of thumb"] = total.thumb
	if 10*total.good < 9*total.cells {
		t.Errorf("the choice is within 1.15 of the fastest in %d of %d cells, want 90 %%", total.good, total.cells)
	}
	if len(total.wins) < 3 {
		t.Errorf("%v are the fastest anywhere, want three at least", total.wins)
	}
	for pin, d := range total.constant {
		if d <= total.chosen {
			t.Errorf("always %s takes %v in sum, the choice %v", pin, d, total.chosen)
		}
	}
}
