package inproc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p/inproc"
)

// connect makes both ends of a connection from host "a" to address "b:1".
func connect(t *testing.T) (client, server net.Conn) {
	t.Helper()
	network := inproc.NewNetwork()
	l, err := network.Host("b").Listen(t.Context(), "b:1")
	if err != nil {
		t.Fatal(err)
	}
	client, err = network.Host("a").Dial(t.Context(), "b:1")
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		_ = server.Close()
		_ = l.Close()
	})
	return client, server
}

func TestAddresses(t *testing.T) {
	network := inproc.NewNetwork()
	ctx := t.Context()
	_, err := network.Dial(ctx, "nobody:9")
	if !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "nobody:9") {
		t.Errorf("dial where nobody listens: %v", err)
	}
	one, err := network.Listen(ctx, "s:0")
	if err != nil {
		t.Fatal(err)
	}
	two, err := network.Listen(ctx, "s:0")
	if err != nil {
		t.Fatal(err)
	}
	if one.Addr().String() == two.Addr().String() {
		t.Errorf("two listeners at %v", one.Addr())
	}
	if _, err := network.Listen(ctx, one.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("second listener at an address: %v", err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := network.Listen(ctx, one.Addr().String())
	if err != nil {
		t.Errorf("listen at an address that was freed: %v", err)
	} else if err := again.Close(); err != nil {
		t.Error(err)
	}
	if _, err := one.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after close: %v", err)
	}
	client, server := connect(t)
	if got := server.RemoteAddr().String(); got != "a" {
		t.Errorf("acceptor sees %q, want the dialling host", got)
	}
	if got := client.RemoteAddr().String(); got != "b:1" {
		t.Errorf("dialler sees %q", got)
	}
}

func TestListenerCloseEndsWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := inproc.NewNetwork()
		l, err := network.Listen(t.Context(), "s:1")
		if err != nil {
			t.Fatal(err)
		}
		queued, err := network.Dial(t.Context(), "s:1")
		if err != nil {
			t.Fatal(err)
		}
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		accepted := make(chan error)
		go func() {
			_, err := l.Accept()
			accepted <- err
		}()
		synctest.Wait()
		_ = l.Close()
		if err := <-accepted; !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept: %v", err)
		}
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Errorf("an accepted connection outlives its listener: %v", err)
		}
		_ = queued.Close()
	})
}

func TestUnacceptedConnectionEnds(t *testing.T) {
	network := inproc.NewNetwork()
	l, err := network.Listen(t.Context(), "s:1")
	if err != nil {
		t.Fatal(err)
	}
	client, err := network.Dial(t.Context(), "s:1")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if _, err := client.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // must be bare
		t.Errorf("read from a connection that was never accepted: %v", err)
	}
}

func TestDialWaitsForFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := inproc.NewNetwork()
		l, err := network.Listen(t.Context(), "s:1")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		dialled := 0
		for err == nil && dialled < 10_000 {
			if _, err = network.Dial(ctx, "s:1"); err == nil {
				dialled++
			}
		}
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() || dialled == 0 {
			t.Errorf("after %d connections: %v, want a time-out", dialled, err)
		}
		_ = l.Close()
	})
}

func TestStreamKeepsBytes(t *testing.T) {
	client, server := connect(t)
	rng := rand.New(rand.NewPCG(1, 2))
	want := make([]byte, 3<<20+17)
	for i := range want {
		want[i] = byte(rng.Uint32())
	}
	var wg sync.WaitGroup
	wg.Go(func() { // odd pieces, so that the ring wraps and grows at odd places
		for rest := want; len(rest) > 0; {
			n := min(1+int(rng.Uint32()%70_000), len(rest))
			if _, err := client.Write(rest[:n]); err != nil {
				t.Error(err)
				return
			}
			rest = rest[n:]
		}
		_ = client.Close()
	})
	got, err := io.ReadAll(server)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d of %d bytes, equal %v: %v", len(got), len(want), bytes.Equal(got, want), err)
	}
	wg.Wait()
}

func TestBufferIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := inproc.Pipe(1000)
		if _, err := a.Write(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		if err := a.SetWriteDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		n, err := a.Write(make([]byte, 1))
		if n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Hour {
			t.Errorf("write into a full pipe: %d, %v after %v", n, err, time.Since(begin))
		}
		if _, err := b.Read(make([]byte, 400)); err != nil {
			t.Fatal(err)
		}
		if err := a.SetWriteDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if n, err := a.Write(make([]byte, 400)); n != 400 || err != nil {
			t.Errorf("write into the room made: %d, %v", n, err)
		}
		_ = a.Close()
		_ = b.Close()
	})
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := inproc.Pipe(0)
		defer b.Close()
		defer a.Close()
		buf := make([]byte, 8)
		_ = a.SetReadDeadline(time.Now().Add(time.Second))
		_ = a.SetReadDeadline(time.Now().Add(time.Minute)) // replaces the first
		begin := time.Now()
		_, err := a.Read(buf)
		var ne net.Error
		if !errors.As(err, &ne) || !ne.Timeout() || time.Since(begin) != time.Minute {
			t.Errorf("read: %v after %v, want a time-out after a minute", err, time.Since(begin))
		}
		if _, err := b.Write([]byte("late")); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read after the deadline: %v", err)
		}
		_ = a.SetReadDeadline(time.Time{})
		if n, err := a.Read(buf); err != nil || string(buf[:n]) != "late" {
			t.Errorf("read without a deadline: %q, %v", buf[:n], err)
		}
		failed := make(chan error)
		go func() {
			_, err := a.Read(buf)
			failed <- err
		}()
		synctest.Wait()
		_ = a.SetReadDeadline(time.Unix(1, 0)) // the usual way to wake a reader
		if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("woken reader: %v", err)
		}
	})
}

// TestDeadlineMoves: back and forth; the last one counts.
func TestDeadlineMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := connect(t)
		begin := time.Now()
		for _, after := range []time.Duration{time.Hour, time.Second, time.Minute, 0, time.Second, 10 * time.Second, 5 * time.Second} {
			at := begin.Add(after)
			if after == 0 {
				at = time.Time{}
			}
			if err := a.SetReadDeadline(at); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != 5*time.Second {
			t.Errorf("read failed after %v: %v", time.Since(begin), err)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := inproc.Pipe(10)
		if _, err := a.Write([]byte("last words")); err != nil {
			t.Fatal(err)
		}
		blocked := make(chan error, 2)
		go func() {
			_, err := a.Read(make([]byte, 1))
			blocked <- err
		}()
		go func() {
			_, err := a.Write(make([]byte, 1))
			blocked <- err
		}()
		synctest.Wait()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-blocked; !errors.Is(err, net.ErrClosed) {
				t.Errorf("blocked call at a closed end: %v", err)
			}
		}
		if err := a.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("second close: %v", err)
		}
		if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write to a closed peer: %v", err)
		}
		got, err := io.ReadAll(b)
		if string(got) != "last words" || err != nil {
			t.Errorf("read from a closed peer: %q, %v", got, err)
		}
		_ = b.Close()
	})
}
