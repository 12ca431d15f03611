package main

import "testing"

func TestTheTensorArrives(t *testing.T) {
	distance, err := run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := 1.0 / (1 << steps); distance != want { // a half is left of it after each step, exactly
		t.Errorf("distance %g, want %g", distance, want)
	}
}
