// Package p2ptest tests backends of p2p, and what is built on them when things go wrong.
//
// [TestComm] is the suite that every backend runs, with [TestLarge] beside it; a [Pattern] is a body by formula.
// [Faulty] wraps a Comm that then delays, loses, corrupts and cuts by seed; [Halting] is a connection that stands still
// at a byte. [Net] is a network in this process between named hosts whose links can be cut, delayed and broken; it
// works inside testing/synctest bubbles. [Connect] makes real connections, [FreeAddr] is where a process that is to be
// started may listen. Only tests and benchmarks import this package.
package p2ptest
