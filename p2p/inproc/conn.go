package inproc

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// DefaultBuffer is the bound of bytes under way in one direction of a connection.
	DefaultBuffer = 256 << 10

	firstBuffer = 4 << 10 // a quiet connection stays this small
)

// Pipe makes the two ends of one connection. At most size bytes, 0 meaning DefaultBuffer, are under way in each direction.
func Pipe(size int) (net.Conn, net.Conn) { return pair("pipe", "pipe", size) }

func pair(local, remote Addr, size int) (*conn, *conn) {
	if size <= 0 {
		size = DefaultBuffer
	}
	there, back := newStream(size), newStream(size)
	return &conn{in: back, out: there, local: local, remote: remote},
		&conn{in: there, out: back, local: remote, remote: local}
}

// conn is one end of a connection. It behaves as a TCP connection does: what was written before Close can still be
// read by the peer, then comes io.EOF; writing to a peer that has closed fails with EPIPE.
type conn struct {
	in, out       *stream
	local, remote Addr
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.wrap("read", err)
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, c.wrap("write", err)
}

func (c *conn) Close() error {
	c.out.closeWriter()
	if !c.in.closeReader() {
		return c.wrap("close", net.ErrClosed)
	}
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	return c.wrap("set", c.in.setDeadline(&c.in.reader, t))
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	return c.wrap("set", c.out.setDeadline(&c.out.writer, t))
}

func (c *conn) wrap(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // io.EOF is returned bare, as Read promises
		return err
	}
	return &net.OpError{Op: op, Net: "inproc", Source: c.local, Addr: c.remote, Err: err}
}

// stream is one direction of a connection: a ring that grows to its limit.
type stream struct {
	mu             sync.Mutex
	ring           []byte
	head, used     int
	limit          int
	reader, writer side
}

// side is one of the two users of a stream.
type side struct {
	changed  sync.Cond // the other side moved, or this side's deadline or end came
	gone     bool
	late     bool // the deadline has passed
	deadline time.Time
	timer    *time.Timer // calls expire
	rings    time.Time   // when it does; zero: never
}

func newStream(limit int) *stream {
	s := &stream{limit: limit}
	s.reader.changed.L = &s.mu
	s.writer.changed.L = &s.mu
	return s
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.reader.gone:
			return 0, net.ErrClosed
		case s.reader.late:
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case s.used > 0:
			n := s.take(p)
			s.writer.changed.Broadcast()
			return n, nil
		case s.writer.gone:
			return 0, io.EOF
		}
		s.reader.changed.Wait()
	}
}

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := 0
	for {
		switch {
		case s.writer.gone:
			return done, net.ErrClosed
		case s.writer.late:
			return done, os.ErrDeadlineExceeded
		case s.reader.gone:
			return done, syscall.EPIPE
		case done == len(p):
			return done, nil
		case s.used < s.limit:
			done += s.put(p[done:])
			s.reader.changed.Broadcast()
		default:
			s.writer.changed.Wait()
		}
	}
}

// take moves bytes out of the ring; s.mu is held and s.used > 0.
func (s *stream) take(p []byte) int {
	total := 0
	for len(p) > 0 && s.used > 0 {
		n := copy(p, s.ring[s.head:min(s.head+s.used, len(s.ring))])
		s.head = (s.head + n) % len(s.ring)
		s.used -= n
		p = p[n:]
		total += n
	}
	if s.used == 0 {
		s.head = 0
	}
	return total
}

// put moves bytes into the ring; s.mu is held and s.used < s.limit.
func (s *stream) put(p []byte) int {
	s.grow(min(s.used+len(p), s.limit))
	total := 0
	for len(p) > 0 && s.used < len(s.ring) {
		tail := (s.head + s.used) % len(s.ring)
		end := len(s.ring)
		if tail < s.head {
			end = s.head
		}
		n := copy(s.ring[tail:end], p)
		s.used += n
		p = p[n:]
		total += n
	}
	return total
}

// grow makes room for want bytes, at most the limit.
func (s *stream) grow(want int) {
	if want <= len(s.ring) {
		return
	}
	size := max(firstBuffer, len(s.ring))
	for size < want {
		size *= 2
	}
	ring := make([]byte, min(size, s.limit))
	n := copy(ring, s.ring[s.head:min(s.head+s.used, len(s.ring))])
	copy(ring[n:], s.ring[:s.used-n])
	s.ring, s.head = ring, 0
}

// closeReader says whether this was the first call.
func (s *stream) closeReader() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.reader.gone
	s.reader.end()
	s.ring, s.head, s.used = nil, 0, 0
	s.writer.changed.Broadcast()
	return first
}

func (s *stream) closeWriter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writer.end()
	s.reader.changed.Broadcast()
}

// setDeadline is called before every read and write of a careful user, so it
// leaves a timer that rings too early alone: expire winds it up again.
func (s *stream) setDeadline(d *side, t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.gone {
		return net.ErrClosed
	}
	d.deadline = t
	wait := time.Until(t)
	if d.late = !t.IsZero() && wait <= 0; d.late {
		d.changed.Broadcast()
	}
	switch {
	case t.IsZero() || d.late:
		d.stopTimer()
	case d.timer == nil:
		d.timer, d.rings = time.AfterFunc(wait, func() { s.expire(d) }), t
	case d.rings.IsZero() || t.Before(d.rings):
		d.timer.Reset(wait)
		d.rings = t
	}
	return nil
}

// expire acts on the deadline of d, or waits on if that has moved.
func (s *stream) expire(d *side) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.rings = time.Time{}
	if d.gone || d.deadline.IsZero() {
		return
	}
	if wait := time.Until(d.deadline); wait > 0 {
		d.timer.Reset(wait)
		d.rings = d.deadline
		return
	}
	d.late = true
	d.changed.Broadcast()
}

func (d *side) end() {
	d.gone = true
	d.stopTimer()
	d.changed.Broadcast()
}

func (d *side) stopTimer() {
	if d.timer != nil {
		d.timer.Stop()
		d.rings = time.Time{}
	}
}
