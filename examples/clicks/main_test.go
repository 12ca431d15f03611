package main

import "testing"

// TestDeepFMComesNearTheBest runs the program on fewer rows than it takes by
// itself, and allows what those cost: the program's own gap is below 0.01.
func TestDeepFMComesNearTheBest(t *testing.T) {
	rows, gap := 60_000, 0.02
	if testing.Short() {
		rows, gap = 25_000, 0.04
	}
	r, err := run(t.Context(), rows)
	if err != nil {
		t.Fatal(err)
	}
	auc := r.test.AUC()
	t.Logf("%d rows in %.1f s: test AUC %.4f, best possible %.4f", r.rows, r.took.Seconds(), auc, r.best)
	if auc < r.best-gap || auc > r.best+0.005 {
		t.Errorf("test AUC %.4f: want at most %.3f less than %.4f, and no more than chance allows above it", auc, gap, r.best)
	}
	if r.test.Rows() != rows/5 {
		t.Errorf("%d rows judged, want %d", r.test.Rows(), rows/5)
	}
}
