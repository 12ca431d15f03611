package p2p_test

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"hcclps/p2p"
)

func TestBound(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	release := p2p.Bound(ctx, a)
	cancel(reason)
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a read when the context has ended: %v", err)
	}
	if err := release(); !errors.Is(err, reason) {
		t.Errorf("release: %v", err)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	release = p2p.Bound(ctx, b)
	if err := release(); err != nil {
		t.Errorf("release in time: %v", err)
	}
	cancel(reason) // strikes nobody any more
	if err := a.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = a.Write([]byte("x")) }()
	if _, err := b.Read(make([]byte, 1)); err != nil {
		t.Errorf("a read after release: %v", err)
	}
}
