// Package pairbench measures a pair of ranks: one-way latency, one-way and two-way streams, and the CPU time they take.
//
// The two ranks are two processes, which [Listen] and [Dial] connect in the way of a transport; one of them does [Run], the other one
// [Serve]. [Together] makes both ranks in this process. Messages go through eight buffers in turn, as a program's do, whose contents
// are compared outside the timed part.
//
// A size is measured in rounds, of which the median counts. Latency is half a ping-pong; a stream has a window of messages under way,
// and ends when the receiver has said that it has all. The counts of messages come from a short trial of the same.
//
// Messages go straight through a p2p.Comm, which is what other libraries' transports compare with, or through a p2p.Transfer, as pushes and
// pulls go: announced, asked for and cut into chunks.
package pairbench
