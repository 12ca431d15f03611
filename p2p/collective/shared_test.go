package collective_test

import (
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
