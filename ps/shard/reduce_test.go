package shard

import (
	"math"
	"math/rand/v2"
	"testing"

	"hcclps/ps/update"
	"hcclps/ps/wire"
)

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
		var red update.Reducer
		for step := range uint64(50) {
			bodies := randomBodies(r, 5)
			if len(bodies[0]) > 0 {
				bodies[0][0].Values[0] = math.MaxFloat32
			}
			it.Step, it.Payloads = step, nil
			for _, s := range bodies {
				it.Payloads = append(it.Payloads, encodeSections(s))
			}
			red.Reset()
			sum, err := red.Merge(bodies)
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
