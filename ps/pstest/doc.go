// Package pstest is the verifier: a cluster in one process, clients that push,
// pull, restart and misbehave, faults, and a judge who knows what the servers
// may have answered.
//
// [NewScenario] makes of a seed what every client does, with which data, and
// which faults happen when. [Run] plays it on three servers over a network
// that can be cut, delayed and broken, and returns a [History] of all that was
// asked and answered. [Judge] compares the history with a model in which every
// acknowledged step was applied once and every other at most once:
//
//	h, err := pstest.Run(ctx, pstest.NewScenario(7), pstest.Options{Dir: t.TempDir()})
//	err = pstest.Judge(h)
//
// Run belongs in a testing/synctest bubble: then minutes of waiting take no
// time, and nothing in the package sleeps for real. The order in which
// goroutines of the cluster run is not a function of the seed, so the history
// of a failing run is kept ([History.Save]); judging it again gives the same
// verdict.
//
// The judge has its own arithmetic and its own idea of which key travels in
// which part; it takes from the servers only the layout, the descriptions of
// tables and the initial rows. Tables of bsp jobs may admit and evict; then the judge knows which rows are left.
//
// [Serve] runs a cluster as a user does, for tests of what is built on it. Only tests and benchmarks import this package.
package pstest
