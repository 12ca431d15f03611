// Package p2p moves bulk bytes between numbered ranks, and nothing else.
//
// A [Comm] connects a fixed set of ranks, which send and receive messages whose length both sides know. The folders below
// have the backends: inproc for ranks of one process, and for two processes shm on one host, tcp over any connection and
// hccl between NPUs. Each keeps the promises written on Comm, which are those of HCCL, and runs the suite of p2ptest;
// what is built on a Comm depends on nothing more.
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
// # Transfer
//
// A [Transfer] is one end of a pair of processes: it moves messages of any size, many at once and in both directions,
// over one Comm after the other. Small messages about them, signals, go over a control plane that the owner has; it
// also announces each transfer by its id and length. Then
//
//	out := t.Send(id, body)                 // at the one side
//	in := t.Receive(id, p2p.Push, dst)      // at the other, when it has been told
//
// and each waits for Done. The receiver decides: it asks for one chunk after the other, of the most urgent class first,
// with at most a window of them on their way ([SignalGrant]), and posts their receives in that order; the sender issues
// its sends strictly in the same order, so that the two sides of the Comm stay in step without tags. A chunk that is
// not in one piece of memory is gathered first, but over a Comm that is a [Gatherer], which takes it from several
// places if they are few.
//
// Over a Comm that is [Patient] and a [Confirmer] the first bytes of a transfer go without being asked for, which spares a round trip: at
// most 1 MiB and a bit in a direction, as the receiver says by [SignalCredit]. The sender does so only while all else that it has offered is asked
// for, since then the receiver, which asks for nothing of which it was not told, cannot be asking; it says [SignalUnasked] before the
// transfer is announced, and both sides know the order. What comes so is received into its destination if that is known by the turn of the
// next transfer, else aside, and the receiver takes no more until that is gone. So signals and announcements have one order at the other side.
//
// A [Source] makes the bytes chunk by chunk and a [Sink] takes them so: a codec fills chunk i+1 while chunk i is on the
// wire and chunk i-1 is being applied. On a Comm that is [Piecewise] they work straight in its memory.
//
// A transfer may be given up by either side at any moment; the memory is free as soon as nothing of it is on its way,
// and the Comm stays in step: what was asked for is still sent. If the sender gives up it says [SignalVoid] and sends
// other bytes only when it has heard [SignalDropped], by which the receiver promises to take none of them for true. If
// the receiver gives up, SignalDropped is all.
//
// What was asked for stays readable at the sender until it is known that the receiver has it: over a Comm that is a
// [Confirmer] by the completion of the send, which the receiver announces by [SignalGrantSure], over others by
// [SignalTaken].
//
// The life of one Comm is an epoch. When it dies on one side, that side ends the epoch and says in [SignalReset] how
// many chunks it has taken in it; the other side ends it too and says the same. So both know what has arrived, in the
// same order, and the next epoch goes on from there: nothing comes twice and nothing is lost. Rank 0 begins each epoch,
// when there is something to move. The first tries wait up to 100 ms, 200 ms and 400 ms; a last one follows; when none
// of them brought a byte through, Run returns an error with the first cause, and each transfer ends with a
// [TransferError]. A side on which nothing arrives for 15 s that was asked for ends the epoch as well.
//
// [Transfer.Upgrade] moves the pair to a better Comm made beside the one in use. Rank 0 says [SignalPause] when both
// have it ([SignalReady]), and so does rank 1: neither asks for more; when what was asked for has arrived the epoch
// ends, and the next one is the better Comm's. When that dies, the next is an ordinary one.
//
// How much is asked for is decided by pure functions: [ModePolicy], [WindowPolicy], [ChunkPolicy] and [RetryPolicy].
//
// # Goroutines and time
//
// Isend and Irecv do not block, Wait does and takes a context; there is no other time-out here. Whether a silent peer
// lives is found out on the control plane, which then closes the Comm. A backend that needs goroutines has a Run(ctx)
// method that owns them. Run of a Transfer is one goroutine, and five more while a Comm is open: the Comm's Run, and
// two for each direction that begin and end chunks.
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
