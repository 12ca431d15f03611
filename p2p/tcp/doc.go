// Package tcp is a 2-rank Comm over established stream connections.
//
// [Pair] works over any net.Conn that both sides hold one end of: TCP, TLS, a Unix socket, an in-memory connection; package sockets makes the
// first three. Over several, the stripes, a long message is cut into pieces that all of them carry. [Comm.Run] owns the goroutines that read and write, two a
// connection; transfers asked for earlier wait for it.
//
// A TCP connection within the host is given a congestion control that does not pace (cubic, else reno), whatever the system's own is.
//
// # On the wire
//
// Both directions of every connection are a sequence of frames: a header of 32 bytes, little endian, and for data the payload.
//
//	0  2  magic "p2"
//	2  1  version, 3
//	3  1  kind, plus 128 if the sender is rank 1, plus 64 if it is early data
//	4  4  CRC-32C of header bytes 0..3 and 8..31
//	8  8  sequence number of the message in its direction, from 0
//	16 8  ready, refuse: length of the message; data, raw: offset of the payload in it; done: 0
//	24 4  data, raw: bytes of payload; else 0
//	28 4  data: CRC-32C of the payload; else 0
//
// The kinds are ready (1: the sender of this frame has posted the receive of that number and length), data (2: a piece of the
// message, sent after its ready), done (3: all messages up to and including that number are taken), refuse (4: message and
// receive of that number differ in length; this one is the message's) and raw (5: data without a sum). Data and raw travel on any
// connection, in any order, every byte once; the others on the first connection only. An empty message is one empty piece.
//
// A message of at most 32 KiB of whose receive nothing is known travels early, in one frame on the first connection, if all messages before it are
// on their way too. Its receiver reads it straight into the receive, or keeps it until that is posted, and need not announce that receive any more. No
// more than 256 messages and 256 KiB are on their way so, whose sender has heard neither ready nor done; one that sends more is broken. If the lengths
// differ, the receive is announced, and then refused.
//
// A longer message is never on the wire before its receive is posted. So the reader takes every frame at once, neither direction can hold up the
// other, what a peer can make this side keep is bounded, and the death of the peer is seen while nothing is under way. Who posts
// receives early, as the control plane does, pays no round trip for long messages either.
package tcp
