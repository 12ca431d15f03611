// Package backend is the one place that names the backends of p2p: who needs a network or a pair gets it here. It starts nothing, and its
// functions may be called concurrently; what they return says for itself who runs it.
//
// # What a pair gets
//
// Both ends tell each other what they would take (see offer.go) on the first connection of a pair, and decide alike: shared memory if both
// take it and are on one host, which is probed by sharing memory; else TCP, unless one end refuses to fall back. Beside that, over a connection of
// its own, two processes that own a device each make an HCCL pair if they are on two hosts or one of them asks for it by name; traffic moves to it
// when it is warm and back when it is suspect. What was picked and why is logged, and [Bulk.Picks] tells it.
//
// # Measured
//
// Where one end says [Measure] and neither wants a transport by name, all that the pair can have are tried when it is made, messages of 1 and 16 MiB
// going to and fro over each, for a second at most: shared memory and TCP one after the other over the pair's connections, which are lent for that
// (lease.go), HCCL when it is warm. The dialler keeps the one that took least time for as many bytes of either size, and tells the other end
// (trial.go). Frames of a lease cost TCP something; what differs by less may go either way.
package backend

import (
	"context"
	"log/slog"
	"net"

	"hcclps/p2p/link"
)

// Pair makes the bulk Comm of two processes that go by TCP alone; it is a [link.PairFunc]. The other side may use any [Bulk] that takes TCP.
func Pair(ctx context.Context, conns []net.Conn, rank int) (link.Comm, error) {
	tcpOnly := Bulk{cfg: Config{Transport: TCP, Logger: slog.New(slog.DiscardHandler)}, ours: offer{takes: viaTCP}}
	return tcpOnly.Pair(ctx, conns, rank)
}
