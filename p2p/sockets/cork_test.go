package sockets

import (
	"bytes"
	"errors"
	"net"
	"testing"
)

// sink counts and keeps what is written, until it fails.
type sink struct {
	net.Conn
	writes int
	b      bytes.Buffer
	err    error
}

func (s *sink) Write(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	s.writes++
	return s.b.Write(b)
}

func TestCorkGathers(t *testing.T) {
	s := &sink{}
	c := &cork{Conn: s}
	var want bytes.Buffer
	write := func(n int) {
		t.Helper()
		b := bytes.Repeat([]byte{byte(n)}, n)
		want.Write(b)
		if got, err := c.Write(b); got != n || err != nil {
			t.Fatalf("write: %d, %v", got, err)
		}
	}
	write(10)
	c.put()
	for range 64 {
		write(16406) // a full record
	}
	if err := c.pull(); err != nil {
		t.Fatal(err)
	}
	write(20)
	if !bytes.Equal(s.b.Bytes(), want.Bytes()) {
		t.Error("the bytes are others")
	}
	if s.writes != 2+64/8 {
		t.Errorf("%d writes for 64 records", s.writes)
	}
}

// After a write that failed in the middle nothing more may be written: the other side could take it for what was lost.
func TestCorkStaysBroken(t *testing.T) {
	broken := errors.New("time-out")
	s := &sink{err: broken}
	c := &cork{Conn: s}
	c.put()
	if _, err := c.Write([]byte("lost")); err != nil {
		t.Fatalf("gathered: %v", err)
	}
	if err := c.pull(); !errors.Is(err, broken) {
		t.Errorf("pull: %v", err)
	}
	s.err = nil
	if _, err := c.Write([]byte("later")); !errors.Is(err, broken) || s.b.Len() > 0 {
		t.Errorf("a later write: %v, %q", err, s.b.String())
	}
}
