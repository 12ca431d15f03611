// Package link is the control plane between two processes: small framed messages, calls with bodies of any size, and who is alive.
//
// The owner of a listener runs a [Gate], which verifies the hello of each connection and hands it on by its [Purpose]: control and bulk connections to a
// [Server], others to whom they belong. A [Client] makes calls to servers at any number of addresses:
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
// A pair of processes has a control connection and, from the first large body on, a bulk connection made into a 2-rank p2p.Comm (the dialler is rank
// 0). Bodies of at most [MaxInline] bytes travel with their frame. A larger one is announced by its length; whoever receives it posts a receive for each
// chunk and then grants it: "call 7, chunk 3, 1 MiB". At most Window grants are out per direction, the next chunk is always one of the most urgent body, and
// the sender issues its sends strictly in the order of the grants, so that the two sides of the Comm stay in step. A cancelled body is drained: what was granted is still
// sent, as zeros if its memory was let go of. A chunk that spans several pieces of a body is gathered into one piece of memory first, since a Comm sends one.
//
// # Goroutines
//
// Run of Client and Server own all goroutines; an idle connection has four (owner, read, write, and bulk, which waits to make the Comm; a dialler's address one more); with a bulk Comm inflow, outflow and the
// Comm's Run are added, and what that starts (one in p2p/tcp). A
// handler is one more for each request. New starts nothing. The read loop never waits for anything but bytes, so that silence means silence. The caller of a
// method may be any goroutine unless the method says otherwise.
//
// # Wire format
//
// All integers are little endian. A connection begins with a hello and its verdict, each a u32 length (at most 4096) and so many bytes:
//
//	hello:    "hclp", u16 version, u8 purpose, u64 pair, text cluster, text from, text to, text info
//	verdict:  "hclp", u16 version, u8 code, text cluster, text id, text info, text reason
//
// where text is a u16 length and bytes, and code is 0 welcome, 1 wrong version, 2 wrong cluster, 3 wrong recipient, 4 malformed. Purposes are 1 control, 2 bulk,
// 3 raft control, 4 raft bulk, 5 raft snapshot. A bulk connection belongs to the Comm from then on. A control connection carries frames: u32 length of
// what follows, u8 kind, u64 call id, payload:
//
//	1 call       u8 priority, u8 0, u16 head length, u64 body length, head, body if it has at most 16 KiB
//	2 reply      u8 status, then as a call; status 0 ok, 1 no reply, 2 cancelled, 3 too large (the head is the reason)
//	3 grant      u32 chunk number, u32 bytes
//	4 cancel
//	5 heartbeat  id 0
//	6 goodbye    id 0; the reason as text
//	7 welcome    id 0; u32 calls that may be out at once; the acceptor's first frame
//
// Only the dialler calls, so an id names one call and direction of bodies: its own travels to the acceptor, the reply's to the dialler. Each call gets exactly one reply,
// a cancelled one too.
package link
