package backend

import (
	"hcclps/p2p/link"
	"hcclps/p2p/sockets"
)

// Sockets are the choices of the network of real sockets: TLS, a token, Unix sockets within a host.
type Sockets = sockets.Config

// OpenSockets makes the network of real sockets. Within a host its servers listen on a Unix socket too: see [sockets.Network.ListenLocal].
func OpenSockets(cfg Sockets) (link.Network, error) {
	n, err := sockets.New(cfg)
	if err != nil {
		return nil, err // not a nil Network in an interface
	}
	return n, nil
}

// ResolveAddress puts an address in the place of an interface's name or a CIDR: see [sockets.Resolve].
func ResolveAddress(addr string) (string, error) { return sockets.Resolve(addr) }
