package collective_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/collective"
)

// rounded is x as a 16-bit type has it, by bisection.
func rounded(t p2p.DType, x float64) float64 {
	value := halfValue
	if t == p2p.BFloat16 {
		value = brainValue
	}
	if x < 0 {
		return -value(nearest(-x, value))
	}
	return value(nearest(x, value))
}

// Every contribution is rounded once, they are folded in float32 in the order of ranks, and the result is rounded once, whatever the algorithm.
func TestFloat32TravelsAsSixteenBits(t *testing.T) {
	const n = 3001
	for _, wire := range []p2p.DType{p2p.Float16, p2p.BFloat16} {
		for _, ranks := range []int{2, 3, 4, 7} {
			ins := make([][]byte, ranks)
			for r := range ins {
				rng := rand.New(rand.NewPCG(uint64(r), 11))
				ins[r] = make([]byte, 4*n)
				for i := range n {
					put(p2p.Float32, ins[r], i, rng.NormFloat64())
				}
			}
			for _, red := range []collective.Reduction{collective.Sum, collective.Avg, collective.Max} {
				want := make([]byte, 4*n)
				for i := range n {
					sum := float32(rounded(wire, get(p2p.Float32, ins[0], i)))
					for _, in := range ins[1:] {
						if x := float32(rounded(wire, get(p2p.Float32, in, i))); red == collective.Max {
							sum = max(sum, x)
						} else {
							sum += x
						}
					}
					if red == collective.Avg {
						sum /= float32(ranks)
					}
					put(p2p.Float32, want, i, rounded(wire, float64(sum)))
				}
				for _, algo := range []string{"", "ring", "mesh", "tree", "allreduce=H-D_R", "allreduce=level0:mesh;level1:ring"} {
					w := newWorld(t, ranks, func(_ int, c *collective.Config) {
						c.Algorithms, _ = collective.ParseAlgorithms(algo)
						c.Piece = 640
						c.Hosts = make([]int, ranks)
						c.Hosts[ranks-1] = 1
					})
					err := w.each(func(r int, g *collective.Group) error {
						got := make([]byte, 4*n)
						if r%2 == 1 { // also in place, and not aligned
							got = append(make([]byte, 1), ins[r]...)[1:]
							if err := g.AllReduceAs(p2p.Bytes(got), p2p.Bytes(got), wire, red).Wait(t.Context()); err != nil {
								return err
							}
						} else if err := g.AllReduceAs(p2p.Bytes(ins[r]), p2p.Bytes(got), wire, red).Wait(t.Context()); err != nil {
							return err
						}
						if !bytes.Equal(got, want) {
							return errors.New("wrong result")
						}
						return nil
					})
					if err != nil {
						t.Errorf("%v, %d ranks, %v by %q: %v", wire, ranks, red, algo, err)
					}
				}
			}
		}
	}
}

// The sum of what fits may not fit, its average does.
func TestAnAverageDoesNotOverflow(t *testing.T) {
	w := newWorld(t, 3, nil)
	err := w.each(func(_ int, g *collective.Group) error {
		b := make([]byte, 4)
		put(p2p.Float32, b, 0, 60000)
		err := g.AllReduceAs(p2p.Bytes(b), p2p.Bytes(b), p2p.Float16, collective.Avg).Wait(t.Context())
		if x := get(p2p.Float32, b, 0); x != 60000 {
			return fmt.Errorf("the average is %v, %w", x, err)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestOneRankRoundsNothing(t *testing.T) {
	w := newWorld(t, 1, nil)
	b := make([]byte, 4)
	put(p2p.Float32, b, 0, math.Pi)
	if err := w.groups[0].AllReduceAs(p2p.Bytes(b), p2p.Bytes(b), p2p.BFloat16, collective.Avg).Wait(t.Context()); err != nil || get(p2p.Float32, b, 0) != float64(float32(math.Pi)) {
		t.Errorf("%v, %v", get(p2p.Float32, b, 0), err)
	}
}

func TestRanksMustSendTheSameType(t *testing.T) {
	w := newWorld(t, 2, nil)
	errs := make([]error, 2)
	_ = w.each(func(r int, g *collective.Group) error {
		b := p2p.Bytes(make([]byte, 400))
		errs[r] = g.AllReduceAs(b, b, []p2p.DType{p2p.Float16, p2p.BFloat16}[r], collective.Sum).Wait(t.Context())
		return nil
	})
	if err := errors.Join(errs...); !errors.Is(err, collective.ErrMismatch) {
		t.Errorf("float16 and bfloat16: %v", err)
	}
	w = newWorld(t, 1, nil)
	b := p2p.Bytes(make([]byte, 4))
	if err := w.groups[0].AllReduceAs(b, b, p2p.Int32, collective.Sum).Wait(t.Context()); err == nil {
		t.Error("float32 went as int32")
	}
	if _, err := w.groups[0].Fuse(collective.FusionConfig{DType: p2p.Int32, Wire: p2p.Float16, Reduction: collective.Sum}); err == nil {
		t.Error("int32 was fused as float16")
	}
}

func TestFusionOnTheWire(t *testing.T) {
	const ranks = 3
	sizes := []int{5, 1000, 3000, 1} // 3000 elements are above the threshold
	w := newWorld(t, ranks, nil)
	err := w.each(func(r int, g *collective.Group) error {
		f, err := g.Fuse(collective.FusionConfig{DType: p2p.Float32, Wire: p2p.BFloat16, Reduction: collective.Sum, Threshold: 8000})
		if err != nil {
			return err
		}
		var last *collective.Bucket
		var all [][]byte
		for i, n := range sizes {
			all = append(all, tensor(p2p.Float32, n, uint64(10*i+r)))
			last = f.Add(p2p.Bytes(all[i]))
		}
		f.Flush()
		if err := last.Wait(t.Context()); err != nil {
			return err
		}
		for i, n := range sizes {
			var ins [][]byte
			for q := range ranks {
				ins = append(ins, tensor(p2p.Float32, n, uint64(10*i+q)))
			}
			if !bytes.Equal(all[i], reduced(p2p.Float32, collective.Sum, ins)) { // small whole numbers are exact
				return fmt.Errorf("tensor %d is wrong", i)
			}
		}
		if wire := g.Recent()[0].Call.Wire; wire != p2p.BFloat16 {
			return fmt.Errorf("elements travel as %v", wire)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// An operation that is taken up again after its caller has stopped waiting for it goes on with what it has encoded.
func TestSixteenBitsInSharedMemory(t *testing.T) {
	const n = 4 << 20
	for _, ranks := range []int{2, 3} {
		w := sharedWorld(t, ranks, nil, nil)
		err := w.each(func(_ int, g *collective.Group) error {
			ones, sums := make([]byte, 4*n), make([]byte, 4*n)
			for i := range n {
				put(p2p.Float32, ones, i, 1)
			}
			for range 3 {
				if err := g.AllReduceAs(p2p.Bytes(ones), p2p.Bytes(sums), p2p.BFloat16, collective.Sum).Wait(t.Context()); err != nil {
					return err
				}
				for i := range n {
					if got := get(p2p.Float32, sums, i); got != float64(ranks) {
						return fmt.Errorf("element %d is %v, want %d", i, got, ranks)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("%d ranks: %v", ranks, err)
		}
	}
}
