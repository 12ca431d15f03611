package collective_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/collective"
)

// rough makes n numbers whose sum depends on the order of summands.
func rough(t p2p.DType, n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 2))
	b := make([]byte, n*t.Size())
	for i := range n {
		x := (rng.Float64() - 0.5) * math.Pow(2, float64(rng.IntN(20)-10))
		switch t {
		case p2p.Float16, p2p.BFloat16:
			binary.LittleEndian.PutUint16(b[2*i:], uint16(rng.Uint32())&0xbbff|0x2000) // finite
		default:
			put(t, b, i, x)
		}
	}
	return b
}

// reduceRough does one AllReduce or Reduce of rough numbers and returns what rank 0 has; all ranks must have the same.
func reduceRough(t *testing.T, op collective.Op, ranks int, k kind, n int, set func(int, *collective.Config)) []byte {
	t.Helper()
	w := newWorld(t, ranks, set)
	got := make([][]byte, ranks)
	err := w.each(func(r int, g *collective.Group) error {
		in := rough(k.t, n, uint64(r))
		got[r] = in
		if op == collective.Reduce {
			return g.Reduce(p2p.Bytes(in), p2p.Bytes(in), k.t, k.r, 0).Wait(t.Context())
		}
		return g.AllReduce(p2p.Bytes(in), p2p.Bytes(in), k.t, k.r).Wait(t.Context())
	})
	if err != nil {
		t.Fatal(err)
	}
	for r := range got {
		if op == collective.AllReduce && !bytes.Equal(got[r], got[0]) {
			t.Errorf("ranks 0 and %d differ", r)
		}
	}
	return got[0]
}

func TestSameBitsOnAllRanksAndInEveryRun(t *testing.T) {
	for _, ranks := range []int{3, 6, 8} {
		for name, set := range configs(collective.AllReduce, ranks) {
			for _, k := range []kind{{p2p.Float32, collective.Avg}, {p2p.Float16, collective.Sum}, {p2p.Float64, collective.Prod}} {
				first := reduceRough(t, collective.AllReduce, ranks, k, 333, set)
				if again := reduceRough(t, collective.AllReduce, ranks, k, 333, set); !bytes.Equal(first, again) {
					t.Errorf("%d ranks, %s, %v: two runs differ", ranks, name, k)
				}
			}
		}
	}
}

// foldFloat32 is the naive twin of a sum in rank order.
func foldFloat32(ranks, n int) []byte {
	out := make([]byte, 4*n)
	ins := make([][]byte, ranks)
	for r := range ins {
		ins[r] = rough(p2p.Float32, n, uint64(r))
	}
	for i := range n {
		sum := float32(get(p2p.Float32, ins[0], i))
		for _, in := range ins[1:] {
			sum += float32(get(p2p.Float32, in, i))
		}
		put(p2p.Float32, out, i, float64(sum))
	}
	return out
}

func TestRankOrderIsOneResult(t *testing.T) {
	for _, ranks := range []int{2, 3, 4, 6, 7, 8} {
		for _, k := range []kind{{p2p.Float32, collective.Sum}, {p2p.BFloat16, collective.Sum}, {p2p.Float16, collective.Avg}, {p2p.Float64, collective.Sum}} {
			var want []byte
			if k == (kind{p2p.Float32, collective.Sum}) {
				want = foldFloat32(ranks, 333)
			}
			for _, op := range []collective.Op{collective.AllReduce, collective.Reduce} {
				all := configs(op, ranks)
				for _, name := range slices.Sorted(maps.Keys(all)) {
					got := reduceRough(t, op, ranks, k, 333, func(r int, c *collective.Config) {
						all[name](r, c)
						c.RankOrder = true
					})
					if want == nil {
						want = got
					}
					if !bytes.Equal(got, want) {
						t.Errorf("%d ranks, %s, %v: another result", ranks, name, k)
					}
				}
			}
		}
	}
}

// The test above means something only if the order matters.
func TestOrderMatters(t *testing.T) {
	ring := configs(collective.AllReduce, 6)["allreduce=ring/hosts=[]/order=false"]
	if got := reduceRough(t, collective.AllReduce, 6, kind{p2p.Float32, collective.Sum}, 333, ring); bytes.Equal(got, foldFloat32(6, 333)) {
		t.Error("the ring's order gives the bits of rank order: the numbers are too smooth")
	}
}

// Memory that does not lie as float32 values must is slower, not wrong.
func TestUnalignedMemory(t *testing.T) {
	for offset := range 4 {
		w := newWorld(t, 3, func(_ int, c *collective.Config) { c.Piece = 256 })
		err := w.each(func(r int, g *collective.Group) error {
			mine := append(make([]byte, offset), rough(p2p.Float32, 333, uint64(r))...)[offset:]
			if err := g.AllReduce(p2p.Bytes(mine), p2p.Bytes(mine), p2p.Float32, collective.Max).Wait(t.Context()); err != nil {
				return err
			}
			for i := range 333 {
				want := math.Inf(-1)
				for q := range 3 {
					want = max(want, get(p2p.Float32, rough(p2p.Float32, 333, uint64(q)), i))
				}
				if got := get(p2p.Float32, mine, i); got != want {
					return fmt.Errorf("element %d is %v, want %v", i, got, want)
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("offset %d: %v", offset, err)
		}
	}
}
