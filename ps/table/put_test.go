package table_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"hcclps/ps/table"
)

// What was scanned from one table and put into another is the same table.
func TestPutRestoresWhatScanGave(t *testing.T) {
	spec := table.Spec{Dim: 3, Slots: 2, SlotInit: []float32{0.1, 0.2}, Init: table.Init{Kind: "uniform", A: -1, B: 1}, Seed: 7}
	rng := rand.New(rand.NewPCG(1, 2))
	var rows []table.Row
	for range 3000 {
		values := make([]float32, 5)
		for i := range values {
			values[i] = rng.Float32()
		}
		rows = append(rows, table.Row{Key: rng.Uint64N(1 << 40), Step: rng.Uint32(), Sightings: uint16(rng.Uint32()), Writer: uint16(rng.Uint32()), Values: values})
	}
	slices.SortFunc(rows, func(a, b table.Row) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	tab, err := table.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	// In two overlapping pieces: the second time a row is there already.
	for _, piece := range [][]table.Row{rows[:2000], rows[1000:]} {
		if err := tab.Put(piece); err != nil {
			t.Fatal(err)
		}
	}
	var got []table.Row
	tab.Scan(0, true, 0, func(r table.Row) bool {
		r.Values = slices.Clone(r.Values)
		got = append(got, r)
		return true
	})
	if !reflect.DeepEqual(got, rows) {
		t.Errorf("%d rows, want the %d that were put", len(got), len(rows))
	}
}

func TestPutRefusesBeforeItTouches(t *testing.T) {
	tab, err := table.New(table.Spec{Dim: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	for name, rows := range map[string][]table.Row{
		"a value too many": {{Key: 1, Values: []float32{1}}, {Key: 2, Values: []float32{1, 2}}},
		"keys descend":     {{Key: 2, Values: []float32{1}}, {Key: 1, Values: []float32{1}}},
		"a key twice":      {{Key: 2, Values: []float32{1}}, {Key: 2, Values: []float32{1}}},
	} {
		if err := tab.Put(rows); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if n := tab.Stats().Rows; n != 0 {
		t.Errorf("%d rows after refusals", n)
	}
}

// A capture keeps the rows as they were before a Put.
func TestPutIsSetAsideForACapture(t *testing.T) {
	tab, err := table.New(table.Spec{Dim: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	put := func(v float32) {
		t.Helper()
		if err := tab.Put([]table.Row{{Key: 5, Values: []float32{v}}}); err != nil {
			t.Fatal(err)
		}
	}
	put(1)
	c := tab.Capture()
	defer c.Close()
	put(2)
	copied, err := table.New(table.Spec{Dim: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	if err := c.Pages(true, 0, copied.Load, noLock{}); err != nil {
		t.Fatal(err)
	}
	if r, ok := copied.Row(5); !ok || r.Values[0] != 1 {
		t.Errorf("the capture has %+v, want 1", r)
	}
	if r, _ := tab.Row(5); r.Values[0] != 2 {
		t.Errorf("the table has %+v, want 2", r)
	}
}

type noLock struct{}

func (noLock) Lock()   {}
func (noLock) Unlock() {}
