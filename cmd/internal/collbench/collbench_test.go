package collbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/collective"
	"hcclps/p2p/inproc"
)

var measured = []collective.Op{collective.AllReduce, collective.ReduceScatter, collective.AllGather, collective.Broadcast, collective.AlltoAll}

func TestEveryOperationTypeAndReduction(t *testing.T) {
	for _, op := range measured {
		for d := p2p.Float32; d <= p2p.Uint8; d++ {
			for r := collective.Sum; r <= collective.Avg; r++ {
				spec := Spec{Op: op, DType: d, Reduction: r, Sizes: []int{1, 5000}, OutOfPlace: r == collective.Max, Time: time.Microsecond, Rounds: 1}
				if op != collective.AllReduce && op != collective.ReduceScatter {
					spec.Reduction = 0
				}
				got := 0
				err := Together(t.Context(), Config{Transport: Inproc, Ranks: 3, RankOrder: r == collective.Min}, func(ctx context.Context, g *collective.Group) error {
					return Measure(ctx, g, spec, func(r Result) error {
						if got++; r.Wrong != 0 || r.Micros <= 0 || r.Size < spec.Sizes[got-1]/24*24 {
							t.Errorf("%+v", r)
						}
						return nil
					})
				})
				if err != nil || got != 2 {
					t.Errorf("%v of %v by %v: %d results, %v", op, d, r, got, err)
				}
			}
		}
	}
}

// damaged changes one byte of the messages of a length.
type damaged struct {
	p2p.Comm
	length int
	done   *atomic.Int64
}

func (d damaged) Isend(peer int, b p2p.Buffer) *p2p.Request {
	if b.Len() == d.length && d.done.Add(1) == 1 {
		bad := append([]byte(nil), b.Host()...)
		bad[len(bad)/2] ^= 0x40
		b = p2p.Bytes(bad)
	}
	return d.Comm.Isend(peer, b)
}

func TestWrongDataAreCounted(t *testing.T) {
	for _, op := range measured {
		var done atomic.Int64
		comms := inproc.World(2)
		wrong := make(chan int, 1)
		var all sync.WaitGroup
		for r, comm := range comms {
			length := 4000
			if op == collective.Broadcast {
				length = 8000
			}
			cfg := collective.Config{Comm: damaged{comm, length, &done}, Algorithms: pinned(t, "ring/tree/pairwise")}
			all.Go(func() {
				err := do(t.Context(), cfg, func(ctx context.Context, g *collective.Group) error {
					return Measure(ctx, g, Spec{Op: op, DType: p2p.Int32, Reduction: collective.Max, Sizes: []int{8000}, Time: time.Microsecond, Rounds: 1}, func(r Result) error {
						wrong <- r.Wrong
						return nil
					})
				})
				if err != nil {
					t.Errorf("%v at rank %d: %v", op, r, err)
				}
			})
		}
		all.Wait()
		if n := <-wrong; n == 0 {
			t.Errorf("%v: nothing is wrong after a byte was changed", op)
		}
	}
}

// pinned takes each operation's own way: in turn, so that later ones fill what earlier ones leave.
func pinned(t *testing.T, spec string) collective.Algorithms {
	t.Helper()
	all := make(collective.Algorithms)
	for one := range strings.SplitSeq(spec, "/") {
		some, err := collective.ParseAlgorithms(one)
		if err != nil {
			t.Fatal(err)
		}
		for op, c := range some {
			if _, ok := all[op]; !ok {
				all[op] = c
			}
		}
	}
	return all
}

func TestContentsTellPlacesApart(t *testing.T) {
	for d := p2p.Float32; d <= p2p.Uint8; d++ {
		c := sent(1, 2, 3, collective.Sum)
		b := make([]byte, 1000*d.Size())
		c.fill(d, b, 7)
		if n := c.wrong(d, b, 7); n != 0 {
			t.Errorf("%v: %d elements are wrong", d, n)
		}
		for _, shift := range []int{1, 2, 64, 100, 128} {
			if n := c.wrong(d, b[shift*d.Size():], 7); n == 0 {
				t.Errorf("%v: a shift by %d goes unnoticed", d, shift)
			}
		}
		clear(b[500*d.Size() : 501*d.Size()])
		if n := c.wrong(d, b, 7); n != 1 {
			t.Errorf("%v: %d elements are wrong, want 1", d, n)
		}
	}
}

// A slow rank's time counts, and the factors are those of nccl-tests.
func TestFiguresOfAKnownWorld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := Together(t.Context(), Config{Transport: Inproc, Ranks: 4}, func(ctx context.Context, g *collective.Group) error {
			b := &bench{g: g, spec: Spec{Rounds: 1}, word: make([]byte, 8)}
			s, err := b.agree(ctx, float64(g.Rank()), collective.Max)
			if s != 3 {
				t.Errorf("rank %d: the slowest took %v, want 3", g.Rank(), s)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	for op, want := range map[collective.Op]float64{collective.AllReduce: 1.5, collective.Broadcast: 1, collective.AlltoAll: 0.75} {
		if got := bus(op, 4); got != want {
			t.Errorf("busbw of %v is algbw times %v, want %v", op, got, want)
		}
	}
}

func TestTheFirstErrorIsTold(t *testing.T) {
	want := errors.New("no more")
	err := Together(t.Context(), Config{Transport: Inproc, Ranks: 3}, func(ctx context.Context, g *collective.Group) error {
		if g.Rank() == 1 {
			return want
		}
		return g.Barrier().Wait(ctx)
	})
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

func TestTable(t *testing.T) {
	var human, machine strings.Builder
	r := Result{Op: "allreduce", Ranks: 2, Size: 1 << 20, Count: 1 << 18, Type: "float32", Redop: "sum", Algorithm: "ring", Micros: 81.2, Algbw: 13.24, Busbw: 13.24}
	for w, js := range map[*strings.Builder]bool{&human: false, &machine: true} {
		tab := NewTable(w, js)
		tab.Head("shm")
		if err := errors.Join(tab.Links(collective.Link{}, collective.Link{}), tab.Row(r)); err != nil {
			t.Fatal(err)
		}
	}
	if lines := strings.Split(human.String(), "\n"); len(lines) != 6 || len(lines[2]) != len(lines[4]) {
		t.Errorf("columns do not line up:\n%s", human.String())
	}
	var got Result
	if err := json.Unmarshal([]byte(machine.String()), &got); err != nil || got != r {
		t.Errorf("%+v printed as %s: %v", r, machine.String(), err)
	}
}

func ExampleTogether() {
	err := Together(context.Background(), Config{Transport: Inproc, Ranks: 2}, func(ctx context.Context, g *collective.Group) error {
		return Measure(ctx, g, Spec{Op: collective.AllReduce, DType: p2p.Float32, Reduction: collective.Sum, Sizes: []int{1024}, Time: time.Microsecond, Rounds: 1},
			func(r Result) error {
				_, err := fmt.Println(r.Count, r.Type, r.Redop, r.Wrong)
				return err
			})
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: 256 float32 sum 0
}
