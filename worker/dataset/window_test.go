package dataset

import (
	"slices"
	"testing"
)

// TestWindowIsBounded looks at when a window closes: the memory of a Reader.
func TestWindowIsBounded(t *testing.T) {
	var narrow rows
	for range WindowRows - 1 {
		narrow.close(1)
	}
	if narrow.full() {
		t.Error("full one row early")
	}
	if narrow.close(1); !narrow.full() {
		t.Error("not full")
	}
	wide := rows{keys: make([]uint64, windowEntries-1)}
	wide.close(1)
	if wide.full() {
		t.Error("full one entry early")
	}
	wide.keys = append(wide.keys, 1)
	if wide.close(1); !wide.full() {
		t.Error("wide rows do not fill a window")
	}
}

func TestDropTakesTheLastRow(t *testing.T) {
	var r rows
	for i := range 3 {
		for k := range uint64(i) {
			r.keys, r.values = append(r.keys, k), append(r.values, 1)
		}
		r.close(float32(i))
	}
	for n := 2; n >= 0; n-- {
		r.drop()
		if r.len() != n || len(r.keys) != r.start(n) || len(r.keys) != len(r.values) {
			t.Errorf("%d rows left: %+v", n, r)
		}
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
