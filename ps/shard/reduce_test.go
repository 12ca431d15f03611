package shard

import (
	"math"
	"math/rand/v2"
	"testing"

	"hcclps/compress"
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

// encodeCoded is encodeSections of codes; of no codec it is encodeSections.
func encodeCoded(t *testing.T, codec string, sections []wire.Section) []byte {
	t.Helper()
	if codec == "" {
		return encodeSections(sections)
	}
	c, err := compress.Parse(codec)
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for _, s := range sections {
		code, err := compress.AppendRows(nil, c, s.Keys, s.Values, s.Dim, 3)
		if err != nil {
			t.Fatal(err)
		}
		b = wire.AppendSection(b, wire.Section{Table: s.Table, Dim: s.Dim, Rows: len(s.Keys), Code: code})
	}
	return b
}

// TestSumAndContributionsGiveTheSameBits applies the same steps in both forms,
// with every optimizer, and with contributions in codes.
func TestSumAndContributionsGiveTheSameBits(t *testing.T) {
	for _, how := range [][2]string{{"sgd"}, {"adagrad"}, {"adam"}, {"adam", "onebit"}, {"sgd", "int8"}, {"adagrad", "topk:0.5"}} {
		opt, codec := how[0], how[1]
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
			if len(bodies[0]) > 0 && codec == "" {
				bodies[0][0].Values[0] = math.MaxFloat32
			}
			it.Step, it.Payloads = step, nil
			red.Reset()
			for i, s := range bodies {
				it.Payloads = append(it.Payloads, encodeCoded(t, codec, s))
				var err error
				if bodies[i], err = red.Sections(it.Payloads[i]); err != nil {
					t.Fatal(err)
				}
			}
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
