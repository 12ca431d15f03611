package main

import (
	"slices"
	"testing"
)

func TestStagesGiveTheBitsOfOneProcess(t *testing.T) {
	piped, single, err := run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(piped, single) {
		t.Errorf("losses %v in stages, %v in one process", piped, single)
	}
	if len(piped) != steps || !(piped[steps-1] < piped[0]/2) {
		t.Errorf("losses %v: they do not fall", piped)
	}
}
