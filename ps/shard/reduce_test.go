package shard

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hcclps/ps/wire"
)

// plainMerge is the slow twin of reducer.merge.
func plainMerge(bodies [][]wire.Section) []wire.Section {
	rows := map[uint32]map[uint64][]float32{}
	dims := map[uint32]int{}
	for _, b := range bodies {
		for _, s := range b {
			if rows[s.Table] == nil {
				rows[s.Table] = map[uint64][]float32{}
			}
			dims[s.Table] = s.Dim
			for i, k := range s.Keys {
				v := s.Values[i*s.Dim : (i+1)*s.Dim]
				if old, ok := rows[s.Table][k]; ok {
					for d := range v {
						old[d] += v[d]
					}
				} else {
					rows[s.Table][k] = slices.Clone(v)
				}
			}
		}
	}
	var out []wire.Section
	for id, r := range rows {
		s := wire.Section{Table: id, Dim: dims[id]}
		for k := range r {
			s.Keys = append(s.Keys, k)
		}
		slices.Sort(s.Keys)
		for _, k := range s.Keys {
			s.Values = append(s.Values, r[k]...)
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b wire.Section) int { return int(a.Table) - int(b.Table) })
	return out
}

func encodeSections(sections []wire.Section) []byte {
	var b []byte
	for _, s := range sections {
		b = wire.AppendSection(b, s)
	}
	return b
}

// randomBodies makes bodies that share many keys.
func randomBodies(r *rand.Rand, workers int) [][]wire.Section {
	bodies := make([][]wire.Section, workers)
	for w := range bodies {
		for id := range uint32(3) {
			s := wire.Section{Table: id, Dim: 1 + int(id)}
			for k := range uint64(20) {
				if id == 1 || r.IntN(2) == 0 { // table 1: the same keys everywhere
					s.Keys = append(s.Keys, k)
				}
			}
			for range len(s.Keys) * s.Dim {
				s.Values = append(s.Values, float32(r.NormFloat64()))
			}
			if r.IntN(4) > 0 {
				bodies[w] = append(bodies[w], s)
			}
		}
	}
	return bodies
}

func TestMergeEqualsItsTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var red reducer
	for i := range 300 {
		bodies := randomBodies(r, 1+i%9)
		red.reset()
		got, err := red.merge(bodies)
		if err != nil {
			t.Fatal(err)
		}
		if want := plainMerge(bodies); !bytes.Equal(encodeSections(got), encodeSections(want)) {
			t.Fatalf("case %d: got %v, want %v", i, got, want)
		}
	}
}

func FuzzMerge(f *testing.F) {
	f.Add(uint64(1), uint8(3))
	f.Add(uint64(99), uint8(17))
	f.Fuzz(func(t *testing.T, seed uint64, n uint8) {
		bodies := randomBodies(rand.New(rand.NewPCG(seed, 0)), 1+int(n%32))
		var red reducer
		got, err := red.merge(bodies)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(encodeSections(got), encodeSections(plainMerge(bodies))) {
			t.Fatal("differs from the twin")
		}
	})
}

// TestSumAndContributionsGiveTheSameBits applies the same steps in both forms,
// with every optimizer.
func TestSumAndContributionsGiveTheSameBits(t *testing.T) {
	for _, opt := range []string{"sgd", "adagrad", "adam"} {
		r := rand.New(rand.NewPCG(7, 9))
		a, b := NewState(StateConfig{HashSeed: 1}), NewState(StateConfig{HashSeed: 1})
		index := uint64(0)
		both := func(x, y wire.Entry) {
			index++
			p := applyChecked(t, a, wire.AppendEntry(nil, x), index)
			if q := applyChecked(t, b, wire.AppendEntry(nil, y), index); p != q {
				t.Fatalf("answers differ: %s, %s", p, q)
			}
		}
		params := wire.JobParams{World: 5, Parts: 1}
		it := wire.Item{Job: "j", Rate: 1}
		for w := range params.World {
			e := wire.Entry{Message: &wire.Fence{Target: target(w), Params: params, Rank: w}}
			both(e, e)
			it.Contributors = append(it.Contributors, wire.Contributor{Worker: target(w).Worker, Incarnation: 1, Rows: w + 1})
			it.Divisor += uint64(w + 1)
		}
		for id := range uint32(3) {
			tab := testTable(id, id+1)
			tab.Optimizer, tab.Params, tab.NonFinite = opt, nil, "clip"
			e := wire.Entry{Message: &wire.Hold{Job: "j", Plan: wire.Plan{ID: uint64(id + 1), Kind: wire.PlanTable, Table: tab}}}
			both(e, e)
			e = wire.Entry{Message: &wire.Release{Job: "j", Plan: uint64(id + 1)}}
			both(e, e)
		}
		var red reducer
		for step := range uint64(50) {
			bodies := randomBodies(r, 5)
			if len(bodies[0]) > 0 {
				bodies[0][0].Values[0] = math.MaxFloat32
			}
			it.Step, it.Payloads = step, nil
			for _, s := range bodies {
				it.Payloads = append(it.Payloads, encodeSections(s))
			}
			red.reset()
			sum, err := red.merge(bodies)
			if err != nil {
				t.Fatal(err)
			}
			one := it
			one.Payloads = [][]byte{encodeSections(sum)}
			both(wire.Entry{Steps: []wire.Item{it}}, wire.Entry{Steps: []wire.Item{one}})
		}
		compare(t, a, b)
		if a.jobs["j"].Clock != 50 {
			t.Fatalf("%s: clock %d", opt, a.jobs["j"].Clock)
		}
		_, _ = a.Close(), b.Close()
	}
}

func TestMergeRefusesDifferingWidths(t *testing.T) {
	var red reducer
	_, err := red.merge([][]wire.Section{
		{{Table: 1, Dim: 1, Keys: []uint64{1}, Values: []float32{1}}},
		{{Table: 1, Dim: 2, Keys: []uint64{1}, Values: []float32{1, 2}}},
	})
	if err == nil {
		t.Fatal("accepted")
	}
}

func BenchmarkMerge(b *testing.B) {
	for _, workers := range []int{2, 8} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			bodies := make([][]wire.Section, workers)
			r := rand.New(rand.NewPCG(1, 1))
			for w := range bodies {
				s := wire.Section{Table: 1, Dim: 16}
				for k := range uint64(20000) {
					if r.IntN(2) == 0 {
						s.Keys = append(s.Keys, k)
					}
				}
				s.Values = make([]float32, 16*len(s.Keys))
				bodies[w] = []wire.Section{s}
			}
			var red reducer
			b.ReportAllocs()
			b.SetBytes(int64(workers * 10000 * 72))
			for b.Loop() {
				red.reset()
				if _, err := red.merge(bodies); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
