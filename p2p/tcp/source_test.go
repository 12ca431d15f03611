package tcp

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"
)

// loopback makes both ends of a TCP connection. What waits on the first for more than some seconds fails.
func loopback(t *testing.T) (source, peer net.Conn) {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var dialer net.Dialer
	if source, err = dialer.DialContext(t.Context(), "tcp", l.Addr().String()); err == nil {
		peer, err = l.Accept()
	}
	if err == nil {
		err = source.SetDeadline(time.Now().Add(time.Minute))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = source.Close(), peer.Close() })
	return source, peer
}

// TestNothingIsAwaitedInVain: however the bytes come, a header is read when it is there, and a payload when all of it is.
func TestNothingIsAwaitedInVain(t *testing.T) {
	conn, peer := loopback(t)
	s := newSource(conn)
	if s.socket == nil {
		t.Fatal("it is no TCP socket")
	}
	rnd := rand.New(rand.NewPCG(4, 2))
	for _, size := range []int{0, 1, readAhead - headerSize, readAhead, 100_000, worthWaking + 1, 3*worthWaking + 12345} {
		head, body := make([]byte, headerSize), make([]byte, size)
		for i := range body {
			body[i] = byte(rnd.Uint32())
		}
		head[0] = byte(size)
		var fragments [][]byte
		for rest := append(bytes.Clone(head), body...); len(rest) > 0; {
			n := min(len(rest), 1+rnd.IntN(200_000))
			fragments, rest = append(fragments, rest[:n]), rest[n:]
		}
		go func() {
			for _, f := range fragments {
				_, _ = peer.Write(f)
			}
		}()
		gotHead, gotBody := make([]byte, headerSize), make([]byte, size)
		if err := s.header(gotHead); err != nil || !bytes.Equal(gotHead, head) {
			t.Fatalf("header before %d bytes: %x, %v", size, gotHead, err)
		}
		for from := 0; from < size; from += readPiece {
			part := gotBody[from:min(from+readPiece, size)]
			if n, err := s.payload(part); err != nil || n != len(part) {
				t.Fatalf("payload of %d bytes at %d: %d, %v", size, from, n, err)
			}
		}
		if !bytes.Equal(gotBody, body) {
			t.Fatalf("payload of %d bytes is another one", size)
		}
	}
	if _, err := peer.Write(make([]byte, headerSize)); err != nil {
		t.Fatal(err)
	}
	if err := s.header(make([]byte, headerSize)); err != nil {
		t.Error(err)
	}
}

// TestSmallBuffer: a kernel that has room for less than the reader sleeps for wakes it all the same.
func TestSmallBuffer(t *testing.T) {
	conn, peer := loopback(t)
	if err := conn.(*net.TCPConn).SetReadBuffer(32 << 10); err != nil {
		t.Fatal(err)
	}
	const size = 3 << 20
	go func() { _, _ = peer.Write(make([]byte, headerSize+size)) }()
	s := newSource(conn)
	if err := s.header(make([]byte, headerSize)); err != nil {
		t.Fatal(err)
	}
	if n, err := s.payload(make([]byte, size)); n != size || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestEndWithinAPayload: the end is seen at once, although less has come than the reader sleeps for.
func TestEndWithinAPayload(t *testing.T) {
	conn, peer := loopback(t)
	s := newSource(conn)
	if _, err := peer.Write(make([]byte, headerSize+1000)); err != nil {
		t.Fatal(err)
	}
	if err := s.header(make([]byte, headerSize)); err != nil {
		t.Fatal(err)
	}
	go func() { _ = peer.Close() }()
	if n, err := s.payload(make([]byte, 1<<20)); n != 1000 || !errors.Is(err, io.EOF) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestEndWithinAHeader tells it from an end between frames.
func TestEndWithinAHeader(t *testing.T) {
	for sent, want := range map[int]error{0: io.EOF, 1: io.ErrUnexpectedEOF} {
		conn, peer := loopback(t)
		_, _ = peer.Write(make([]byte, sent))
		_ = peer.Close()
		if err := newSource(conn).header(make([]byte, headerSize)); !errors.Is(err, want) {
			t.Errorf("after %d bytes: %v, want %v", sent, err, want)
		}
	}
}
