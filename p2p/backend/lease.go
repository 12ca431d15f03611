package backend

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"hcclps/p2p"
)

// lease lends a connection to a Comm that is tried, so that it can be had back: what a Comm reads ahead must not be what comes after it. While
// it is lent, what goes over the connection is in frames, each a length (u32, little endian) and as many bytes; length 0 is the end of the lease.
type lease struct {
	net.Conn

	mu     sync.Mutex // held by who writes
	closed bool

	head [leaseHead]byte
	got  int  // bytes of head
	left int  // of the frame that is being read
	over bool // the other side has ended its lease
}

const (
	leaseHead = 4
	maxLeased = 1 << 30 // bytes of a frame; a Comm writes pieces far smaller
)

// lend lends connections. What is lent is given to one Comm.
func lend(conns []net.Conn) (leases []*lease, lent []net.Conn) {
	for _, c := range conns {
		l := &lease{Conn: c}
		leases = append(leases, l)
		if p, ok := c.(passer); ok {
			lent = append(lent, &unixLease{l, p})
		} else {
			lent = append(lent, l)
		}
	}
	return leases, lent
}

// Read is called by one goroutine at a time.
func (l *lease) Read(b []byte) (int, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	n, err := l.Conn.Read(b[:min(len(b), l.left)])
	l.left -= n
	return n, err
}

// begin returns when there is something left to read of a frame.
func (l *lease) begin() error {
	for l.left == 0 {
		if l.over {
			return io.EOF
		}
		n, err := l.Conn.Read(l.head[l.got:])
		if l.got += n; l.got < leaseHead {
			if err != nil {
				return err
			}
			continue
		}
		l.got, l.left = 0, int(binary.LittleEndian.Uint32(l.head[:]))
		l.over = l.left == 0
		if l.left > maxLeased {
			return fmt.Errorf("read a lent connection: %w: frame of %d bytes", p2p.ErrMalformed, l.left)
		}
	}
	return nil
}

func (l *lease) Write(b []byte) (int, error) { return l.WriteBuffers(net.Buffers{b}) }

// WriteBuffers writes one frame, of which a Comm of p2p/tcp makes use.
func (l *lease) WriteBuffers(vectors net.Buffers) (written int, err error) {
	size := 0
	for _, b := range vectors {
		size += len(b)
	}
	err = l.frame(size, func(head []byte) error {
		all := append(net.Buffers{head}, vectors...)
		n, err := all.WriteTo(l.Conn)
		written = max(0, int(n)-leaseHead)
		return err
	})
	return written, err
}

// frame has write write a frame of so many bytes, its head before it.
func (l *lease) frame(size int, write func(head []byte) error) error {
	if size == 0 {
		return nil // it would be the end
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	return write(binary.LittleEndian.AppendUint32(nil, uint32(size)))
}

// Close ends the use by the Comm. The connection stays open.
func (l *lease) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	return l.SetReadDeadline(time.Unix(1, 0)) // for who is reading
}

// end takes the connection back when the Comm is done with it, on both sides.
func (l *lease) end(ctx context.Context) error {
	if err := l.SetDeadline(time.Time{}); err != nil {
		return fmt.Errorf("take back a lent connection: %w", err)
	}
	release := p2p.Bound(ctx, l.Conn)
	_, err := l.Conn.Write(make([]byte, leaseHead))
	if err == nil {
		_, err = io.Copy(io.Discard, readerOnly{l})
	}
	if err = errors.Join(release(), err); err != nil {
		return fmt.Errorf("take back a lent connection: %w", err)
	}
	return nil
}

// passer is a Unix socket, over which descriptors can be passed.
type passer interface {
	WriteMsgUnix(b, oob []byte, addr *net.UnixAddr) (n, oobn int, err error)
	ReadMsgUnix(b, oob []byte) (n, oobn, flags int, addr *net.UnixAddr, err error)
}

// unixLease lends a Unix socket.
type unixLease struct {
	*lease
	socket passer
}

// WriteMsgUnix writes b with oob, all of it.
func (l *unixLease) WriteMsgUnix(b, oob []byte, addr *net.UnixAddr) (n, oobn int, err error) {
	err = l.frame(len(b), func(head []byte) error {
		if _, err := l.Conn.Write(head); err != nil {
			return err
		}
		if n, oobn, err = l.socket.WriteMsgUnix(b, oob, addr); err != nil || n == len(b) {
			return err
		}
		m, err := l.Conn.Write(b[n:])
		n += m
		return err
	})
	return n, oobn, err
}

// ReadMsgUnix is Read, and what comes beside the bytes.
func (l *unixLease) ReadMsgUnix(b, oob []byte) (n, oobn, flags int, addr *net.UnixAddr, err error) {
	if err := l.begin(); err != nil {
		return 0, 0, 0, nil, err
	}
	n, oobn, flags, addr, err = l.socket.ReadMsgUnix(b[:min(len(b), l.left)], oob)
	l.left -= n
	return n, oobn, flags, addr, err
}

// readerOnly hides that a connection may have another way to be read.
type readerOnly struct{ io.Reader }

// endAll takes them all back.
func endAll(ctx context.Context, leases []*lease) error {
	var errs []error
	for _, l := range leases {
		errs = append(errs, l.end(ctx))
	}
	return errors.Join(errs...)
}
