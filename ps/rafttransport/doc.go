// Package rafttransport carries the Raft messages of all groups of one server: a raft.Transport for each group over connections that
// the groups share.
//
// A Mux owns the connections. The owner of the listener hands it those whose hello says RaftControl, RaftBulk or RaftSnapshot; it
// dials the others itself. A server that sends requests to another one has
//
//   - a control connection: votes, pre-votes, heartbeats and leadership transfers of all groups. A request is a few hundred bytes and
//     waits for nobody else's: each one is answered by its own goroutine, in any order.
//   - a bulk connection: AppendEntries of all groups. Requests of one group are answered in order, those of different groups do not
//     wait for each other. A slow one never delays a heartbeat, which travels on the other connection.
//   - a connection for each snapshot while it is sent.
//
// So a pair of servers that both lead something has four connections. Each costs a goroutine at either end; a pipeline to a follower
// costs the leader one more, a request a goroutine while it is served: with 17 groups on 3 servers about 20 goroutines a server,
// beside Raft's own of 5 or 6 a group (TestIdleCost counts them).
//
// raft.ServerAddress is the server's id, never a host and port: Config.Resolve says at every dial where the server is now. Hello and
// every request name cluster, group and the recipient's id; a request that is meant for somebody else is answered
// link.ErrWrongRecipient and never reaches Raft.
//
// Payloads of entries are not copied: the sender pins them in its log and gives them to writev, the receiver reads them straight into
// space of its own group's log. Their CRC is made once, by the leader's log, and travels in the header; the receiver puts it into
// raft.Log.Extensions (4 bytes, little endian, CRC-32C of Data) and verifies it unless the peer is on the same host. An AppendEntries
// with more than 2 MiB of payload is sent in parts, each with the right previous entry; the answer is the first refusal, or the last.
// (8 MiB are accepted; an entry that is larger travels alone.)
//
// Peers die and come back: a connection that fails, or from which nothing has been heard while a request timed out, is closed, and
// the next request dials again, with back-off. Requests are bounded by Config.Timeout (control) and five times as much (bulk; and
// silence during a snapshot).
//
// Goroutines: New and Group start nothing, Run owns everything that is started. To stop, shut raft down first (Transport.Close before
// raft.Shutdown cuts short what waits for dead peers), then end Run, then close the logs. Run waits until raft has answered what it
// has taken, because the payloads lie in the log until then.
//
// # Wire
//
// After link's hello both directions carry frames. Integers are little endian, CRCs are CRC-32C.
//
//	0   4  length of the head, at most 1 MiB
//	4   1  kind: 1 append, 2 vote, 3 pre-vote, 4 timeout now, 5 install snapshot; 128 more: its answer; 127: still at work
//	5   3  zero
//	8   8  number of the request, chosen by the dialler; in the answer too
//	16  4  group
//	20  4  CRC of bytes 0..19 and the head
//	24  .. head
//
// The head of a request begins with the recipient (1 length, id) and Raft's header (1 protocol version, 1 length, id, 1 length,
// address). Then:
//
//	append            8 term, 8 previous index, 8 previous term, 8 leader's commit index, 4 number of entries, for each:
//	                  8 index, 8 term, 8 appended at (ns since 1970, 0 = unknown), 4 length, 4 CRC of the payload, 1 type, 3 zero;
//	                  the payloads follow the head back to back
//	vote              8 term, 8 last index, 8 last term, 1 leadership transfer
//	pre-vote          8 term, 8 last index, 8 last term
//	timeout now       nothing
//	install snapshot  1 snapshot version, 8 term, 8 last index, 8 last term, 8 configuration index, 8 size, 4 length, configuration;
//	                  size bytes of the snapshot's stream follow the head
//
// The head of an answer: 1 status (0 fine, 1 Raft's error, 2 wrong recipient, 3 not accepted), then the fields 8 term, 8 last index,
// 1 flags (1 success or granted, 2 no back-off), 1 protocol version, or the error: 2 length, text.
package rafttransport
