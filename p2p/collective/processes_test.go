package collective_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/collective"
	"hcclps/p2p/inproc"
	"hcclps/p2p/tcp"
	processes "hcclps/p2p/world"
)

// A world of processes is the Control of its groups.
var _ interface {
	collective.Control
	collective.Pulse
} = (*processes.World)(nil)

// member is one rank of a world of processes: they are in this one, and their pairs are tcp's.
type member struct {
	*processes.World
	stop context.CancelFunc
}

// together makes n ranks, two on a host, and runs them until leave is called.
func together(t *testing.T, n int) (members []member, leave func()) {
	t.Helper()
	network := inproc.NewNetwork()
	members = make([]member, n)
	errs := make([]error, n)
	var opened, runs sync.WaitGroup
	for r := range n {
		host := fmt.Sprintf("h%d", r)
		cfg := processes.Config{
			Rank: r, Size: n, Master: "h0:1", Network: network.Host(host), Host: fmt.Sprintf("host%d", r/2),
			Pair: func(_ context.Context, conns []net.Conn, rank int) (p2p.RunningComm, error) {
				return tcp.Pair(conns, rank), nil
			},
		}
		if r > 0 {
			cfg.Listen = host + ":0"
		}
		opened.Go(func() { members[r].World, errs[r] = processes.Open(t.Context(), cfg) })
	}
	opened.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for r := range members {
		ctx, stop := context.WithCancel(context.Background())
		members[r].stop = stop
		runs.Go(func() { _ = members[r].Run(ctx) })
	}
	return members, func() {
		for _, m := range members {
			m.stop()
		}
		runs.Wait()
	}
}

// group makes the member's group, whose sub-groups are Comms of the same world.
func (m member) group(ctx context.Context) (*collective.Group, error) {
	comm, err := m.Comm(ctx, "all", nil)
	if err != nil {
		return nil, err
	}
	return collective.New(collective.Config{
		Comm: comm, Control: m.World, Hosts: m.Hosts(), Epoch: uint64(m.Epoch()), Transport: "tcp", Watchdog: watchdog,
		Scope: func(name string) collective.Control { return m.Scope(name) },
		Open:  func(ctx context.Context, ranks []int) (p2p.Comm, error) { return m.Comm(ctx, fmt.Sprint(ranks), ranks) },
	})
}

// eachMember runs f for every rank with its group, which runs.
func eachMember(t *testing.T, members []member, f func(rank int, g *collective.Group, ended <-chan error)) {
	t.Helper()
	groups, errs := make([]*collective.Group, len(members)), make([]error, len(members))
	var all sync.WaitGroup
	for r, m := range members {
		all.Go(func() { groups[r], errs[r] = m.group(t.Context()) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for r, g := range groups {
		all.Go(func() {
			ended := make(chan error, 1)
			all.Go(func() { ended <- g.Run(t.Context()) })
			f(r, g, ended)
			if err := g.Close(); err != nil {
				t.Errorf("rank %d: %v", r, err)
			}
		})
	}
	all.Wait()
}

func TestOverAWorldOfProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		members, leave := together(t, 5)
		defer leave()
		eachMember(t, members, func(r int, g *collective.Group, _ <-chan error) {
			b := []byte{1}
			if err := g.AllReduce(p2p.Bytes(b), p2p.Bytes(b), p2p.Uint8, collective.Sum).Wait(t.Context()); err != nil || b[0] != 5 {
				t.Errorf("rank %d: %v, %v", r, b, err)
			}
			if r%2 == 0 {
				sub, err := g.Sub(t.Context(), []int{4, 0, 2})
				if err != nil {
					t.Errorf("rank %d: %v", r, err)
					return
				}
				end := make(chan error, 1)
				go func() { end <- sub.Run(t.Context()) }()
				got := make([]byte, 3)
				if err := sub.AllGather(p2p.Bytes([]byte{byte(r)}), p2p.Bytes(got), p2p.Uint8).Wait(t.Context()); err != nil || string(got) != "\x04\x00\x02" {
					t.Errorf("rank %d: %v, %v", r, got, err)
				}
				// All have it when all are at the barrier; only then may one leave.
				if err := sub.Barrier().Wait(t.Context()); err != nil {
					t.Errorf("rank %d: %v", r, err)
				}
				_ = sub.Close()
				if err := <-end; err != nil {
					t.Errorf("rank %d: the sub-group ends with %v", r, err)
				}
			}
			if err := g.Barrier().Wait(t.Context()); err != nil {
				t.Errorf("rank %d: %v", r, err)
			}
		})
	})
}

// All ranks of a real world say the same of a wrong call and of a missing one.
func TestTheWorldHearsWhatWentWrong(t *testing.T) {
	for what, c := range map[string]struct {
		call func(g *collective.Group) *collective.Work // of rank 2; nil: none
		want []string
	}{
		"another count": {sumOf(101), []string{"rank 2 called #1 allreduce of 101", "called #1 allreduce of 100"}},
		"no call":       {nil, []string{"rank 2 has called nothing", "#1 allreduce of 100"}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				members, leave := together(t, 5)
				defer leave()
				eachMember(t, members, func(r int, g *collective.Group, ended <-chan error) {
					call := sumOf(100)
					if r == 2 {
						call = c.call
					}
					if call != nil {
						call(g)
					}
					err := <-ended
					for _, want := range c.want {
						if err == nil || !strings.Contains(err.Error(), want) {
							t.Errorf("rank %d: %v, want it to say %q", r, err, want)
						}
					}
				})
			})
		})
	}
}

// A group over a world of processes tells what each member does, and who has gone.
func TestHealthOfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		members, leave := together(t, 3)
		defer leave()
		eachMember(t, members, func(r int, g *collective.Group, _ <-chan error) {
			if err := sumOf(100)(g).Wait(t.Context()); err != nil {
				t.Error(err)
			}
			if r == 2 {
				<-time.After(5 * time.Second)
				sumOf(7)(g)
				members[2].stop()
				<-time.After(time.Minute)
				return
			}
			work := sumOf(7)(g)
			<-time.After(3 * time.Second) // two are in the second call
			all, err := g.Health(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i, h := range all {
				if h.Rank != i || h.Silent < 0 || h.Silent > time.Second || h.Reason != "" || h.Inside != (i < 2) || h.Last.Seq != uint64(2-i/2) {
					t.Errorf("rank %d hears of rank %d that %+v", r, i, h)
				}
			}
			_ = work.Wait(t.Context()) // it may have ended before rank 2 left
			<-time.After(time.Second)
			if all, err = g.Health(t.Context()); err != nil || all[2].Reason == "" || all[2].Silent >= 0 {
				t.Errorf("rank %d hears of rank 2, which has left, that %+v, %v", r, all, err)
			}
		})
	})
}

// A wrong call in a sub-group is an error of its members, by name, and of nobody else.
func TestASubGroupFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		members, leave := together(t, 6)
		defer leave()
		eachMember(t, members, func(r int, g *collective.Group, _ <-chan error) {
			if r%2 == 1 {
				sub, err := g.Sub(t.Context(), []int{1, 3, 5})
				if err != nil {
					t.Error(err)
					return
				}
				ended := make(chan error, 1)
				go func() { ended <- sub.Run(t.Context()) }()
				sumOf(100 + r/5)(sub)
				if err := <-ended; !errors.Is(err, collective.ErrMismatch) || !strings.Contains(err.Error(), "allreduce of 101") || !strings.Contains(err.Error(), "allreduce of 100") {
					t.Errorf("rank %d: %v", r, err)
				}
			}
			if err := sumOf(50)(g).Wait(t.Context()); err != nil {
				t.Errorf("rank %d: %v", r, err)
			}
			if err := g.Barrier().Wait(t.Context()); err != nil {
				t.Errorf("rank %d: %v", r, err)
			}
		})
	})
}

// A group says where its members are, what carries their bytes and what the links were measured to be, and so does one of some of them.
func TestTopology(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		members, leave := together(t, 4)
		defer leave()
		measured := linked(4, func(a, b int) (float64, time.Duration) { return float64(10*a + b), time.Duration(a + b) })
		var all sync.WaitGroup
		for r, m := range members {
			all.Go(func() {
				comm, err := m.Comm(t.Context(), "all", nil)
				if err != nil {
					t.Error(err)
					return
				}
				g, err := collective.New(collective.Config{
					Comm: comm, Hosts: m.Hosts(), Measured: measured,
					Open: func(ctx context.Context, ranks []int) (p2p.Comm, error) { return m.Comm(ctx, "", ranks) },
				})
				if err != nil {
					t.Error(err)
					return
				}
				top := g.Topology()
				want := []string{"tcp", "tcp", "tcp", "tcp"}
				want[r] = ""
				if fmt.Sprint(top.Ranks, top.Hosts, top.Transport) != fmt.Sprint([]int{0, 1, 2, 3}, []int{0, 0, 1, 1}, want) || top.Measured != measured {
					t.Errorf("rank %d: %+v", r, top)
				}
				if r > 0 {
					sub, err := g.Sub(t.Context(), []int{3, 1, 2})
					if err != nil {
						t.Error(err)
						return
					}
					top = sub.Topology()
					if fmt.Sprint(top.Ranks, top.Hosts) != "[3 1 2] [1 0 1]" || top.Measured.Alone[0][1] != 13 || top.Measured.Latency[1][2] != 3 {
						t.Errorf("rank %d: %+v", r, top)
					}
				}
			})
		}
		all.Wait()
	})
}
