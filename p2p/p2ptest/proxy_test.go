package p2ptest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/bits"
	"net"
	"os"
	"testing"
	"time"

	"hcclps/p2p/p2ptest"
)

// through sends n bytes through a proxy to a server that answers with what it got, and returns what came back within a moment.
func through(t *testing.T, p *p2ptest.Proxy, n int) []byte {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listen := func() net.Listener {
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return ln
	}
	server, ln := listen(), listen()
	defer server.Close()
	go func() {
		for conn, err := server.Accept(); err == nil; conn, err = server.Accept() {
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	p.Dial = func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", server.Addr().String())
	}
	ended := make(chan error)
	go func() { ended <- p.Serve(ctx, ln) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = conn.Write(make([]byte, n)) }()
	got, taken := make([]byte, n), 0
	late := time.Now().Add(time.Minute)
	for err == nil && taken < n {
		_ = conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		var k int
		k, err = conn.Read(got[taken:])
		if taken += k; errors.Is(err, os.ErrDeadlineExceeded) && p.Stalls.Load() == 0 && time.Now().Before(late) {
			err = nil // the machine is busy
		}
	}
	_ = conn.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("serve: %v", err)
	}
	return got[:taken]
}

func TestProxy(t *testing.T) {
	const size = 1 << 20
	if got := through(t, &p2ptest.Proxy{}, size); !bytes.Equal(got, make([]byte, size)) {
		t.Errorf("without faults %d bytes came back", len(got))
	}
	p := &p2ptest.Proxy{Corrupt: 1, Spare: 1000}
	flipped := 0
	for _, b := range through(t, p, size) {
		flipped += bits.OnesCount8(b)
	}
	if int64(flipped) > p.Corruptions.Load() || flipped < 10 {
		t.Errorf("%d bits flipped, %d counted", flipped, p.Corruptions.Load())
	}
	p = &p2ptest.Proxy{Cut: 0.1, Seed: 3}
	if got := through(t, p, 10*size); len(got) == 10*size || p.Cuts.Load() == 0 {
		t.Errorf("%d bytes came through, cut %d times", len(got), p.Cuts.Load())
	}
	p = &p2ptest.Proxy{Stall: 0.1, Seed: 4}
	if got := through(t, p, 10*size); len(got) == 10*size || p.Stalls.Load() == 0 {
		t.Errorf("%d bytes came through, stalled %d times", len(got), p.Stalls.Load())
	}
}
