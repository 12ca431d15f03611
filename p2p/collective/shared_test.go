package collective_test

import (
	"fmt"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/collective"
	"hcclps/p2p/shm/region"
)

// sharedWorld is newWorld of ranks that share memory.
func sharedWorld(t testing.TB, n int, set func(rank int, c *collective.Config)) *world {
	t.Helper()
	regions, err := region.Local(n, region.Config{Memory: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the groups have ended
		for _, r := range regions {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return newWorld(t, n, func(r int, c *collective.Config) {
		c.Shared = regions[r]
		if set != nil {
			set(r, c)
		}
	})
}

func TestSharedThin(t *testing.T) {
	for ranks := 2; ranks < 5; ranks++ {
		w := sharedWorld(t, ranks, nil)
		for _, n := range []int{0, 1, 7, 1000, 100_000, 1_000_001} {
			checkReduction(t, w, collective.AllReduce, kind{p2p.Float32, collective.Sum}, n)
		}
	}
}

func BenchmarkShared(b *testing.B) {
	for _, alloc := range []bool{false, true} {
		for _, n := range []int{8, 1 << 10, 16 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20} {
			b.Run(fmt.Sprintf("%d/alloc=%v", n, alloc), func(b *testing.B) {
				w := sharedWorld(b, 2, nil)
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
