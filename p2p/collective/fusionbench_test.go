package collective_test

import (
	"fmt"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/collective"
)

// A thousand tensors of 4 KiB, fused with some thresholds, beside one of as many bytes; one behind the other, and each for itself.
func BenchmarkFusion(b *testing.B) {
	const count, size = 1000, 4 << 10
	for _, ranks := range []int{2, 4} {
		b.Run(fmt.Sprintf("one/ranks=%d", ranks), func(b *testing.B) {
			w := newWorld(b, ranks, nil)
			b.SetBytes(count * size)
			err := w.each(func(_ int, g *collective.Group) error {
				t := p2p.Bytes(make([]byte, count*size))
				for range b.N {
					if err := g.AllReduce(t, t, p2p.Float32, collective.Sum).Wait(b.Context()); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		})
		for _, threshold := range []int{64 << 10, 256 << 10, 1 << 20, 4 << 20} {
			for _, apart := range []int{0, 1} {
				b.Run(fmt.Sprintf("threshold=%dKiB/apart=%d/ranks=%d", threshold>>10, apart, ranks), func(b *testing.B) {
					w := newWorld(b, ranks, nil)
					b.SetBytes(count * size)
					err := w.each(func(_ int, g *collective.Group) error {
						f, err := g.Fuse(collective.FusionConfig{DType: p2p.Float32, Reduction: collective.Sum, Threshold: threshold})
						if err != nil {
							return err
						}
						all := make([]byte, count*(size+apart*64))
						buckets := make([]*collective.Bucket, count)
						for range b.N {
							for i := range count {
								at := i * (size + apart*64)
								buckets[i] = f.Add(p2p.Bytes(all[at : at+size]))
							}
							f.Flush()
							for _, x := range buckets {
								if err := x.Wait(b.Context()); err != nil {
									return err
								}
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
