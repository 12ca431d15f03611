package collective_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/collective"
	"hcclps/p2p/inproc"
)

// control is the Control of ranks in one process.
type control struct {
	mu        sync.Mutex
	positions [][]byte
	failed    chan struct{}
	rank      int
	reason    string
}

func newControl(n int) *control {
	return &control{positions: make([][]byte, n), failed: make(chan struct{})}
}

// end is the control of one rank.
type end struct {
	*control
	rank int
}

func (e end) Report(p []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.positions[e.rank] = p
}

func (e end) Positions(context.Context) ([][]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([][]byte(nil), e.positions...), nil
}

func (e end) Fail(reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reason == "" {
		e.control.rank, e.reason = e.rank, reason
		close(e.failed)
	}
}

func (e end) Failed() <-chan struct{} { return e.failed }

func (e end) Verdict() (int, string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.control.rank, e.reason
}

const watchdog = 10 * time.Second

// wrong is a call of one rank that does not fit what the others call.
type wrong struct {
	name  string
	right func(g *collective.Group) *collective.Work
	wrong func(g *collective.Group) *collective.Work // nil: it calls nothing
	names []string                                   // what the error of every rank says
}

func floats(n int) p2p.Buffer { return p2p.Bytes(make([]byte, 4*n)) }

func sumOf(n int) func(g *collective.Group) *collective.Work {
	return func(g *collective.Group) *collective.Work {
		b := floats(n)
		return g.AllReduce(b, b, p2p.Float32, collective.Sum)
	}
}

func alltoallv(sends ...int) func(g *collective.Group) *collective.Work {
	return func(g *collective.Group) *collective.Work {
		out, in := make([]int, g.Size()), make([]int, g.Size())
		total := 0
		for i := range out {
			out[i], in[i] = sends[i%len(sends)], sends[0]
			total += out[i]
		}
		out[g.Rank()] = in[g.Rank()]
		total = 0
		for _, n := range out {
			total += n
		}
		return g.AlltoAllV(floats(total), out, floats(in[0]*g.Size()), in, p2p.Float32)
	}
}

func wrongs() []wrong {
	return []wrong{
		{"nothing", sumOf(100), nil, []string{"rank 2 has called nothing", "#1 allreduce of 100 float32"}},
		{"count", sumOf(100), sumOf(101), []string{"rank 2 called #1 allreduce of 101", "#1 allreduce of 100"}},
		{"tiny count", sumOf(1), sumOf(2), []string{"rank 2 called #1 allreduce of 2 float32", "#1 allreduce of 1 float32"}},
		{"no elements", sumOf(0), sumOf(9), []string{"rank 2 called #1 allreduce of 9 float32", "#1 allreduce of 0 float32"}},
		{"reduction", sumOf(100), func(g *collective.Group) *collective.Work {
			return g.AllReduce(floats(100), floats(100), p2p.Float32, collective.Max)
		}, []string{"rank 2 called #1 allreduce of 100 float32 (max", "100 float32 (sum"}},
		{"type", sumOf(100), func(g *collective.Group) *collective.Work {
			return g.AllReduce(floats(100), floats(100), p2p.Int32, collective.Sum)
		}, []string{"rank 2 called #1 allreduce of 100 int32", "allreduce of 100 float32"}},
		{"type of another size", sumOf(100), func(g *collective.Group) *collective.Work {
			return g.AllReduce(floats(100), floats(100), p2p.Float64, collective.Sum)
		}, []string{"rank 2 called #1 allreduce of 50 float64", "allreduce of 100 float32"}},
		{"operation", sumOf(100), func(g *collective.Group) *collective.Work {
			return g.AllGather(floats(100), floats(500), p2p.Float32)
		}, []string{"rank 2 called #1 allgather", "called #1 allreduce"}},
		{"barrier", sumOf(100), (*collective.Group).Barrier, []string{"rank 2", "#1 barrier", "#1 allreduce"}},
		{"root of a broadcast", func(g *collective.Group) *collective.Work {
			return g.Broadcast(floats(100), p2p.Float32, 0)
		}, func(g *collective.Group) *collective.Work {
			return g.Broadcast(floats(100), p2p.Float32, 2)
		}, []string{"rank 2", "root 2", "root 0"}},
		{"root of a gather", func(g *collective.Group) *collective.Work {
			return g.Gather(floats(100), floats(500), p2p.Float32, 0)
		}, func(g *collective.Group) *collective.Work {
			return g.Gather(floats(100), floats(500), p2p.Float32, 2)
		}, []string{"rank 2", "root 2", "root 0"}},
		{"one call more", func(g *collective.Group) *collective.Work {
			g.Barrier()
			return sumOf(100)(g)
		}, sumOf(100), []string{"rank 2", "#1 allreduce of 100", "#1 barrier"}},
		{"a call forgotten at the end", func(g *collective.Group) *collective.Work {
			g.Barrier()
			return sumOf(100)(g)
		}, (*collective.Group).Barrier, []string{"rank 2 has called nothing after #1 barrier", "#2 allreduce"}},
		{"another order", func(g *collective.Group) *collective.Work {
			sumOf(1000)(g)
			return sumOf(2000)(g)
		}, func(g *collective.Group) *collective.Work {
			sumOf(2000)(g)
			return sumOf(1000)(g)
		}, []string{"rank 2 called #1 allreduce of 2000", "#1 allreduce of 1000"}},
		{"counts of alltoallv", alltoallv(30), alltoallv(30, 31), []string{"rank 2 called #1 alltoallv", "124 bytes", "120"}},
		{"small counts of alltoallv", alltoallv(0), alltoallv(0, 2), []string{"rank 2 called #1 alltoallv", "8 bytes", "expects 0"}},
	}
}

// runWrong lets rank 2 of 5 call something else and returns the error of each rank.
func runWrong(t *testing.T, c wrong, set func(rank int, cfg *collective.Config)) []error {
	t.Helper()
	w := newWorld(t, 5, func(r int, cfg *collective.Config) {
		cfg.Watchdog = watchdog
		if set != nil {
			set(r, cfg)
		}
	})
	began := time.Now()
	errs := make([]error, len(w.groups))
	_ = w.each(func(r int, g *collective.Group) error {
		call := c.right
		if r == 2 {
			call = c.wrong
		}
		if call != nil {
			errs[r] = call(g).Wait(t.Context())
		}
		if errs[r] == nil {
			errs[r] = <-w.runs[r] // it may have ended well at this rank, whose next call would fail
		}
		return nil
	})
	if took := time.Since(began); took > 2*watchdog {
		t.Errorf("the ranks took %v to fail", took)
	}
	return errs
}

func TestWrongCallsFailTheSameOnEveryRank(t *testing.T) {
	for _, c := range wrongs() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := newControl(5)
				errs := runWrong(t, c, func(r int, cfg *collective.Config) { cfg.Control = end{shared, r} })
				for r, err := range errs {
					if err == nil {
						t.Fatalf("rank %d noticed nothing", r)
					}
					if !errors.Is(err, collective.ErrMismatch) && !errors.Is(err, collective.ErrStalled) {
						t.Errorf("rank %d: %v, want a mismatch or a stall", r, err)
					}
					for _, name := range c.names {
						if !strings.Contains(err.Error(), name) {
							t.Errorf("rank %d: %v, want it to say %q", r, err, name)
						}
					}
				}
				if t.Failed() {
					t.Log(shared.reason)
				}
			})
		})
	}
}

// Without a Control all ranks end too, and who meets the wrong rank says what differs.
func TestWrongCallsEndWithoutControl(t *testing.T) {
	for _, c := range wrongs() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if c.wrong == nil {
					c.names = []string{"rank 2 was never heard"}
				}
				if c.name == "root of a gather" { // both roots wait, and nobody sends to the wrong one
					c.names = []string{"rank 2 has waited", "root 2"}
				}
				if c.name == "a call forgotten at the end" {
					c.names = []string{"rank 2 was last heard in #1 barrier", "#2 allreduce"}
				}
				// A rank that waits for nobody learns nothing: it is told to stop.
				w := make(chan []error, 1)
				ctx, cancel := context.WithTimeout(t.Context(), 10*watchdog)
				defer cancel()
				go func() { w <- runWrongAlone(ctx, t, c) }()
				errs := <-w
				var told int
				for _, err := range errs {
					said := err != nil
					for _, name := range c.names {
						said = said && strings.Contains(err.Error(), name)
					}
					if said {
						told++
					}
				}
				if told == 0 {
					t.Errorf("nobody says %q: %v", c.names, errors.Join(errs...))
				}
			})
		})
	}
}

// runWrongAlone is runWrong without a Control, where ranks with nothing to do are not waited for.
func runWrongAlone(ctx context.Context, t *testing.T, c wrong) []error {
	t.Helper()
	w := newWorld(t, 5, func(_ int, cfg *collective.Config) { cfg.Watchdog = watchdog })
	errs := make([]error, len(w.groups))
	_ = w.each(func(r int, g *collective.Group) error {
		call := c.right
		if r == 2 {
			call = c.wrong
		}
		if call != nil {
			errs[r] = call(g).Wait(ctx)
		}
		if ctx.Err() != nil {
			t.Errorf("rank %d hangs", r)
		}
		return nil
	})
	return errs
}

func TestAlgorithmsDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newControl(5)
		for _, pair := range [][2]string{{"ring", "mesh"}, {"ring", "H-D_R"}} {
			c := wrong{right: sumOf(1000), wrong: sumOf(1000)}
			errs := runWrong(t, c, func(r int, cfg *collective.Config) {
				cfg.Control = end{shared, r}
				spec := pair[0]
				if r == 2 {
					spec = pair[1]
				}
				cfg.Algorithms, _ = collective.ParseAlgorithms("allreduce=" + spec)
			})
			for r, err := range errs {
				if !errors.Is(err, collective.ErrMismatch) && !errors.Is(err, collective.ErrStalled) {
					t.Errorf("rank %d: %v", r, err)
				}
			}
			shared = newControl(5)
		}
	})
}

func TestEpochsAndPlansDiffer(t *testing.T) {
	for what, set := range map[string]func(*collective.Config){
		"epochs 0 and 7": func(c *collective.Config) { c.Epoch = 7 },
		"plans":          func(c *collective.Config) { c.Piece = 128 },
		"groups":         func(c *collective.Config) { c.Ranks = []int{0, 1, 2, 3, 9} },
	} {
		synctest.Test(t, func(t *testing.T) {
			shared := newControl(10)
			errs := runWrong(t, wrong{right: sumOf(1000), wrong: sumOf(1000)}, func(r int, cfg *collective.Config) {
				cfg.Control = end{shared, r}
				if r == 2 {
					set(cfg)
				}
			})
			first, _, _ := strings.Cut(what, " ")
			for r, err := range errs {
				if !errors.Is(err, collective.ErrMismatch) || !strings.Contains(fmt.Sprint(err), first) {
					t.Errorf("%s: rank %d: %v", what, r, err)
				}
			}
		})
	}
}

// A rank that is told of a peer's end while a call that differs lies before it says what differs.
func TestMismatchIsPreferredToTheEndItCaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		comms := inproc.World(3)
		g, err := collective.New(collective.Config{Comm: comms[0], Algorithms: collective.Algorithms{collective.AllReduce: {Level1: collective.Mesh}}})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = g.Run(t.Context()) }()
		work := sumOf(30_000)(g)
		for peer := 1; peer <= 2; peer++ { // each answers with the frame it gets, but the second has one element more
			frame := make([]byte, 128)
			if err := p2p.Recv(t.Context(), comms[peer], 0, p2p.Bytes(frame)); err != nil {
				t.Fatal(err)
			}
			if peer == 2 {
				frame[32]++
				binary.LittleEndian.PutUint32(frame[60:], crc32.Checksum(frame[:60], crc32.MakeTable(crc32.Castagnoli)))
			}
			if err := p2p.Send(t.Context(), comms[peer], 0, p2p.Bytes(frame)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // rank 0 waits for the bytes of rank 1
		}
		comms[1].Close()
		if err := work.Wait(t.Context()); !errors.Is(err, collective.ErrMismatch) || !strings.Contains(err.Error(), "rank 2 called #1 allreduce of 30001") {
			t.Error(err)
		}
	})
}
