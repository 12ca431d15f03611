// Package hccl is a Comm between two NPUs, over HCCL.
//
// [Open] checks the device, [Device.Run] owns its threads, [Device.Pair] makes the Comm of a pair over a stream connection
// between the two processes, and [Comm.Run] moves its bytes:
//
//	device, err := hccl.Open(hccl.Config{Device: 0})
//	go device.Run(ctx)
//	comm, err := device.Pair(ctx, conn, rank) // the other side does the same
//	go comm.Run(ctx)
//
// Buffers are host memory or, by [Device.Alloc], memory of the device. HCCL takes device memory only, so host memory is
// staged in pieces: copied to pinned memory, from there to the device, and sent, each piece while the one before is a
// step further. Memory of [Comm.Alloc] is pinned already, and IsendFunc and IrecvFunc work in pinned memory. [Reservation] and
// [World] are communicators of more ranks, with HCCL's own collectives.
//
// # Threads
//
// HCCL and its runtime know a device by OS thread, want all operators of a device from one thread, and block in places
// for minutes. So a device has four threads, locked to their goroutines for life. The issuer makes every operator call
// of every communicator. The builder creates and destroys communicators. The steward allocates memory and makes and
// aborts streams: it never waits for a peer. The waiter looks at events, and every second at the asynchronous errors
// of the communicators. Config.SingleThread folds the first three, if a library should demand it.
//
// # The order of operators
//
// Send and Recv have no tags and wait for each other on the stream. Two operators of one communicator must not run at the
// same time, so a pair has one stream for both directions, and both sides must put the same operators there in the same order. The
// connection of the pair is where they agree: rank 0 plans. Rank 1 tells it of every message it posts, of every piece
// it has staged to send and of every slot it has free to receive into. A step is one Send on one side and the Recv of it
// on the other. Rank 0 plans a step when the message is posted on both sides with the same length, its piece is staged and
// there is room for it; the directions take turns; it issues its own half and tells rank 1, which issues the
// other half. Lengths that differ are found before anything is issued.
//
// It follows that no operator ever waits on the stream for a host: a slow codec or a receive that nobody posted holds up
// its direction only, before the stream. Pairs of a device share no stream, and after the warm-up no call of the
// issuer blocks, so pairs do not hold each other up either. The slots of a direction are a fixed number for each pair, so no
// pair waits for another's memory. Hence there is no circle of waits.
//
// # Making a pair
//
// The first operator of each direction of a pair blocks its caller until the peer is in it, and creations on a device are
// serial. Pair therefore holds the one permission of its device while it creates and warms up, and takes the two
// devices' permissions in the order of their keys (host, number), so that devices never wait for each other in a circle.
// In order: hello with chip, device, versions and sizes, which both sides judge by the same function; permission and
// memory budget; ready from both; root info from rank 0; creation; streams; the first message of each direction, that
// from the lower key first, whose bytes are checked. Only then does Pair return.
//
// # When a peer is lost
//
// HCCL notices after minutes. The end of the connection tells at once, also while a thread is stuck:
//
//   - In a creation: Pair fails. HCCL cannot call a creation off, so no pair can be made on the device (ErrBusy) until
//     HCCL gives it up after HCCL_CONNECT_TIMEOUT and 20 s. Pairs that exist are not touched.
//   - In the first operator: the builder destroys the communicator, which frees the issuer. A peer that is silent gets
//     Config.WarmTimeout.
//   - Later: the steward aborts the pair's streams, then the communicator is destroyed. The 910A has no abort: there it all comes
//     back when the exec time-out is over, in the background.
//
// A Comm that is closed ends together with its peer, see Close: steps that are planned are done on both sides and nothing
// has to be aborted. The next epoch of the pair is a new communicator with a new name.
//
// A failed operator does not keep the event behind it from happening, so after each event the streams are asked for errors.
// Every error of the libraries is an [acl.Error] with code, EI code, the library's words and what to check.
//
// # On the connection
//
// Frames of 32 bytes and data, little endian:
//
//	0  2  magic "hc"
//	2  1  version, 1
//	3  1  kind
//	4  1  flow: the rank that sends; in a bye the reason: 0 closed, 1 lengths differ, 2 failed
//	5  1  flags: 1 in device memory, 2 last step of its message
//	6  2  0
//	8  8  n: bytes of a message or a step, or a number of pieces
//	16 8  m: in a bye of reason 1 the length of the receive
//	24 4  length of the data, at most 8192
//	28 4  0
//
// Kinds: hello 1 (data: JSON), refuse 2 (data: why), ready 3, root 4 (data: root info and name), made 5, warmed 6; then
// from rank 1 post 7, staged 8, room 9; from rank 0 step 10; bye 11 (data: the flow of reason 1, or why) and drained 12.
// A message of length 0 is a step of 0 bytes, for which nothing is issued.
package hccl
