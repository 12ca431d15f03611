// Package p2p moves bulk bytes between numbered ranks, and nothing else.
//
// A [Comm] connects a fixed set of ranks, which send and receive messages whose length both sides know. The folders below
// have the backends: inproc for ranks of one process, tcp for two processes. Each keeps the promises written on Comm,
// which are those of HCCL, and runs the suite of p2ptest; what is built on a Comm depends on nothing more.
//
// # Use
//
// Post receives before the peer sends, begin several transfers, then wait for them:
//
//	recv := comm.Irecv(peer, p2p.Bytes(in))
//	send := comm.Isend(peer, p2p.Bytes(out))
//	err := errors.Join(recv.Wait(ctx), send.Wait(ctx))
//
// [Send] and [Recv] are the blocking forms. Two ranks that both Send before they Recv may wait for each other for ever.
//
// # Goroutines and time
//
// Isend and Irecv do not block, Wait does and takes a context; there is no other time-out here. Whether a silent peer
// lives is found out on the control plane, which then closes the Comm. A backend that needs goroutines has a
// Run(ctx) method that owns them.
//
// # Failure
//
// A Comm is for one epoch of membership. After any error but [ErrRank] it is dead and is replaced, not repaired. A
// message that failed may have arrived: what must happen exactly once needs a name of its own above this package.
//
// # Writing a backend
//
// Return a Request made by [NewRequest] and end it with its [Completion] when, and not before, the buffer is no longer
// needed; check ranks with [CheckPeer]; answer calls to a dead Comm with [Dead]; run p2ptest.TestComm. A power that
// only some backends have is an interface of its own, which callers find by type assertion; Comm does not grow.
package p2p
