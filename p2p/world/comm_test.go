package world_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/backend"
	"hcclps/p2p/inproc"
	"hcclps/p2p/p2ptest"
	"hcclps/p2p/world"
)

// A Comm of a World keeps the promises of p2p.Comm: over connections in memory, and over what the backend makes of real sockets.
func TestConformance(t *testing.T) {
	t.Run("inproc", func(t *testing.T) {
		p2ptest.TestComm(t, func(t *testing.T, n int) []p2p.Comm {
			t.Helper()
			return plain(start(t, n, func(c *world.Config) { c.Heartbeat = 10 * time.Millisecond }).comms("all", nil))
		})
	})
	for _, transport := range []backend.Transport{backend.TCP, backend.SHM} {
		t.Run(string(transport), func(t *testing.T) {
			p2ptest.TestComm(t, func(t *testing.T, n int) []p2p.Comm {
				t.Helper()
				return plain(startSockets(t, n, transport).comms("all", nil))
			})
		})
	}
}

func plain(comms []*world.Comm) []p2p.Comm {
	var all []p2p.Comm
	for _, c := range comms {
		all = append(all, c)
	}
	return all
}

// startSockets makes a world over real sockets of this host, with pairs of a backend over two connections each.
func startSockets(t *testing.T, n int, transport backend.Transport) *team {
	t.Helper()
	network, err := backend.OpenSockets(backend.Sockets{})
	check(t, err)
	bulk, err := backend.NewBulk(backend.Config{Transport: transport})
	check(t, err)
	at := "unix:" + filepath.Join(t.TempDir(), "master")
	return start(t, n, func(c *world.Config) {
		c.Network, c.Pair, c.Stripes = network, bulk.Pair, 2
		c.Master, c.Listen, c.Heartbeat, c.Suspect = at, "", 10*time.Millisecond, patience
		if c.Rank > 0 {
			c.Listen = "127.0.0.1:0"
		}
	})
}

// Sub-groups, in any order of ranks, work beside each other and beside the whole.
func TestSubgroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, 5, nil)
		all := m.comms("all", nil)
		odd, even, turned := m.comms("part", []int{1, 3}), m.comms("other", []int{0, 2, 4}), m.comms("", []int{3, 0, 4})
		again := m.comms("", []int{3, 0, 4})
		single := m.comms("one", []int{2})
		if c := turned[0]; c.Rank() != 0 || c.Size() != 3 || c.Ranks()[2] != 4 || m.worlds[3].Rank() != 3 {
			t.Errorf("rank 3 is %d of %v", c.Rank(), c.Ranks())
		}
		var group sync.WaitGroup
		for _, comms := range [][]*world.Comm{all, odd, even, turned, again, single} {
			group.Go(func() { talk(t, comms) })
		}
		group.Wait()
		for _, c := range odd {
			check(t, c.Close())
		}
		talk(t, all)
		want(t, single[0].Isend(0, p2p.Bytes(nil)).Wait(t.Context()), p2p.ErrRank)
	})
}

// memory is a pair that needs no goroutine.
type memory struct{ p2p.Comm }

func (memory) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// A transfer makes no more garbage than on the pair.
func TestAllocations(t *testing.T) {
	ends := inproc.World(2)
	m := start(t, 2, func(c *world.Config) {
		c.Pair = func(_ context.Context, conns []net.Conn, rank int) (p2p.RunningComm, error) {
			return memory{ends[rank]}, conns[0].Close()
		}
	})
	comms := plain(m.comms("all", nil))
	out, in := p2p.Bytes(make([]byte, 8)), p2p.Bytes(make([]byte, 8))
	count := func(c []p2p.Comm) float64 {
		return testing.AllocsPerRun(100, func() {
			recv := c[1].Irecv(0, in)
			checkSoft(t, p2p.Send(t.Context(), c[0], 1, out))
			checkSoft(t, recv.Wait(t.Context()))
		})
	}
	if pair, comm := count(ends), count(comms); comm > pair {
		t.Errorf("%v allocations a message, %v on the pair itself", comm, pair)
	}
}

// The order in which ranks open a comm, and when, does not matter.
func TestCommWaitsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 4
		m := start(t, n, func(c *world.Config) { c.Stripes = 3 })
		for first := range n {
			name := fmt.Sprint("from ", first)
			comms, errs := make([]*world.Comm, n), make([]error, n)
			var all sync.WaitGroup
			for i := range n {
				r := (first + i) % n
				all.Go(func() {
					wait(t.Context(), time.Duration(i)*10*time.Second)
					comms[r], errs[r] = m.worlds[r].Comm(t.Context(), name, nil)
				})
			}
			all.Wait()
			check(t, errors.Join(errs...))
			talk(t, comms)
		}
	})
}

func TestCommNamesTheMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, 5, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var all sync.WaitGroup
		for _, r := range []int{0, 2, 3} {
			all.Go(func() {
				_, err := m.worlds[r].Comm(ctx, "all", nil)
				want(t, err, context.DeadlineExceeded, `comm "all"`, fmt.Sprintf("at rank %d", r), "ranks 1,4 did not open it")
			})
		}
		all.Wait()
		// A rank that comes later is told, by those that it dials or that dial it.
		ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := m.worlds[1].Comm(ctx, "all", nil)
		want(t, err, p2p.ErrRefused, `could not open comm "all"`, "ranks 1,4 did not open it")
		_, err = m.worlds[1].Comm(ctx, "all", nil)
		want(t, err, err, "used before")
		talk(t, m.comms("other", nil))
	})
}

func TestCommMisuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, 3, nil)
		for says, ranks := range map[string][]int{
			"[0 3]": {0, 3}, "[0 0]": {0, 0}, "[-1 0]": {-1, 0}, "not one of them": {1, 2},
		} {
			_, err := m.worlds[0].Comm(t.Context(), says, ranks)
			want(t, err, p2p.ErrRank, says)
		}
		_, err := m.worlds[0].Comm(t.Context(), string(make([]byte, 256)), nil)
		want(t, err, err, "at most 255 bytes")
		// Two ranks that mean different comms by one name.
		var all sync.WaitGroup
		for r, ranks := range [][]int{{0, 1}, {0, 1, 2}} {
			all.Go(func() {
				_, err := m.worlds[r].Comm(t.Context(), "x", ranks)
				want(t, err, p2p.ErrRefused, "of ranks 0-1 at rank 0", "of ranks 0-2 at rank 1")
			})
		}
		all.Wait()
	})
}

// A rank that dies while a comm is opened, or before, ends the opening at all others with its name.
func TestDeathWhileOpening(t *testing.T) {
	for victim := range 3 {
		synctest.Test(t, func(t *testing.T) {
			m := start(t, 3, nil)
			host := fmt.Sprintf("h%d", victim)
			var all sync.WaitGroup
			for r, w := range m.worlds {
				if r == victim {
					continue
				}
				all.Go(func() {
					began := time.Now()
					_, err := w.Comm(t.Context(), "all", nil)
					want(t, err, p2p.ErrPeer, fmt.Sprintf("rank %d (at %s", victim, host))
					if took := time.Since(began); took > 8*time.Second {
						t.Errorf("rank %d heard after %v", r, took)
					}
				})
			}
			wait(t.Context(), 5*time.Second)
			m.silence(host)
			all.Wait()
			_, err := m.worlds[(victim+1)%3].Comm(t.Context(), "late", nil)
			want(t, err, p2p.ErrPeer, fmt.Sprintf("rank %d (at %s", victim, host))
		})
	}
}

// When a rank dies its neighbours end first; those behind them are not misled.
func TestRootCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 6
		m := start(t, n, nil)
		comms := m.comms("ring", nil)
		var all sync.WaitGroup
		for r, c := range comms {
			if r == 3 {
				continue
			}
			all.Go(func() { // as in a ring: from the left, and who fails closes
				err := p2p.Recv(t.Context(), c, (r+n-1)%n, p2p.Bytes(make([]byte, 8)))
				want(t, err, p2p.ErrPeer, "rank 3 (at h3, process 103) failed: connection closed")
				check(t, c.Close())
			})
		}
		wait(t.Context(), time.Second)
		m.silence("h3")
		wait(t.Context(), time.Millisecond)
		m.net.Kill("h3")
		all.Wait()
	})
}

// A peer that only closes its comm is named too, a heartbeat later at most.
func TestPeerClosesComm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, 3, nil)
		comms := m.comms("all", nil)
		began := time.Now()
		recv, other := comms[0].Irecv(2, p2p.Bytes(make([]byte, 8))), comms[0].Irecv(1, p2p.Bytes(make([]byte, 8)))
		check(t, comms[2].Close())
		want(t, recv.Wait(t.Context()), p2p.ErrPeer, `comm "all": reach rank 2 (at h2`)
		if took := time.Since(began); took != 500*time.Millisecond {
			t.Errorf("told after %v", took)
		}
		want(t, other.Wait(t.Context()), p2p.ErrPeer, "reach rank 2 (at h2")
		if err := m.worlds[0].Err(); err != nil {
			t.Error(err)
		}
		talk(t, m.comms("again", nil))
	})
}

// A pair that cannot be made ends the opening on both sides.
func TestPairFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := errors.New("no memory")
		m := start(t, 3, func(c *world.Config) {
			if c.Rank == 1 {
				c.Pair = func(_ context.Context, conns []net.Conn, rank int) (p2p.RunningComm, error) {
					for _, conn := range conns {
						_ = conn.Close()
					}
					if rank == 0 {
						return nil, fault
					}
					return nil, context.DeadlineExceeded
				}
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			_, err := m.worlds[1].Comm(ctx, "all", []int{1, 2})
			want(t, err, fault, "rank 2 (at h2", "make a pair")
		})
		all.Go(func() { // here the pair is made, and dies
			c, err := m.worlds[2].Comm(ctx, "all", []int{1, 2})
			check(t, err)
			want(t, p2p.Send(ctx, c, 0, p2p.Bytes(nil)), p2p.ErrPeer, "reach rank 1 (at h1")
		})
		all.Wait()
	})
}

// What strangers say at the door of a rank harms nobody.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, 2, func(c *world.Config) {
			if c.Rank == 1 {
				c.Listen = "h1:1"
			}
		})
		synctest.Wait()
		other := p2ptest.NewNet(2)
		defer func() { _ = other.Close() }()
		host := m.net.Host("stranger")
		for name, said := range map[string]string{"": "", "http": "GET / HTTP/1.1\r\n\r\n", "cut": "\x40\x00\x00\x00hcwd"} {
			conn, err := host.Dial(t.Context(), "h1:1")
			check(t, err)
			_, err = conn.Write([]byte(said))
			check(t, err)
			wait(t.Context(), 10*time.Second)
			b := make([]byte, 1000)
			n, err := conn.Read(b)
			if name == "http" && n == 0 {
				t.Errorf("the stranger was told nothing: %v", err)
			}
			if err == nil {
				_, err = conn.Read(b)
			}
			if err == nil || os.IsTimeout(err) {
				t.Errorf("%q: the connection is kept", name)
			}
			check(t, conn.Close())
		}
		// A rank that takes it for the rendezvous.
		cfg := config(m.net, 1, 2)
		cfg.Master, cfg.Info = "h1:1", "lost"
		_, err := world.Open(t.Context(), cfg)
		want(t, err, p2p.ErrRefused, "is in its world already", "lost", "is this the address of the rendezvous?")
		talk(t, m.comms("all", nil))
	})
}
