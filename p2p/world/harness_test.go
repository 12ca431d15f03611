package world_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/p2ptest"
	"hcclps/p2p/tcp"
	"hcclps/p2p/world"
)

func pair(_ context.Context, conns []net.Conn, rank int) (p2p.RunningComm, error) {
	return tcp.Pair(conns, rank), nil
}

// team is the ranks of a world in one process, each on a host of its own.
type team struct {
	t      *testing.T
	net    *p2ptest.Net
	worlds []*world.World
	stops  []context.CancelFunc
	ended  []chan error // the result of Run
	all    sync.WaitGroup
}

// config is that of rank r of n.
func config(network *p2ptest.Net, r, n int) world.Config {
	host := fmt.Sprintf("h%d", r)
	return world.Config{
		Rank: r, Size: n, Master: "h0:1", Listen: map[bool]string{true: "", false: host + ":0"}[r == 0],
		Host: host, Info: fmt.Sprintf("at %s, process %d", host, 100+r), Job: "train",
		Network: network.Host(host), Pair: pair,
	}
}

// openAll opens the ranks of cfgs at the same time.
func openAll(ctx context.Context, cfgs ...world.Config) ([]*world.World, []error) {
	worlds, errs := make([]*world.World, len(cfgs)), make([]error, len(cfgs))
	var all sync.WaitGroup
	for i, cfg := range cfgs {
		all.Go(func() { worlds[i], errs[i] = world.Open(ctx, cfg) })
	}
	all.Wait()
	return worlds, errs
}

// start makes a world of n ranks that run until the test ends.
func start(t *testing.T, n int, change func(*world.Config)) *team {
	t.Helper()
	network := newNet(t)
	cfgs := make([]world.Config, n)
	for r := range cfgs {
		cfgs[r] = config(network, r, n)
		if change != nil {
			change(&cfgs[r])
		}
	}
	m := run(t, network, cfgs)
	t.Cleanup(m.end)
	return m
}

// run makes a world of the ranks of cfgs, which run until the end.
func run(t *testing.T, network *p2ptest.Net, cfgs []world.Config) *team {
	t.Helper()
	worlds, errs := openAll(t.Context(), cfgs...)
	check(t, errors.Join(errs...))
	m := &team{t: t, net: network, worlds: worlds}
	for _, w := range worlds {
		ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		ended := make(chan error, 1)
		m.stops, m.ended = append(m.stops, stop), append(m.ended, ended)
		m.all.Go(func() { ended <- w.Run(ctx) })
	}
	return m
}

func (m *team) end() {
	for _, stop := range m.stops {
		stop()
	}
	m.all.Wait()
}

// comms opens one comm at all its ranks, which are nil for all.
func (m *team) comms(name string, ranks []int) []*world.Comm {
	m.t.Helper()
	members := ranks
	if ranks == nil {
		for r := range m.worlds {
			members = append(members, r)
		}
	}
	comms, errs := make([]*world.Comm, len(members)), make([]error, len(members))
	var all sync.WaitGroup
	for i, r := range members {
		all.Go(func() { comms[i], errs[i] = m.worlds[r].Comm(m.t.Context(), name, ranks) })
	}
	all.Wait()
	check(m.t, errors.Join(errs...))
	return comms
}

// talk has every rank send to every other, and checks what arrives.
func talk(t *testing.T, comms []*world.Comm) {
	t.Helper()
	const size = 1000
	var all sync.WaitGroup
	for r, c := range comms {
		all.Go(func() {
			var reqs []*p2p.Request
			got := make([][]byte, len(comms))
			for peer := range comms {
				if peer == r {
					continue
				}
				got[peer] = make([]byte, size)
				out := make([]byte, size)
				_ = p2ptest.Pattern{Seed: uint64(100*r + peer), N: size}.Fill(0, out)
				reqs = append(reqs, c.Irecv(peer, p2p.Bytes(got[peer])), c.Isend(peer, p2p.Bytes(out)))
			}
			for _, req := range reqs {
				if err := req.Wait(t.Context()); err != nil {
					t.Errorf("rank %d: %v", r, err)
				}
			}
			for peer := range comms {
				if peer != r {
					checkSoft(t, p2ptest.Pattern{Seed: uint64(100*peer + r), N: size}.Take(0, got[peer]))
				}
			}
		})
	}
	all.Wait()
}

// verdict waits for the end of a world and tells it.
func (m *team) verdict(r int, within time.Duration) *world.RankError {
	m.t.Helper()
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-m.worlds[r].Failed():
		var v *world.RankError
		if !errors.As(m.worlds[r].Err(), &v) {
			m.t.Fatalf("rank %d has failed of %v", r, m.worlds[r].Err())
		}
		if rank, reason := m.worlds[r].Verdict(); rank != v.Rank || reason != v.Reason {
			m.t.Errorf("rank %d blames rank %d for %q and %+v", r, rank, reason, v)
		}
		return v
	case <-late.C:
		m.t.Fatalf("rank %d has heard of no failure within %v", r, within)
		return nil
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func checkSoft(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// want fails unless err is kind and says all of texts.
func want(t testing.TB, err, kind error, texts ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got error %v, want %v", err, kind)
	}
	for _, s := range texts {
		if !strings.Contains(fmt.Sprint(err), s) {
			t.Errorf("error %q does not say %q", err, s)
		}
	}
}
