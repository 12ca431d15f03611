package main

import "testing"

func TestHybridLearns(t *testing.T) {
	auc, err := run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if auc < 0.82 {
		t.Errorf("test AUC %.4f, want 0.82", auc)
	}
}
