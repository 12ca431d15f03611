package main

import (
	"slices"
	"testing"

	"hcclps/worker/dataset"
)

func TestTwoTowersPassTheBar(t *testing.T) {
	rows, bar := 40_000, 0.85
	if testing.Short() {
		rows, bar = 15_000, 0.75
	}
	called := false
	err := run(t.Context(), rows, func(auc float64) {
		called = true
		t.Logf("%d rows: test AUC %.4f", rows, auc)
		if auc < bar || auc > 0.92 {
			t.Errorf("test AUC %.4f of a model on %d rows: want %.2f, and no more than chance allows over 0.9", auc, rows, bar)
		}
	})
	if err != nil || !called {
		t.Fatalf("judged: %v: %v", called, err)
	}
}

// TestSourceGivesEveryRowOnceAnEpoch checks the contract of dataset.Source.
func TestSourceGivesEveryRowOnceAnEpoch(t *testing.T) {
	const rows = 2*batchRows + 3
	s := generate(7, rows)
	again := generate(7, rows)
	epoch := func() (sizes []int) {
		at := 0
		var b dataset.Batch
		for {
			more, err := s.Next(&b)
			if err != nil {
				t.Fatal(err)
			}
			if !more {
				return sizes
			}
			sizes = append(sizes, b.Rows)
			for i := range b.Rows {
				e := again.rows[at]
				at++
				if h := bag(&b, "history", i); !slices.Equal(h, e.history) || len(h) < 4 {
					t.Fatalf("row %d: history %v, drawn %v", at, h, e.history)
				}
				if !slices.Equal(bag(&b, "item", i), []uint64{e.item}) || !slices.Equal(bag(&b, "tags", i), e.tags) || b.Label[i] != e.label {
					t.Fatalf("row %d is not %+v", at, e)
				}
			}
		}
	}
	want := []int{batchRows, batchRows, 3}
	for range 2 {
		if got := epoch(); !slices.Equal(got, want) {
			t.Fatalf("batches of %v rows, want %v", got, want)
		}
	}
	var b dataset.Batch
	if err := s.Seek(3, 2); err != nil {
		t.Fatal(err)
	}
	if more, err := s.Next(&b); !more || err != nil || b.Rows != 3 {
		t.Errorf("after seeking the last batch: %v, %v, %d rows", more, err, b.Rows)
	}
	if err := s.Seek(3, 9); err != nil {
		t.Fatal(err)
	}
	if more, err := s.Next(&b); more || err != nil {
		t.Errorf("after seeking past the end: %v, %v", more, err)
	}
}

func bag(b *dataset.Batch, feature string, row int) []uint64 {
	c := b.Column(feature)
	return c.Keys[c.Offsets[row]:c.Offsets[row+1]]
}
