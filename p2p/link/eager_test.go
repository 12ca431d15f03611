package link

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sockets are the two ends of a connection that can be looked at.
func sockets(t *testing.T) (a, b net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ends[i].Close() })
	}
	return ends[0], ends[1]
}

func TestEagerReads(t *testing.T) {
	near, far := sockets(t)
	e := newEager(near)
	if e.raw == nil {
		t.Fatal("a socket that cannot be looked at")
	}
	b := make([]byte, 3)
	read := func(want string) {
		t.Helper()
		if n, err := e.Read(b); string(b[:n]) != want || err != nil {
			t.Errorf("read %q, %v, want %q", b[:n], err, want)
		}
	}
	if _, err := far.Write([]byte("abcd")); err != nil {
		t.Fatal(err)
	}
	for range crowdFor { // whether it looks or sleeps
		e.touch()
		read("abc")
		read("d")
		if _, err := far.Write([]byte("abcd")); err != nil {
			t.Fatal(err)
		}
	}
	read("abc")
	read("d")
	if err := near.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	e.touch()
	if _, err := e.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("past its deadline: %v", err)
	}
	if err := errors.Join(near.SetReadDeadline(time.Time{}), far.Close()); err != nil {
		t.Fatal(err)
	}
	e.touch()
	if _, err := e.Read(b); !errors.Is(err, io.EOF) {
		t.Errorf("closed by the other side: %v", err)
	}
	_ = near.Close()
	e.touch()
	if _, err := e.Read(b); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// What looks for bytes that do not come falls asleep, and is woken by them.
func TestEagerSleeps(t *testing.T) {
	near, far := sockets(t)
	e := newEager(near)
	e.touch()
	if n := e.look(make([]byte, 1)); n > 0 {
		t.Fatalf("%d bytes came from nowhere", n)
	}
	came := make(chan error, 1)
	go func() {
		_, err := e.Read(make([]byte, 1))
		came <- err
	}()
	if _, err := far.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := <-came; err != nil {
		t.Error(err)
	}
}

// A reader that is calm sleeps at once.
func TestCalm(t *testing.T) {
	near, far := sockets(t)
	e := newEager(near)
	e.calm.Store(true)
	e.vain = 1 // which a look with success would change
	if _, err := far.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if n, err := e.Read(make([]byte, 1)); n != 1 || err != nil || e.vain != 1 {
		t.Errorf("read %d bytes, %v, %d", n, err, e.vain)
	}
}

// Any connection is read; what is no socket is not looked at.
func TestEagerOfAPipe(t *testing.T) {
	near, far := net.Pipe()
	e := newEager(near)
	go func() {
		_, _ = far.Write([]byte("x"))
		_ = far.Close()
	}()
	if got, err := io.ReadAll(e); string(got) != "x" || err != nil || e.raw != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// Looks in vain are given up, tried at times, and taken up again when they have success; none are made while CPUs are wanted.
func TestHope(t *testing.T) {
	var h hope
	count := func(n int, then func()) (tried int) {
		for range n {
			if h.looks() {
				tried++
				then()
			}
		}
		return tried
	}
	if n := count(10*tryEvery, h.failed); n != fullHope/vainCost+9 {
		t.Errorf("%d looks in vain of %d reads", n, 10*tryEvery)
	}
	if n := count(2*tryEvery, h.succeeded); n < tryEvery {
		t.Errorf("%d looks with success of %d reads", n, 2*tryEvery)
	}
	if n := count(100, h.succeeded); n != 100 {
		t.Errorf("%d looks of 100 reads, all with success", n)
	}
	h.crowded = 10
	if n := count(15, h.succeeded); n != 5 {
		t.Errorf("%d looks of 15 reads, in the first 10 of which CPUs are wanted", n)
	}
}
