package collective_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/collective"
)

// rowsOf makes rows for some keys, whose sums depend on the order.
func rowsOf(dim int, seed uint64, keys []uint64) collective.Sparse {
	rng := rand.New(rand.NewPCG(seed, 7))
	s := collective.Sparse{Dim: dim, Keys: keys}
	for range len(keys) * dim {
		x := float32(rng.NormFloat64() * math.Exp(10*rng.Float64()))
		if rng.IntN(10) == 0 {
			x = float32(math.Copysign(0, -1))
		}
		s.Rows = append(s.Rows, x)
	}
	return s
}

// keysOf draws count ascending keys below a bound.
func keysOf(seed uint64, count int, bound uint64) []uint64 {
	rng := rand.New(rand.NewPCG(seed, 3))
	drawn := make(map[uint64]bool)
	for len(drawn) < count {
		drawn[rng.Uint64N(bound)] = true
	}
	return slices.Sorted(maps.Keys(drawn))
}

// summed is the naive twin.
func summed(ins []collective.Sparse) collective.Sparse {
	dim := ins[0].Dim
	rows := make(map[uint64][]float32)
	for _, in := range ins {
		for i, k := range in.Keys {
			row := in.Rows[i*dim : (i+1)*dim]
			if sum, ok := rows[k]; ok {
				for j := range sum {
					sum[j] += row[j]
				}
			} else {
				rows[k] = slices.Clone(row)
			}
		}
	}
	out := collective.Sparse{Dim: dim, Keys: slices.Sorted(maps.Keys(rows))}
	for _, k := range out.Keys {
		out.Rows = append(out.Rows, rows[k]...)
	}
	return out
}

func sameSparse(a, b collective.Sparse) bool {
	return a.Dim == b.Dim && slices.Equal(a.Keys, b.Keys) &&
		slices.EqualFunc(a.Rows, b.Rows, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// shapes are what ranks may have: nothing, the same, nothing in common, some in common, all at one rank, very uneven.
func shapes(ranks, dim int) map[string][]collective.Sparse {
	all := make(map[string][]collective.Sparse)
	for r := range ranks {
		seed := uint64(r + 1)
		add := func(name string, keys []uint64) { all[name] = append(all[name], rowsOf(dim, seed, keys)) }
		add("nothing", nil)
		add("the same", []uint64{0, 5, 6, 1 << 40, math.MaxUint64})
		add("nothing in common", []uint64{seed, seed + 1000, seed + 1<<50})
		add("some in common", keysOf(seed, 50+10*r, 200))
		add("many", keysOf(seed, 700, 3000))
		if r == ranks/2 {
			add("one rank", keysOf(1, 300, 1<<60))
			add("uneven", keysOf(1, 1000, 2000))
		} else {
			add("one rank", nil)
			add("uneven", []uint64{uint64(r)})
		}
	}
	return all
}

func TestSparseReduce(t *testing.T) {
	for _, ranks := range allSizes {
		for _, dim := range []int{1, 3, 16} {
			if ranks > 4 && dim != 1+ranks%2*2 { // one width is enough
				continue
			}
			for _, algo := range []string{"", "sparsereduce=mesh", "sparsereduce=pairwise", "sparsereduce=pairwise/allgather=ring/alltoall=mesh", "sparsereduce=mesh/allgather=H-D_R"} {
				algorithms, err := collective.ParseAlgorithms(algo)
				if err != nil {
					t.Fatal(err)
				}
				w := newWorld(t, ranks, func(_ int, c *collective.Config) { c.Algorithms, c.Piece = algorithms, 128 })
				got := make([]collective.Sparse, ranks) // used again by every shape
				for name, ins := range shapes(ranks, dim) {
					want := summed(ins)
					err := w.each(func(r int, g *collective.Group) error {
						if err := g.SparseReduce(ins[r], &got[r]).Wait(t.Context()); err != nil {
							return err
						}
						if !sameSparse(got[r], want) {
							return fmt.Errorf("%d keys, want %d, or other rows", len(got[r].Keys), len(want.Keys))
						}
						return nil
					})
					if err != nil {
						t.Errorf("%d ranks, dim %d, %q, %s: %v", ranks, dim, algo, name, err)
					}
				}
			}
		}
	}
}

func TestSparseReduceUsesMemoryAgain(t *testing.T) {
	w := newWorld(t, 2, nil)
	err := w.each(func(r int, g *collective.Group) error {
		var got collective.Sparse
		var at *float32
		for i := range 3 {
			in := rowsOf(4, uint64(r), keysOf(uint64(r), 100-i, 1000))
			if err := g.SparseReduce(in, &got).Wait(t.Context()); err != nil {
				return err
			}
			if i > 0 && &got.Rows[0] != at {
				return errors.New("other memory for fewer rows")
			}
			at = &got.Rows[0]
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestSparseReduceOfOtherWidths(t *testing.T) {
	w := newWorld(t, 2, nil)
	errs := make([]error, 2)
	_ = w.each(func(r int, g *collective.Group) error {
		var got collective.Sparse
		errs[r] = g.SparseReduce(rowsOf(4+r, 1, []uint64{1, 2}), &got).Wait(t.Context())
		return nil
	})
	if err := errors.Join(errs...); !errors.Is(err, collective.ErrMismatch) {
		t.Errorf("rows of 4 and of 5: %v", err)
	}
}

func TestSparseReduceRefuses(t *testing.T) {
	w := newWorld(t, 1, nil)
	good := collective.Sparse{Dim: 2, Keys: []uint64{1, 2}, Rows: make([]float32, 4)}
	for what, s := range map[string]collective.Sparse{
		"no width":          {Keys: []uint64{1}},
		"too few elements":  {Dim: 2, Keys: []uint64{1, 2}, Rows: make([]float32, 3)},
		"a key twice":       {Dim: 1, Keys: []uint64{1, 1}, Rows: make([]float32, 2)},
		"keys that descend": {Dim: 1, Keys: []uint64{2, 1}, Rows: make([]float32, 2)},
	} {
		if err := w.groups[0].SparseReduce(s, &collective.Sparse{}).Wait(t.Context()); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if err := w.groups[0].SparseReduce(good, nil).Wait(t.Context()); err == nil {
		t.Error("nowhere to put rows: no error")
	}
	if err := w.groups[0].SparseReduce(collective.Sparse{Dim: 2, Keys: []uint64{1}, Rows: make([]float32, 3)}, &collective.Sparse{}).Wait(t.Context()); !errors.Is(err, p2p.ErrLength) {
		t.Errorf("three elements of one row of two: %v", err)
	}
}
