package collective_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/collective"
	"hcclps/p2p/inproc"
)

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var ranks sync.WaitGroup
	for r, comm := range inproc.World(4) {
		g, err := collective.New(collective.Config{Comm: comm})
		if err != nil {
			fmt.Println(err)
			return
		}
		ranks.Go(func() { _ = g.Run(ctx) })
		ranks.Go(func() {
			b := []byte{byte(r), 10}
			err := g.AllReduce(p2p.Bytes(b), p2p.Bytes(b), p2p.Uint8, collective.Sum).Wait(ctx)
			if r == 0 {
				fmt.Println(b[0], b[1], err)
				stop()
			}
		})
	}
	ranks.Wait()
	// Output: 6 40 <nil>
}

// noComm is a Comm of one rank that must not be used.
type noComm struct{ t *testing.T }

func (noComm) Rank() int    { return 0 }
func (noComm) Size() int    { return 1 }
func (noComm) Close() error { return nil }

func (c noComm) Isend(int, p2p.Buffer) *p2p.Request {
	c.t.Error("a rank alone sends")
	return p2p.Failed(p2p.ErrRank)
}

func (c noComm) Irecv(int, p2p.Buffer) *p2p.Request {
	c.t.Error("a rank alone receives")
	return p2p.Failed(p2p.ErrRank)
}

func TestAlone(t *testing.T) {
	for _, hosts := range [][]int{nil, {5}} {
		for _, order := range []bool{false, true} {
			g, err := collective.New(collective.Config{Comm: noComm{t}, Hosts: hosts, RankOrder: order})
			if err != nil {
				t.Fatal(err)
			}
			end := make(chan error, 1)
			go func() { end <- g.Run(t.Context()) }()
			in := tensor(p2p.Float32, 1000, 1)
			b, out := p2p.Bytes(bytes.Clone(in)), p2p.Bytes(make([]byte, len(in)))
			for _, w := range []*collective.Work{
				g.AllReduce(b, b, p2p.Float32, collective.Avg), g.AllReduce(b, out, p2p.Float32, collective.Sum),
				g.ReduceScatter(b, b, p2p.Float32, collective.Max), g.AllGather(b, b, p2p.Float32), g.Broadcast(b, p2p.Float32, 0),
				g.Reduce(b, b, p2p.Float32, collective.Sum, 0), g.Scatter(b, b, p2p.Float32, 0), g.Gather(b, b, p2p.Float32, 0),
				g.AlltoAll(b, b, p2p.Float32), g.AlltoAllV(b, []int{1000}, b, []int{1000}, p2p.Float32), g.Barrier(),
			} {
				if err := w.Wait(t.Context()); err != nil {
					t.Errorf("%v: %v", w.Call(), err)
				}
			}
			if !bytes.Equal(b.Host(), in) || !bytes.Equal(out.Host(), in) {
				t.Error("a rank alone changes its numbers")
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
			if err := <-end; err != nil {
				t.Errorf("run after close: %v", err)
			}
		}
	}
}

// A rank that dies in the middle of an operation ends it on all others, at once.
func TestDeathOfARank(t *testing.T) {
	for spec, sends := range map[string]int{"ring": 40, "mesh": 5, "H-D_R": 20, "allreduce=tree": 2} {
		synctest.Test(t, func(t *testing.T) {
			algorithms, err := collective.ParseAlgorithms(spec)
			if err != nil {
				t.Fatal(err)
			}
			const victim = 3
			shared := newControl(6)
			w := newWorld(t, 6, func(r int, c *collective.Config) {
				c.Algorithms, c.Piece, c.Control = algorithms, 64, end{shared, r}
				if r == victim {
					c.Comm = &mortal{Comm: c.Comm, left: sends}
				}
			})
			began := time.Now()
			_ = w.each(func(r int, g *collective.Group) error {
				b := floats(1000)
				err := g.AllReduce(b, b, p2p.Float32, collective.Sum).Wait(t.Context())
				if err == nil {
					err = <-w.runs[r] // a tree lets some leave early
				}
				if !errors.Is(err, p2p.ErrPeer) && !errors.Is(err, p2p.ErrClosed) || !strings.Contains(err.Error(), "rank 3") {
					t.Errorf("%s: rank %d: %v", spec, r, err)
				}
				again := g.Barrier().Wait(t.Context())
				if !errors.Is(again, p2p.ErrClosed) || !strings.Contains(again.Error(), "rank 3") {
					t.Errorf("%s: rank %d after it: %v", spec, r, again)
				}
				recent := g.Recent()
				if len(recent) == 0 {
					return nil // it heard before its call was begun
				}
				if last := recent[len(recent)-1]; last.Call.Op == collective.AllReduce && last.Err == nil && last.Ended.IsZero() {
					t.Errorf("%s: rank %d records %+v", spec, r, last)
				}
				return nil
			})
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("%s: it took %v", spec, took)
			}
		})
	}
}

// mortal is a Comm that closes itself after some sends.
type mortal struct {
	p2p.Comm
	left int
}

func (m *mortal) Isend(peer int, b p2p.Buffer) *p2p.Request {
	if m.left--; m.left == 0 {
		_ = m.Close()
	}
	return m.Comm.Isend(peer, b)
}

func TestSubGroups(t *testing.T) {
	// Rows and columns of a square of ranks; each sub-group has its own Comm.
	const side = 3
	worlds := make(map[string][]p2p.Comm)
	var mu sync.Mutex
	open := func(rank int) func(context.Context, []int) (p2p.Comm, error) {
		return func(_ context.Context, ranks []int) (p2p.Comm, error) {
			mu.Lock()
			defer mu.Unlock()
			key := fmt.Sprint(ranks)
			if worlds[key] == nil {
				worlds[key] = inproc.World(len(ranks))
			}
			for i, r := range ranks {
				if r == rank {
					return worlds[key][i], nil
				}
			}
			return nil, errors.New("not a member")
		}
	}
	w := newWorld(t, side*side, func(r int, c *collective.Config) { c.Open = open(r) })
	ctx, cancel := context.WithCancel(t.Context())
	var runs sync.WaitGroup
	err := w.each(func(r int, g *collective.Group) error {
		var row, column []int
		for i := range side {
			row, column = append(row, r/side*side+i), append(column, i*side+r%side)
		}
		var works []*collective.Work
		var got [][]byte
		for _, members := range [][]int{row, column} {
			sub, err := g.Sub(ctx, members)
			if err != nil {
				return err
			}
			runs.Go(func() { _ = sub.Run(ctx) })
			for range 20 {
				b := []byte{byte(r)}
				got = append(got, b)
				works = append(works, sub.AllReduce(p2p.Bytes(b), p2p.Bytes(b), p2p.Uint8, collective.Sum))
			}
		}
		b := []byte{byte(r)}
		got = append(got, b)
		works = append(works, g.AllReduce(p2p.Bytes(b), p2p.Bytes(b), p2p.Uint8, collective.Max))
		for _, work := range slices.Backward(works) { // in any order
			if err := work.Wait(ctx); err != nil {
				return err
			}
		}
		for i, b := range got {
			want := side*(r/side*side) + 3
			switch {
			case i == 40:
				want = side*side - 1
			case i >= 20:
				want = 3*(r%side) + 9
			}
			if int(b[0]) != want {
				return fmt.Errorf("operation %d gives %d, want %d", i, b[0], want)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	cancel()
	runs.Wait()
	for _, ranks := range [][]int{{1, 2}, {0, 9}, {0, 0}, {-1, 0}, {}} {
		if _, err := w.groups[0].Sub(t.Context(), ranks); !errors.Is(err, p2p.ErrRank) {
			t.Errorf("sub-group %v: %v", ranks, err)
		}
	}
}

func TestArgumentsAreRefused(t *testing.T) {
	w := newWorld(t, 2, nil)
	g := w.groups[0]
	b := floats(4)
	for what, c := range map[string]struct {
		work *collective.Work
		want error
	}{
		"lengths":        {g.AllReduce(b, floats(5), p2p.Float32, collective.Sum), p2p.ErrLength},
		"part":           {g.ReduceScatter(b, b, p2p.Float32, collective.Sum), p2p.ErrLength},
		"element":        {g.AllReduce(p2p.Bytes(make([]byte, 6)), p2p.Bytes(make([]byte, 6)), p2p.Float32, collective.Sum), p2p.ErrLength},
		"root":           {g.Broadcast(b, p2p.Float32, 2), p2p.ErrRank},
		"negative root":  {g.Reduce(b, b, p2p.Float32, collective.Sum, -1), p2p.ErrRank},
		"type":           {g.AllGather(b, b, 0), nil},
		"reduction":      {g.AllReduce(b, b, p2p.Float32, 0), nil},
		"device":         {g.Broadcast(p2p.Device(64, 16, 0), p2p.Float32, 0), nil},
		"counts":         {g.AlltoAllV(b, []int{4}, b, []int{2, 2}, p2p.Float32), p2p.ErrLength},
		"negative count": {g.AlltoAllV(b, []int{5, -1}, b, []int{2, 2}, p2p.Float32), p2p.ErrLength},
		"own count":      {g.AlltoAllV(b, []int{2, 2}, b, []int{1, 3}, p2p.Float32), p2p.ErrLength},
	} {
		err := c.work.Wait(t.Context())
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// The group lives on.
	if err := w.each(func(_ int, g *collective.Group) error { return g.Barrier().Wait(t.Context()) }); err != nil {
		t.Error(err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	comm := inproc.World(2)[0]
	good := collective.Config{Comm: comm}
	for what, set := range map[string]func(*collective.Config){
		"no comm":    func(c *collective.Config) { c.Comm = nil },
		"ranks":      func(c *collective.Config) { c.Ranks = []int{1} },
		"same ranks": func(c *collective.Config) { c.Ranks = []int{1, 1} },
		"hosts":      func(c *collective.Config) { c.Hosts = []int{1} },
		"piece":      func(c *collective.Config) { c.Piece = 100 },
		"watchdog":   func(c *collective.Config) { c.Watchdog = -1 },
		"link":       func(c *collective.Config) { c.Inside = collective.Link{Bandwidth: 1} },
		"algorithm": func(c *collective.Config) {
			c.Algorithms = collective.Algorithms{collective.Scatter: {Level1: collective.Ring}}
		},
	} {
		c := good
		set(&c)
		if _, err := collective.New(c); err == nil {
			t.Errorf("%s: a group was made", what)
		}
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, nil)
		work := w.groups[0].Barrier()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := work.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait: %v", err)
		}
		if err := w.groups[1].Barrier().Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if err := work.Wait(t.Context()); err != nil {
			t.Errorf("the operation did not go on: %v", err)
		}
	})
}

func TestTheEndOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reason := errors.New("enough")
		comms := inproc.World(2)
		g, err := collective.New(collective.Config{Comm: comms[0]})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		end := make(chan error, 1)
		go func() { end <- g.Run(ctx) }()
		first, second := g.Barrier(), g.Barrier()
		synctest.Wait()
		cancel(reason)
		if err := <-end; !errors.Is(err, reason) {
			t.Errorf("run: %v", err)
		}
		for _, w := range []*collective.Work{first, second, g.Barrier()} {
			if err := w.Wait(t.Context()); !errors.Is(err, reason) {
				t.Errorf("%v: %v", w.Call(), err)
			}
		}
		if err := p2p.Send(t.Context(), comms[1], 0, p2p.Bytes(nil)); !errors.Is(err, p2p.ErrPeer) {
			t.Errorf("the peer of a group that has ended: %v", err)
		}
	})
}

// A rank whose context ends dooms the others only if they may be waiting for it.
func TestAnEndIsToldWhenItMatters(t *testing.T) {
	for _, busy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			shared := newControl(2)
			g, err := collective.New(collective.Config{Comm: inproc.World(2)[1], Control: end{shared, 1}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- g.Run(ctx) }()
			if busy {
				g.Barrier()
			}
			synctest.Wait()
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("run: %v", err)
			}
			if told := strings.Contains(shared.reason, "rank 1 has ended"); told != busy {
				t.Errorf("busy %v: the others are told %q", busy, shared.reason)
			}
		})
	}
}

func TestRecent(t *testing.T) {
	w := newWorld(t, 2, nil)
	for range 300 {
		if err := w.each(func(_ int, g *collective.Group) error { return g.Barrier().Wait(t.Context()) }); err != nil {
			t.Fatal(err)
		}
	}
	recent := w.groups[0].Recent()
	if len(recent) != 256 || recent[0].Call.Seq != 45 || recent[255].Call.Seq != 300 {
		t.Fatalf("%d records, from %v", len(recent), recent[0].Call)
	}
	for _, r := range recent {
		if r.Posted.IsZero() || r.Started.Before(r.Posted) || r.Ended.Before(r.Started) || r.Err != nil {
			t.Errorf("%+v", r)
		}
	}
}
