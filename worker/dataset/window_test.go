package dataset

import (
	"slices"
	"testing"
)

// TestWindowIsBounded looks at when a window closes: the memory of a Reader.
func TestWindowIsBounded(t *testing.T) {
	narrow := rows{shape: newShape("f")}
	for range WindowRows - 1 {
		narrow.endBag()
		narrow.close(1, 1)
	}
	if narrow.full() {
		t.Error("full one row early")
	}
	if narrow.close(1, 1); !narrow.full() {
		t.Error("not full")
	}
	wide := rows{shape: newShape("f"), keys: make([]uint64, windowEntries-1)}
	wide.close(1, 1)
	if wide.full() {
		t.Error("full one entry early")
	}
	wide.keys = append(wide.keys, 1)
	if wide.close(1, 1); !wide.full() {
		t.Error("wide rows do not fill a window")
	}
}

func TestDropAndUndo(t *testing.T) {
	r := rows{shape: &shape{bags: make([]part, 2), numerics: make([]part, 3)}}
	fill := func(n int) {
		for f := range 2 {
			for k := range n * (f + 1) {
				r.add(uint64(k), 1)
			}
			r.endBag()
		}
		r.numeric = append(r.numeric, 1, 2, 3)
	}
	for i := range 4 {
		fill(i)
		r.close(float32(i), 1)
	}
	fill(7)
	r.undo()
	for n := 4; n > 0; n-- {
		if r.len() != n || len(r.weight) != n || len(r.ends) != 2*n || len(r.keys) != 3*n*(n-1)/2 || len(r.numeric) != 3*n {
			t.Errorf("%d rows left: %+v", n, r)
		}
		r.drop()
	}
	if len(r.keys)+len(r.ends)+len(r.numeric)+len(r.values) != 0 {
		t.Errorf("no rows left: %+v", r)
	}
}

// TestPermutationIsFair counts the orders of four items.
func TestPermutationIsFair(t *testing.T) {
	const rounds = 24_000
	orders := map[[4]int32]int{}
	var perm []int32
	for i := range rounds {
		perm = permutation(perm, 4, 5, i/100, i%100)
		if sorted := slices.Sorted(slices.Values(perm)); !slices.Equal(sorted, []int32{0, 1, 2, 3}) {
			t.Fatalf("%v is no permutation", perm)
		}
		orders[[4]int32(perm)]++
	}
	for order, n := range orders {
		if n < rounds/24*8/10 || n > rounds/24*12/10 {
			t.Errorf("order %v came %d times of %d", order, n, rounds)
		}
	}
	if len(orders) != 24 {
		t.Errorf("%d orders of 24", len(orders))
	}
}
