// Package tcp is a 2-rank Comm over one established stream connection, and the network that makes such connections on
// real sockets.
//
// [Pair] works over any net.Conn that both sides hold one end of: TCP, a Unix socket, an in-memory connection. [Comm.Run]
// owns the two goroutines that read and write; transfers asked for earlier wait for it.
//
// # On the wire
//
// Both directions are a sequence of frames: a header of 24 bytes, little endian, and for a data frame the payload.
//
//	0  2  magic "p2"
//	2  1  version, 1
//	3  1  kind, plus 128 if the sender is rank 1
//	4  4  CRC-32C of header bytes 0..3 and 8..23 and of the payload
//	8  8  length of the message
//	16 8  sequence number of the message in its direction, from 0
//
// The kinds are ready (1: the sender of this frame has posted the receive of that number and length), data (2: the
// message, sent only after its ready), done (3: all messages up to and including that number are taken; length 0) and
// refuse (4: message and receive of that number differ in length; this one is the message's).
//
// So a message is never on the wire before its receive is posted: the reader takes every frame at once, straight into
// its destination, neither direction can hold up the other, and the death of the peer is seen while nothing is under
// way. Who posts receives early, as the control plane does, pays no round trip for it.
package tcp
