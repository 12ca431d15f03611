package tcp

import (
	"errors"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// readAhead is how much is read when a header is wanted: small frames come together.
	readAhead = 16 << 10
	// worthWaking is how much of a long payload a reader of a TCP socket sleeps for, unless less is left of it. The kernel would wake it for
	// each segment, at most 64 KiB: that costs a stream of 1 MiB messages a quarter of its rate and of its CPU time.
	worthWaking = 1 << 20
	// patience is for payloads longer than that: a shorter one is copied out of the kernel while it comes, which saves more.
	patience = 512 << 10
)

// source is what comes over a connection, a header and a payload in turn.
type source struct {
	conn  net.Conn
	buf   []byte // memory of ahead
	ahead []byte // read, and not yet taken

	socket syscall.RawConn  // nil: no TCP socket
	low    int              // its low-water mark: with less the reader is not woken
	set    func(fd uintptr) // sets the mark to low
}

func newSource(conn net.Conn) *source {
	s := &source{conn: conn, buf: make([]byte, readAhead), low: 1}
	if c, ok := conn.(tcpSocket); ok {
		s.socket, _ = c.SyscallConn() // without it, it is only slower
		s.set = func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, s.low) }
	}
	return s
}

// header fills b, which is small. It is io.EOF only where nothing of it has come.
func (s *source) header(b []byte) error {
	for len(s.ahead) < len(b) {
		kept := copy(s.buf, s.ahead)
		s.ahead = s.buf[:kept]
		if err := s.fill(kept); err != nil {
			if kept > 0 && errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	s.ahead = s.ahead[copy(b, s.ahead):]
	return nil
}

// payload fills b, all of which is certain to come. It returns how much has.
func (s *source) payload(b []byte) (done int, err error) {
	for done < len(b) {
		if rest := b[done:]; len(s.ahead) == 0 && len(rest) >= readAhead {
			low := 1
			if len(b) > patience {
				low = min(len(rest), worthWaking)
			}
			s.wait(low)
			n, err := s.conn.Read(rest)
			if done += n; n == 0 && err != nil {
				return done, err
			}
			continue
		}
		if len(s.ahead) == 0 { // what follows the payload may come with the end of it
			if err := s.fill(0); err != nil {
				return done, err
			}
		}
		n := copy(b[done:], s.ahead)
		done, s.ahead = done+n, s.ahead[n:]
	}
	return done, nil
}

// fill reads what there is behind the first bytes of buf, which are ahead.
func (s *source) fill(kept int) error {
	s.wait(1)
	n, err := s.conn.Read(s.buf[kept:])
	s.ahead = s.buf[:kept+n]
	if n == 0 {
		return err
	}
	return nil
}

// wait has the next Read sleep until so much has come, which is certain to come.
func (s *source) wait(low int) {
	if s.socket == nil || low == s.low {
		return
	}
	s.low = low
	_ = s.socket.Control(s.set) // the Read tells of a connection that is closed
}
