package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"
)

// acceptRest is how long Serve waits after an Accept that failed for want of descriptors or memory.
const acceptRest = 50 * time.Millisecond

// Gate accepts connections for the owner of a listener and lets pass those whose hello is right.
type Gate struct {
	Identity Identity
	// Handle takes over a verified connection. It runs in a goroutine of Serve, which waits for it, and should return soon.
	Handle func(conn net.Conn, h Hello)
	Logger *slog.Logger // nil = discard
	Limits
}

// Serve accepts until ctx ends or ln fails. It closes ln and returns when its goroutines have ended; a clean end is nil.
func (g *Gate) Serve(ctx context.Context, ln net.Listener) error {
	limits, logger := g.Limits, g.Logger
	err := limits.setDefaults()
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if g.Handle == nil {
		err = errors.Join(err, errors.New("handle is nil"))
	}
	if err != nil {
		return fmt.Errorf("serve listener: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var opening sync.WaitGroup
	defer opening.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer func() {
		if stop() {
			_ = ln.Close()
		}
	}()
	halfOpen := make(chan struct{}, limits.MaxHalfOpen)
	for {
		select {
		case halfOpen <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := ln.Accept()
		if err == nil {
			opening.Go(func() { g.open(ctx, conn, halfOpen, logger) })
			continue
		}
		<-halfOpen
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accept on %s: %w", ln.Addr(), err)
		}
		logger.Warn("accept failed", "addr", ln.Addr().String(), "err", err)
		if !rest(ctx, acceptRest) {
			return nil
		}
	}
}

// open verifies one connection and hands it over.
func (g *Gate) open(ctx context.Context, conn net.Conn, halfOpen <-chan struct{}, logger *slog.Logger) {
	h, err := AcceptHello(ctx, conn, g.Identity)
	<-halfOpen
	if err != nil {
		logger.Warn("close connection", "addr", conn.RemoteAddr().String(), "err", err)
		_ = conn.Close()
		return
	}
	g.Handle(conn, h)
}

// rest waits for d. It reports false if ctx ended first.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
