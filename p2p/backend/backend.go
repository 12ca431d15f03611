// Package backend is the one place that names the backends of p2p: who needs a network or a pair gets it here. It starts nothing, and its
// functions may be called concurrently; what they return says for itself who runs it.
//
// # What a pair gets
//
// Both ends tell each other what they would take (see offer.go) on the first connection of a pair, and decide alike: shared memory if both
// take it and are on one host, which is probed by sharing memory; else TCP, unless one end refuses to fall back. Beside that, over a connection of
// its own, two processes that own a device each make an HCCL pair if they are on two hosts or one of them asks for it by name; traffic moves to it
// when it is warm and back when it is suspect. What was picked and why is logged.
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
