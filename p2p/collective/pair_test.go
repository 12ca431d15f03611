package collective_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/collective"
	"hcclps/p2p/shm"
	"hcclps/p2p/tcp"
)

// runner is a Comm with goroutines of its own.
type runner interface {
	p2p.Comm
	Run(ctx context.Context) error
}

// ends makes a connection over a real socket.
func ends(tb testing.TB, network, addr string) [2]net.Conn {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(tb.Context(), network, addr)
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	a, err := new(net.Dialer).DialContext(tb.Context(), network, l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	return [2]net.Conn{a, b}
}

// pairs are the real backends that make 2 ranks.
var pairs = map[string]func(tb testing.TB) [2]runner{
	"tcp": func(tb testing.TB) [2]runner {
		tb.Helper()
		conns := ends(tb, "tcp", "127.0.0.1:0")
		return [2]runner{tcp.Pair(conns[:1], 0), tcp.Pair(conns[1:], 1)}
	},
	"shm": func(tb testing.TB) [2]runner {
		tb.Helper()
		conns := ends(tb, "unix", filepath.Join(tb.TempDir(), "s"))
		var comms [2]runner
		var errs [2]error
		var wg sync.WaitGroup
		for r := range comms {
			wg.Go(func() { comms[r], errs[r] = shm.Negotiate(tb.Context(), conns[r], r, shm.Config{}) })
		}
		wg.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			tb.Fatal(err)
		}
		return comms
	},
}

// onPair makes 2 ranks over a real backend.
func onPair(tb testing.TB, name string, set func(rank int, c *collective.Config)) *world {
	tb.Helper()
	comms := pairs[name](tb)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, c := range comms {
		wg.Go(func() { _ = c.Run(ctx) })
	}
	tb.Cleanup(func() { // after the groups have closed their Comms
		cancel()
		wg.Wait()
	})
	return newWorld(tb, 2, func(r int, c *collective.Config) {
		c.Comm, c.Transport = comms[r], name
		if set != nil {
			set(r, c)
		}
	})
}

func TestRealPairs(t *testing.T) {
	for name := range pairs {
		for op, spec := range map[collective.Op]string{
			collective.AllReduce: "ring", collective.ReduceScatter: "mesh", collective.Reduce: "H-D_R",
			collective.AllGather: "ring", collective.Broadcast: "ring", collective.AlltoAllV: "pairwise", collective.Barrier: "tree",
			collective.Scatter: "mesh", collective.Gather: "mesh",
		} {
			t.Run(name+"/"+op.String(), func(t *testing.T) {
				w := onPair(t, name, func(_ int, c *collective.Config) {
					c.Algorithms, _ = collective.ParseAlgorithms(op.String() + "=" + spec)
				})
				for _, n := range []int{0, 1, 15, 17, 300_001} {
					switch op {
					case collective.AllReduce, collective.ReduceScatter, collective.Reduce:
						checkReduction(t, w, op, kind{p2p.Float32, collective.Sum}, n)
					default:
						checkMove(t, w, op, n)
					}
				}
			})
		}
	}
}

// What two processes see of a wrong call does not depend on how a backend buffers.
func TestWrongCallOverRealPairs(t *testing.T) {
	for name := range pairs {
		for n := range 20 {
			w := onPair(t, name, nil)
			errs := make([]error, 2)
			_ = w.each(func(r int, g *collective.Group) error {
				b := floats(1000 * (n + 1 + r))
				errs[r] = g.AllReduce(b, b, p2p.Float32, collective.Sum).Wait(t.Context())
				return nil
			})
			for r, err := range errs {
				if !errors.Is(err, collective.ErrMismatch) || !strings.Contains(err.Error(), fmt.Sprintf("rank %d called", 1-r)) {
					t.Errorf("%s: rank %d: %v", name, r, err)
				}
			}
		}
	}
}

func BenchmarkAllReduce(b *testing.B) {
	for _, name := range []string{"shm", "tcp"} {
		for _, n := range []int{8, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20} {
			for _, spec := range []string{"", "ring", "mesh", "H-D_R", "tree"} {
				b.Run(fmt.Sprintf("%s/%d/%s", name, n, spec), func(b *testing.B) {
					w := onPair(b, name, func(_ int, c *collective.Config) {
						if spec != "" {
							c.Algorithms, _ = collective.ParseAlgorithms("allreduce=" + spec)
						}
					})
					var bufs [2]p2p.Buffer
					for r := range bufs {
						bufs[r] = floats(n / 4)
					}
					b.SetBytes(int64(n))
					b.ResetTimer()
					err := w.each(func(r int, g *collective.Group) error {
						for range b.N {
							if err := g.AllReduce(bufs[r], bufs[r], p2p.Float32, collective.Sum).Wait(b.Context()); err != nil {
								return err
							}
						}
						return nil
					})
					if err != nil {
						b.Fatal(err)
					}
				})
			}
		}
	}
}
