package update_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"hcclps/ps/update"
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
	var red update.Reducer
	for i := range 300 {
		bodies := randomBodies(r, 1+i%9)
		red.Reset()
		got, err := red.Merge(bodies)
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
		var red update.Reducer
		got, err := red.Merge(bodies)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(encodeSections(got), encodeSections(plainMerge(bodies))) {
			t.Fatal("differs from the twin")
		}
	})
}

func TestMergeRefusesDifferingWidths(t *testing.T) {
	var red update.Reducer
	_, err := red.Merge([][]wire.Section{
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
			var red update.Reducer
			b.ReportAllocs()
			b.SetBytes(int64(workers * 10000 * 72))
			for b.Loop() {
				red.Reset()
				if _, err := red.Merge(bodies); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
