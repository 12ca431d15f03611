package collective_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/collective"
	"hcclps/p2p/hccl"
	"hcclps/p2p/hccl/acl"
	"hcclps/p2p/hccl/sim"
	"hcclps/p2p/shm"
	"hcclps/p2p/tcp"
)

// pairing makes one end of the pair of two ranks from a connection, which it owns from then on.
type pairing func(ctx context.Context, rank, end int, conn net.Conn) (p2p.RunningComm, error)

// paired makes ranks whose Comms are made of pairs of a backend, which run until the test ends.
func paired(t *testing.T, ranks int, pair pairing) []p2p.Comm {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var runs sync.WaitGroup
	t.Cleanup(runs.Wait)
	t.Cleanup(cancel)
	comms := make([]*pairwise, ranks)
	for r := range comms {
		comms[r] = &pairwise{rank: r, pairs: make([]p2p.Comm, ranks)}
	}
	for a := range ranks {
		for b := a + 1; b < ranks; b++ {
			conns := connected(t)
			var ends [2]p2p.RunningComm
			var errs [2]error
			var both sync.WaitGroup
			for i, rank := range []int{a, b} {
				both.Go(func() { ends[i], errs[i] = pair(t.Context(), rank, i, conns[i]) })
			}
			both.Wait()
			if err := errors.Join(errs[:]...); errors.Is(err, shm.ErrNotLocal) {
				t.Skipf("no shared memory here: %v", err)
			} else if err != nil {
				t.Fatal(err)
			}
			comms[a].pairs[b], comms[b].pairs[a] = ends[0], ends[1]
			for _, end := range ends {
				runs.Go(func() { _ = end.Run(ctx) })
			}
		}
	}
	var all []p2p.Comm
	for _, c := range comms {
		all = append(all, c)
	}
	return all
}

// connected is the two ends of a Unix socket.
func connected(t *testing.T) (conns [2]net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err == nil {
		conns[0], err = net.Dial("unix", l.Addr().String())
	}
	if err == nil {
		conns[1], err = l.Accept()
	}
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return conns
}

var (
	simOnce sync.Once
	simDir  string
	simLib  string
	errSim  error
)

// devices opens a simulated NPU for each rank.
func devices(t *testing.T, ranks int) []*hccl.Device {
	t.Helper()
	simOnce.Do(func() {
		if simDir, errSim = os.MkdirTemp("", "hccl-sim-"); errSim == nil { //nolint:usetesting // a process has one, which outlives the test
			simLib, errSim = sim.Build(t.Context(), simDir)
		}
	})
	lib, err := simLib, errSim
	if errors.Is(err, sim.ErrNoCompiler) {
		t.Skipf("no simulator: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HCCL_SIM_QUIET", "1")
	t.Setenv(acl.EnvLib, lib)
	ctx, cancel := context.WithCancel(context.Background())
	var runs sync.WaitGroup
	t.Cleanup(runs.Wait)
	t.Cleanup(cancel)
	var all []*hccl.Device
	for r := range ranks {
		d, err := hccl.Open(hccl.Config{Device: r})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
		runs.Go(func() { _ = d.Run(ctx) })
	}
	return all
}

// thinned does every operation, by an algorithm each that differs with the number of ranks, in a few types and lengths.
func thinned(t *testing.T, w *world, large int) {
	t.Helper()
	types := []kind{{p2p.Float32, collective.Sum}, {p2p.BFloat16, collective.Avg}, {p2p.Int64, collective.Max}}
	for _, n := range []int{0, 1, 701, large} {
		for _, op := range []collective.Op{collective.AllReduce, collective.ReduceScatter, collective.Reduce} {
			for i, k := range types {
				if n < large || i == 0 {
					checkReduction(t, w, op, k, n)
				}
			}
		}
		for _, op := range []collective.Op{
			collective.AllGather, collective.Broadcast, collective.Scatter, collective.Gather,
			collective.AlltoAll, collective.AlltoAllV, collective.Barrier,
		} {
			checkMove(t, w, op, n)
		}
	}
	var ins []collective.Sparse
	for r := range w.groups {
		ins = append(ins, rowsOf(3, uint64(r), keysOf(uint64(r), 100, 300)))
	}
	err := w.each(func(r int, g *collective.Group) error {
		var got collective.Sparse
		if err := g.SparseReduce(ins[r], &got).Wait(t.Context()); err != nil {
			return err
		}
		if !sameSparse(got, summed(ins)) {
			return errors.New("rows are wrong")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// The product of backend, ranks, lengths, operations and types, thinned, over the backends that have processes at their ends; here both ends are in this one.
func TestOverEveryBackend(t *testing.T) {
	algorithms := map[int]string{2: "ring", 3: "mesh", 4: "H-D_R", 5: ""}
	over := func(t *testing.T, ranks, large int, pair pairing) {
		t.Helper()
		w := newWorldOver(t, paired(t, ranks, pair), func(_ int, c *collective.Config) {
			var err error
			if c.Algorithms, err = collective.ParseAlgorithms(algorithms[ranks]); err != nil {
				t.Error(err)
			}
			if delete(c.Algorithms, collective.SparseReduce); ranks == 2 { // the tree of a barrier has no ring
				c.RankOrder = true
			}
			c.Piece = 4 << 10
		})
		thinned(t, w, large)
	}
	for ranks := range algorithms {
		t.Run(fmt.Sprintf("tcp/%d", ranks), func(t *testing.T) {
			over(t, ranks, 20_000, func(_ context.Context, _, end int, conn net.Conn) (p2p.RunningComm, error) {
				return tcp.Pair([]net.Conn{conn}, end), nil
			})
		})
		t.Run(fmt.Sprintf("shm/%d", ranks), func(t *testing.T) {
			over(t, ranks, 20_000, func(ctx context.Context, _, end int, conn net.Conn) (p2p.RunningComm, error) {
				return shm.Negotiate(ctx, conn, end, shm.Config{})
			})
		})
	}
	t.Run("hccl/3", func(t *testing.T) {
		npus := devices(t, 3)
		over(t, 3, 5000, func(ctx context.Context, rank, end int, conn net.Conn) (p2p.RunningComm, error) {
			return npus[rank].Pair(ctx, conn, end)
		})
	})
}
