// Package region is one piece of memory that all ranks of a host have mapped, and words in it by which they wait for each other. Collectives reduce
// straight from it.
//
// [Open] makes it over a Comm that the ranks have already, and finds out in doing so whether they are on one host: if any of them cannot map the memory all get
// [ErrNotLocal], and the Comm is as it was. [Local] makes it for ranks that are goroutines of one process.
//
// # Use
//
// Every rank has a stretch of the memory, which it gives out by [Region.Alloc] from its beginning on, and which others read and write as they have agreed. Any
// aligned 8 bytes of it may be used as a word: its owner raises it with [Region.Post], after it has written what the word stands for; others that see the new
// value, by [Region.Look] or [Region.Await], see what was written before. One goroutine at a time may call Post, Look and Await of a rank.
//
// # Waiting
//
// Look reads the word again and again: for some microseconds without pause, then giving the CPU to others between two looks. That costs little while others have
// something to do with it; when nobody has, it soon stops. Await looks, and then sleeps in the kernel. Post costs a system call only while somebody sleeps. A
// sleeper wakes every 10 ms to see whether its context has ended and whether the rank it waits for is still there.
//
// # Ends
//
// A rank that is done calls [Region.Leave]; one whose process has died is noticed through its pidfd. Who awaits something of either gets p2p.ErrPeer, unless it was
// posted before. [Region.Close] unmaps the memory. It is a memfd, which has no name in any file system, so nothing stays when all processes are killed,
// and it is sealed, so that nobody can take it away from under the others.
//
// # Layout
//
// Numbers are little endian. The control words of rank r are at 128 x (r + 1); the ranks' memories follow, from the next page on.
//
//	0    u32 how many ranks sleep
//	128  16 bytes nonce of the rank, by which it shows that it has mapped the memory; u32 process id
//	192  u32 bell: 1 while it sleeps; u32 state: 0 here, 1 has left
//
// # On the wire
//
// The first rank sends each of the others an offer, each answers, and when all have, each gets the verdict; wire.go has their 64 bytes. The others open the memory
// as /proc/PID/fd/N, if that has the name that only the memory with the nonce of the offer has. Two users, two PID namespaces and a system without /proc are not
// local. Two versions of the protocol are an error.
package region
