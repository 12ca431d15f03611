package table

import (
	"slices"
	"testing"
)

// TestFarRowsAreLikeOthers: a table of wide rows that is too large for the caches is written and read by other loops.
func TestFarRowsAreLikeOthers(t *testing.T) {
	const dim, rows = wideDim, farBytes/4/wideDim + 100
	tab, err := New(Spec{Dim: dim, Init: Init{Kind: "uniform", A: -1, B: 1}, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tab.Close() }()
	var keys []uint64
	for i := range uint64(rows) {
		keys = append(keys, 2*i)
	}
	grads := make([]float32, rows*dim)
	for i := range grads {
		grads[i] = float32(i)
	}
	for step := range uint32(2) { // the second finds a table that is far
		if err := tab.Apply(keys, grads, Stamp{Step: step + 1}, set{}); err != nil {
			t.Fatal(err)
		}
	}
	if tab.units.mapped < farBytes {
		t.Fatalf("%d bytes are not far", tab.units.mapped)
	}
	var asked []uint64
	for i := range uint64(300) {
		asked = append(asked, 37*i) // every other one is missing
	}
	got, row := make([]float32, len(asked)*dim), make([]float32, dim)
	tab.Gather(asked, got)
	for i, key := range asked {
		if key%2 == 0 {
			r, ok := tab.Row(key)
			if !ok || r.Step != 2 || r.Sightings != 2 || !slices.Equal(r.Values, grads[int(key)/2*dim:][:dim]) {
				t.Fatalf("row %d: %v, step %d, %d sightings", key, ok, r.Step, r.Sightings)
			}
			row = r.Values
		} else {
			tab.init.fill(key, row)
		}
		if !slices.Equal(got[i*dim:][:dim], row) {
			t.Fatalf("gathered another row for key %d", key)
		}
	}
}

// set makes the gradient the weights.
type set struct{}

func (set) Update(row, grad []float32) { copy(row, grad) }
