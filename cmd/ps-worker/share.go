package main

import (
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// cpuShareHelp is the sentence of commands that start processes.
const cpuShareHelp = "Each process gets GOMAXPROCS = CPUs / processes, at least 1, unless the environment has one."

// cpuShare is the GOMAXPROCS of each of so many processes that work on one machine at the same time; 0 leaves it as it is, since the environment
// has one. A process that takes all CPUs hands its work from one to another while its neighbour needs them.
func cpuShare(env []string, cpus, processes int) int {
	if slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "GOMAXPROCS=") }) {
		return 0
	}
	return max(1, cpus/max(1, processes))
}

// shareVariable is the variable that tells a process its share.
func shareVariable(share int) []string {
	if share == 0 {
		return nil
	}
	return []string{"GOMAXPROCS=" + strconv.Itoa(share)}
}

// takeShare takes a share of the CPUs for this process until back is called.
func takeShare(share int) (back func()) {
	if share == 0 {
		return func() {}
	}
	before := runtime.GOMAXPROCS(share)
	return func() { runtime.GOMAXPROCS(before) }
}
