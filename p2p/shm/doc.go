// Package shm is a 2-rank Comm between two processes of one host, over memory that both have mapped.
//
// [Negotiate] makes it over a connection that the two have already, and finds out in doing so whether they are on one host: if they cannot
// share memory both get [ErrNotLocal] and go on over the connection in another way. [Comm.Run] watches the peer and moves bytes when
// nobody waits; it must run, or transfers may never end.
//
// # Who moves the bytes
//
// One goroutine at a time has the engine of a Comm and copies in both directions. Isend and Irecv try what can be done at once. A goroutine in
// [p2p.Request.Wait] takes the engine and looks for the peer's answer itself: for some microseconds without pause, then yielding the
// CPU between two looks. When that has mostly been in vain of late it does not try. What nobody drives is Run's: it waits for bytes on the
// connection, as Go waits for all connections, without a thread. A side that is about to stop looking says in its bell that it wants
// one, and the peer sends it with its next change: one byte, 1, whatever it has changed. So the peer pays for a system call only when it must
// wake somebody. While goroutines come to wait one after the other without a pause, nobody asks for rings between them; Run looks every
// millisecond whether they have stopped coming.
//
// # Memory
//
// Rank 0 makes one memfd, sealed so that neither side can take it away from under the other. It has no name in any file system, so nothing
// stays when both are killed. It holds control words, a ring of messages for each direction, and an arena for each rank's [Comm.Alloc],
// which takes address space at first and memory when it is used.
//
//	0      nonces of rank 0 and rank 1, 16 bytes each
//	4096   control words of rank 0, then at 5120 of rank 1:
//	         0 u64 head: bytes written to the own ring    16 u32 state: 0 open 1 closed 2 lengths differ 3 corrupt
//	         8 u64 tail: bytes taken from the peer's     256 u32 bell: 1 to be rung
//	8192   ring of rank 0, ring of rank 1
//	...    arena of rank 0, arena of rank 1
//
// A message in a ring is a header, which takes a line of 64 bytes, and the bytes, padded to whole lines; up to 48 bytes are in the header's
// line; of a message in the sender's arena the header says where, and the receiver reads it there.
//
//	0  u64 length
//	8  u32 number of the message in its direction, from 0
//	12 u16 kind: 1 in this line, 2 in the ring, 3 in the arena
//	14 u16 check over the other fields
//	16 u64 offset in the arena, or the message
//
// The writer shows a message piece by piece, at most 256 KiB each, so that the reader copies one while the writer copies the next. A send is
// complete when the tail has passed its end, which is when the receive has all of it. All words and headers from the peer are checked before
// they are used: a peer that breaks them is p2p.ErrCorrupt.
//
// # On the wire
//
// The negotiation is hello (48 bytes, rank 0 first, then rank 1), offer (32, rank 0) and verdict (8, rank 1); hello.go has their bytes;
// after it the connection carries nothing but the bytes of rings. Over
// a Unix socket the offer brings the descriptor of the memory with it. Otherwise rank 1 opens it as /proc/PID/fd/N, if that has the name
// that only the memory with the nonce of rank 0's hello has, and puts its own nonce beside it, which rank 0 checks. Two versions of the
// protocol, two users, two PID namespaces without a Unix socket and a system without /proc are not local.
package shm
