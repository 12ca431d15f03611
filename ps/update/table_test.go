package update_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"hcclps/ps/table"
	"hcclps/ps/update"
	"hcclps/ps/wire"
)

func spec() wire.Table {
	return wire.Table{ID: 3, Name: "t", Dim: 2, Init: "zeros", Optimizer: "sgd", Params: map[string]float64{"lr": 1}, NonFinite: update.Reject}
}

func TestTablesThatCannotBeAreRefused(t *testing.T) {
	for what, change := range map[string]func(*wire.Table){
		"want a name":      func(w *wire.Table) { w.Name = "" },
		"0 values a row":   func(w *wire.Table) { w.Dim = 0 },
		"policy":           func(w *wire.Table) { w.NonFinite = "ignore" },
		"floor":            func(w *wire.Table) { w.Schedule.Floor = 2 },
		"unknown name":     func(w *wire.Table) { w.Optimizer = "sgdd" },
		"a dense tensor":   func(w *wire.Table) { w.Shape, w.Admit = []uint32{2}, wire.Admit{Kind: wire.AdmitProb, P: 1} },
		"0 sightings":      func(w *wire.Table) { w.Admit.Kind = wire.AdmitCount },
		"rows 5":           func(w *wire.Table) { w.Evict.Rows = 5 },
		"has no parameter": func(w *wire.Table) { w.InitParams = map[string]float64{"value": 1} },
	} {
		w := spec()
		change(&w)
		if _, err := update.New(w, update.Config{}); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestRowsAsTheyBegin(t *testing.T) {
	w := spec()
	w.Optimizer, w.Init, w.InitParams = "adagrad", "constant", map[string]float64{"value": 3}
	w.Params["initial_accumulator"] = 0.5
	schema, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	if row, err := update.Initial(schema, 7); err != nil || !slices.Equal(row, []float32{3, 3, 0.5, 0.5}) {
		t.Errorf("%v, %v", row, err)
	}
	for what, schema := range map[string]string{"description": "{", "want a name": "{}"} {
		if _, err := update.Initial([]byte(schema), 7); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", schema, err)
		}
	}
}

func TestPoliciesForWhatIsNotFinite(t *testing.T) {
	inf := float32(math.Inf(1))
	for policy, want := range map[string][]float32{
		update.Reject: nil,
		update.Zero:   {1, 0, 0, 0},
		update.Clip:   {1, math.MaxFloat32, -math.MaxFloat32, 0},
	} {
		w := spec()
		w.NonFinite = policy
		tab, err := update.New(w, update.Config{})
		if err != nil {
			t.Fatal(err)
		}
		s := wire.Section{Table: 3, Dim: 2, Keys: []uint64{7, 9}, Values: []float32{1, inf, -inf, float32(math.NaN())}}
		err = tab.Takes(s, 1)
		switch {
		case want == nil && (!errors.Is(err, update.ErrNonFinite) || !strings.Contains(err.Error(), `table "t", key 7: the gradient is +Inf`)):
			t.Errorf("%s: %v", policy, err)
		case want != nil && (err != nil || !slices.Equal(s.Values, want)):
			t.Errorf("%s: %v, %v", policy, s.Values, err)
		}
		if err := tab.Takes(wire.Section{Table: 3, Dim: 1}, -1); !errors.Is(err, update.ErrUnfit) {
			t.Errorf("rows of another width: %v", err)
		}
		_ = tab.Rows.Close()
	}
}

func TestAStepIsTheMeanOfItsRows(t *testing.T) {
	tab, err := update.New(spec(), update.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tab.Rows.Close() }()
	var r update.Reducer
	sum, err := r.Merge([][]wire.Section{
		{{Table: 3, Dim: 2, Keys: []uint64{1, 2}, Values: []float32{1, 2, 3, 4}}},
		{{Table: 3, Dim: 2, Keys: []uint64{2}, Values: []float32{5, 8}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	q, err := r.Divided(sum, 4, false)
	if err != nil || q.Bad(0) != -1 {
		t.Fatalf("bad %d, %v", q.Bad(0), err)
	}
	tab.Advance()
	if err := tab.Apply(q.Sections[0], table.Stamp{Step: 1}, tab.Step(0.5)); err != nil {
		t.Fatal(err)
	}
	got := make([]float32, 6)
	tab.Rows.Gather([]uint64{1, 2, 3}, got)
	if want := []float32{-0.125, -0.25, -1, -1.5, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("rows %v, want %v", got, want)
	}
	if err := tab.Put([]table.Row{{Key: 5, Values: []float32{1}}}); !errors.Is(err, update.ErrUnfit) {
		t.Errorf("a row of another width: %v", err)
	}
}
