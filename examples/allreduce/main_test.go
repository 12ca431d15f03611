package main

import "testing"

func TestWorkersEndWithTheSameParameters(t *testing.T) {
	results, err := run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.digest == "" || r.digest != results[0].digest || r.auc < 0.90 || r.rows != 6*batches*batch/workers {
			t.Errorf("%+v: want the parameters of all, AUC 0.90 and a fourth of the rows", r)
		}
	}
	if len(results) != workers {
		t.Errorf("%d workers", len(results))
	}
}
