package sockets_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/sockets"
)

func TestAddresses(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	network := sockets.Network{}
	for _, addr := range []string{"127.0.0.1:0", "unix:" + filepath.Join(t.TempDir(), "s")} {
		l, err := network.Listen(ctx, addr)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(addr, "unix:") && l.Addr().String() != addr {
			t.Errorf("listener at %s says %s", addr, l.Addr())
		}
		conn, err := network.Dial(ctx, l.Addr().String())
		if err != nil {
			t.Fatalf("dial what the listener says: %v", err)
		}
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		_ = accepted.Close()
		if _, err := network.Listen(ctx, l.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("second listener at %v: %v", l.Addr(), err)
		}
		gone := l.Addr().String()
		_ = l.Close()
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept after close: %v", err)
		}
		if _, err := network.Dial(ctx, gone); err == nil || !strings.Contains(err.Error(), gone) {
			t.Errorf("dial where nobody listens: %v", err)
		}
	}
}

func TestSocketOfAKilledProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false) // as kill -9 leaves it
	_ = dead.Close()
	l, err := sockets.Network{}.Listen(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatalf("listen at an abandoned socket: %v", err)
	}
	_ = l.Close()

	if err := os.WriteFile(path, []byte("not a socket"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (sockets.Network{}).Listen(t.Context(), "unix:"+path); err == nil {
		t.Error("listened over a file")
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "not a socket" {
		t.Errorf("the file is damaged: %q, %v", got, err)
	}
}

func TestAddressThatIsNone(t *testing.T) {
	for _, addr := range []string{"localhost:99999", "localhost"} {
		if _, err := (sockets.Network{}).Dial(t.Context(), addr); !errors.Is(err, p2p.ErrRefused) || errors.Is(err, sockets.ErrRefused) {
			t.Errorf("%s: %v", addr, err)
		}
	}
}
