// Package link is the control plane between two processes: small framed messages, calls with bodies of any size, and who is alive.
//
// The owner of a listener runs a [Gate], which verifies the hello of each connection and hands it on by its [Purpose]:
// control and bulk connections to a [Server], others to whom they belong. A [Client] makes calls to servers at any
// number of addresses:
//
//	reply, err := client.Call(ctx, "s1:7001", link.Call{Head: head, Body: [][]byte{keys}, Priority: link.Pull})
//
// and a [Handler] answers them:
//
//	func (h *handler) Serve(ctx context.Context, r *link.Request) {
//		keys, err := r.Body(ctx) // only now does a large body travel
//		...
//		err = r.Reply(head, rows)
//	}
//
// [Route] repeats a call over the replicas of a shard until its deadline.
//
// # Promises
//
// A call reaches the handler at most once; there are no retries below Route. A dead connection fails its calls at once with [ErrPeer] and is dialled
// anew by the next Call; an address that could not be dialled fails calls at once for a moment, with the error of that dial. Both sides send a
// heartbeat every 500 ms; 2 s of silence end the connection. Memory of calls and replies is copied or let go of before Call and Reply return. No wait
// outlives the caller's context, on the server the handler's, or the connection.
//
// # Bodies
//
// A pair of processes has a control connection and, from the first large body on, a bulk Comm of two ranks (the dialler
// is rank 0) over Stripes bulk connections. Bodies of at most [MaxInline] bytes travel with their frame. A larger one
// is announced by its length and moved by a [p2p.Transfer], whose signals are frames of the control connection: pull
// before push before background, at most Window chunks on their way in a direction. Nothing of a body travels before it
// is asked for, except over shared memory, where up to 1 MiB and a bit of what is on its way needs no leave. A cancelled
// body is drained, and nobody takes what is drained for true. A body may be memory, or be made by a [p2p.Source] and taken by a [p2p.Sink],
// which work on one chunk while another is on the wire.
//
// A bulk connection that breaks, stands still or brings other bytes than were sent costs no call: the dialler opens the
// next epoch, and the bodies go on from the first chunk that had not arrived. When four tries bring no byte through,
// the session ends and its calls fail.
//
// With an [UpgradeFunc] on both sides the dialler opens one more connection, in the background, of which both make a
// better Comm. It may take a minute. Then bodies go over that, from one chunk to the next. When it dies they go on over
// what [PairFunc] makes, at once, and the upgrade is tried again after 1 s and up to a minute.
//
// A PairFunc or an UpgradeFunc that fails with [ErrUnusable] ends the session on both sides, and for 5 s no other is made.
//
// # Goroutines
//
// Run of Client and Server own all goroutines; an idle connection has four (owner, read, write, and that of the
// Transfer; a dialler's address one more, an upgrade one on each side); with a bulk Comm those of p2p.Transfer are
// added. A handler is one more for each request. New starts nothing. The read loop never waits for anything but bytes,
// so that silence means silence. The caller of a method may be any goroutine unless the method says otherwise.
//
// For a quarter of a millisecond after a frame the read loop looks at its socket between yields before it sleeps for it, if that is
// a Unix socket and the bulk Comm is none of sockets, while that mostly has success and CPUs are free: to be woken, and to wake, costs more than
// most of what a peer does for a call.
//
// # Wire format
//
// All integers are little endian. A connection begins with a hello and its verdict, each a u32 length (at most 4096) and so many bytes:
//
//	hello:    "hclp", u16 version, u8 purpose, u64 pair, u32 epoch, u8 stripe, u8 stripes, text cluster, text from, text to, text info
//	verdict:  "hclp", u16 version, u8 code, text cluster, text id, text info, text reason
//
// where text is a u16 length and bytes, and code is 0 welcome, 1 wrong version, 2 wrong cluster, 3 wrong recipient, 4
// malformed. Purposes are 1 control, 2 bulk, 3 raft control, 4 raft bulk, 5 raft snapshot, 6 upgrade. A bulk connection
// is stripe 0 to stripes-1 of its epoch, an upgrade connection is stripe 0 of 1 and its epoch the number of the
// attempt; others have zeros there. A bulk or upgrade connection belongs to the Comm from then on. A control connection
// carries frames: u32 length of what follows, u8 kind, u64 call id, payload:
//
//	1 call       u8 priority, u8 0, u16 head length, u64 body length, head, body if it has at most 16 KiB
//	2 reply      u8 status, then as a call; status 0 ok, 1 no reply, 2 cancelled, 3 too large (the head is the reason)
//	3 signal     id 0; u8 kind, u32 epoch, u64 id, u64 offset, u32 bytes, text to the end: a p2p.Signal
//	4 cancel
//	5 heartbeat  id 0
//	6 goodbye    id 0; the reason as text, which begins with that of ErrUnusable if it is final
//	7 welcome    id 0; u32 calls that may be out at once; the acceptor's first frame
//
// Only the dialler calls, so an id names one call and direction of bodies: its own travels to the acceptor, the reply's
// to the dialler. Each call gets exactly one reply, a cancelled one too.
package link
