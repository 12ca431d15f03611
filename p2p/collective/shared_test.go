package collective_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/collective"
	"hcclps/p2p/shm/region"
)

// sharedWorld is newWorld of ranks that share memory with those of their host; hosts nil: with all.
func sharedWorld(t testing.TB, n int, hosts []int, set func(rank int, c *collective.Config)) *world {
	t.Helper()
	shared := make([]*region.Region, n)
	if hosts == nil {
		hosts = make([]int, n)
	}
	for h := range n {
		var members []int
		for r := range n {
			if hosts[r] == h {
				members = append(members, r)
			}
		}
		if members == nil {
			continue
		}
		regions, err := region.Local(len(members), region.Config{Memory: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range members {
			shared[r] = regions[i]
		}
	}
	t.Cleanup(func() { // after the groups have ended
		for _, r := range shared {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return newWorld(t, n, func(r int, c *collective.Config) {
		c.Shared, c.Hosts = shared[r], hosts
		if set != nil {
			set(r, c)
		}
	})
}

var sharedOps = []collective.Op{
	collective.AllReduce, collective.ReduceScatter, collective.Reduce, collective.AllGather, collective.Broadcast, collective.AlltoAll, collective.Barrier,
}

func checkOp(t *testing.T, w *world, op collective.Op, k kind, n int) {
	t.Helper()
	switch op {
	case collective.AllReduce, collective.ReduceScatter, collective.Reduce:
		checkReduction(t, w, op, k, n)
	default:
		checkMove(t, w, op, n)
	}
}

// All operations in shared memory, beside those that go through the Comm, with pieces of any size.
func TestSharedMemory(t *testing.T) {
	for _, ranks := range allSizes {
		for i, piece := range []int{64, 0} {
			t.Run(fmt.Sprintf("%d/%d", ranks, piece), func(t *testing.T) {
				w := sharedWorld(t, ranks, nil, func(_ int, c *collective.Config) { c.Piece, c.RankOrder = piece, ranks%2 == 0 })
				for j, k := range kinds(ranks) {
					if (i+j)%3 != 0 {
						continue // the folds are tested elsewhere
					}
					for _, n := range lengths(ranks) {
						for _, op := range sharedOps {
							checkOp(t, w, op, k, n)
						}
						checkMove(t, w, collective.Scatter, n)
						checkMove(t, w, collective.AlltoAllV, n)
					}
				}
			})
		}
	}
}

func TestLargeMessagesInSharedMemory(t *testing.T) {
	for _, ranks := range []int{2, 3, 5} {
		w := sharedWorld(t, ranks, nil, nil)
		for _, n := range []int{4_097, 65_537, 200_001} {
			if n > 65_537 && testing.Short() {
				break
			}
			for _, op := range sharedOps {
				checkOp(t, w, op, kind{p2p.Float32, collective.Sum}, n)
				checkOp(t, w, op, kind{p2p.BFloat16, collective.Avg}, n)
			}
		}
	}
}

// Within hosts memory is shared; between them messages go.
func TestSharedMemoryWithinHosts(t *testing.T) {
	const ranks = 7
	for i, hosts := range append(hostsOf(ranks), hostsOf(6)...) {
		for _, level1 := range []string{"ring", "H-D_R", "mesh", "tree"} {
			for _, order := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/%s/%v", hosts, level1, order), func(t *testing.T) {
					w := sharedWorld(t, len(hosts), hosts, func(_ int, c *collective.Config) {
						var err error
						if c.Algorithms, err = collective.ParseAlgorithms("level0:shm;level1:" + level1); err != nil {
							t.Error(err)
						}
						c.RankOrder, c.Piece = order, 64
					})
					for _, n := range []int{0, 1, 100 + i} {
						checkReduction(t, w, collective.AllReduce, kind{p2p.Int32, collective.Sum}, n)
						checkReduction(t, w, collective.Reduce, kind{p2p.Float64, collective.Prod}, n)
						checkMove(t, w, collective.Broadcast, n)
						checkMove(t, w, collective.Barrier, n)
					}
				})
			}
		}
	}
}

func BenchmarkShared(b *testing.B) {
	for _, alloc := range []bool{false, true} {
		for _, n := range []int{8, 1 << 10, 16 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20} {
			b.Run(fmt.Sprintf("%d/alloc=%v", n, alloc), func(b *testing.B) {
				w := sharedWorld(b, 2, nil, nil)
				var bufs [2]p2p.Buffer
				for r := range bufs {
					bufs[r] = floats(n / 4)
					if alloc {
						var err error
						if bufs[r], err = w.groups[r].Alloc(n); err != nil {
							b.Fatal(err)
						}
					}
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

// checkInPlace does operations in memory that was allocated for them, at all ranks or at some, and compares with the twin.
func checkInPlace(t *testing.T, w *world, n int) {
	t.Helper()
	const width = 4
	ranks := len(w.groups)
	ins := make([][]byte, ranks)
	for r := range ins {
		ins[r] = tensor(p2p.Float32, n*ranks, uint64(r))
	}
	want := reduced(p2p.Float32, collective.Sum, ins)
	part := func(b []byte, r int) []byte { return b[r*n*width : (r+1)*n*width] }
	err := w.each(func(r int, g *collective.Group) error {
		var all [3]p2p.Buffer
		for i := range all {
			var err error
			if all[i], err = g.Alloc(n * width * ranks); err != nil {
				return err
			}
		}
		heap := p2p.Bytes(make([]byte, n*width*ranks))
		send, recv, other := all[0], all[1], all[2]
		if r == 0 {
			other = heap
		}
		check := func(what string, work *collective.Work, got, want []byte) error {
			if err := work.Wait(t.Context()); err != nil {
				return err
			}
			if !bytes.Equal(got, want) {
				return fmt.Errorf("%s: %v: wrong result", what, work.Call())
			}
			return nil
		}
		copy(send.Host(), ins[r])
		sum := func(from, to p2p.Buffer) *collective.Work {
			return g.AllReduce(from, to, p2p.Float32, collective.Sum)
		}
		errs := []error{
			check("to other memory", sum(send, recv), recv.Host(), want),
			check("to the heap", sum(send, heap), heap.Host(), want),
			check("to the heap of one", sum(send, other), other.Host(), want),
			check("nothing is changed", g.Barrier(), send.Host(), ins[r]),
		}
		copy(heap.Host(), ins[r])
		errs = append(
			errs,
			check("from the heap", sum(heap, recv), recv.Host(), want),
			check("a part", g.ReduceScatter(send, p2p.Bytes(part(recv.Host(), r)), p2p.Float32, collective.Sum), part(recv.Host(), r), part(want, r)),
			check("gathered in place", g.AllGather(p2p.Bytes(part(recv.Host(), r)), recv, p2p.Float32), recv.Host(), want),
			check("gathered", g.AllGather(p2p.Bytes(part(recv.Host(), r)), other, p2p.Float32), other.Host(), want),
			check("in place", sum(send, send), send.Host(), want),
		)
		copy(send.Host(), ins[r])
		var exchanged []byte
		for from := range ins {
			exchanged = append(exchanged, part(ins[from], r)...)
		}
		errs = append(
			errs,
			check("exchanged", g.AlltoAll(send, recv, p2p.Float32), recv.Host(), exchanged),
			check("sent to all", g.Broadcast(send, p2p.Float32, ranks-1), send.Host(), ins[ranks-1]),
			check("sent to all by one", g.Broadcast(other, p2p.Float32, 0), other.Host(), want),
			check("to a root", g.Reduce(recv, recv, p2p.Float32, collective.Sum, 0), nil, nil),
		)
		return errors.Join(errs...)
	})
	if err != nil {
		t.Error(err)
	}
}

// Buffers of Alloc give the same results, also where not all ranks have them.
func TestAllocatedBuffers(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 5} {
		w := sharedWorld(t, ranks, nil, nil)
		for _, n := range []int{0, 1, 5000, 100_003} {
			checkInPlace(t, w, n)
		}
	}
}
