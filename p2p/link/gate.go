package link

import (
	"context"
	"errors"
	"log/slog"
	"net"
)

// Gate accepts connections for the owner of a listener and lets pass those whose hello is right.
type Gate struct {
	Identity    Identity
	MaxHalfOpen int                          // connections whose hello is not verified yet; default 64; further ones wait in the listener
	Handle      func(conn net.Conn, h Hello) // owns conn; runs in a goroutine of its own and should return soon
	Logger      *slog.Logger                 // nil = discard
}

// Serve accepts until ctx ends or ln fails. It closes ln and returns when its goroutines have ended; a clean end is nil.
func (g *Gate) Serve(ctx context.Context, ln net.Listener) error {
	return errors.New("not yet")
}
