package main

import (
	"runtime"
	"slices"
	"testing"
)

func TestCPUShare(t *testing.T) {
	for _, c := range []struct {
		env             []string
		cpus, processes int
		want            int
	}{
		{nil, 2, 2, 1},
		{nil, 2, 5, 1},
		{nil, 64, 5, 12},
		{nil, 8, 1, 8},
		{nil, 8, 0, 8},
		{[]string{"PATH=/bin", "GOMAXPROCS=3"}, 8, 2, 0},
		{[]string{"NOGOMAXPROCS=3"}, 8, 2, 4},
	} {
		if got := cpuShare(c.env, c.cpus, c.processes); got != c.want {
			t.Errorf("%q, %d CPUs, %d processes: %d, want %d", c.env, c.cpus, c.processes, got, c.want)
		}
	}
	if got := shareVariable(3); !slices.Equal(got, []string{"GOMAXPROCS=3"}) {
		t.Errorf("%q", got)
	}
	if got := shareVariable(0); len(got) > 0 {
		t.Errorf("%q where the environment has one", got)
	}
}

func TestAShareIsGivenBack(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	back := takeShare(1)
	if n := runtime.GOMAXPROCS(0); n != 1 {
		t.Errorf("GOMAXPROCS is %d", n)
	}
	back()
	if n := runtime.GOMAXPROCS(0); n != before {
		t.Errorf("GOMAXPROCS is %d, was %d", n, before)
	}
}
