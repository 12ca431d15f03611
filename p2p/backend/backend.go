// Package backend is the one place that names the backends of p2p: who needs a network or a pair gets it here. It starts nothing, and its
// functions may be called concurrently; what they return says for itself who runs it.
package backend

import (
	"context"
	"fmt"
	"net"

	"hcclps/p2p/link"
	"hcclps/p2p/tcp"
)

// Network returns the network of a backend by name: "tcp" for real sockets, addresses as in [tcp.Network].
func Network(name string) (link.Network, error) {
	switch name {
	case "tcp":
		return tcp.Network{}, nil
	default:
		return nil, fmt.Errorf("choose network %q: want tcp", name)
	}
}

// Pair makes the bulk Comm of two processes over connections between them; it is a [link.PairFunc]. The Comm owns the connections.
func Pair(_ context.Context, conns []net.Conn, rank int) (link.Comm, error) {
	return tcp.Pair(conns, rank), nil
}
