package sockets

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// The kinds of connection. Those without TLS embed the socket itself, so that writev reaches it; it must not be used before the door
// is open, which is so for who reads first, as every acceptor of ours does.

// oneRecord is the most that TLS puts into one record.
const oneRecord = 16 << 10

// secure is a TLS connection. Close does not say goodbye: that could wait for a peer that reads nothing, and what we send says itself where
// it ends.
type secure struct {
	*tls.Conn
	raw  net.Conn
	cork *cork

	mu sync.Mutex // held by who writes
}

func (c *secure) Close() error { return c.raw.Close() }

// Write returns when all of b is with the kernel.
func (c *secure) Write(b []byte) (int, error) {
	if len(b) > oneRecord {
		return c.WriteBuffers(net.Buffers{b})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Conn.Write(b)
}

// WriteBuffers is writev as far as there is one: all of vectors in few writes. It leaves vectors alone.
func (c *secure) WriteBuffers(vectors net.Buffers) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cork.put()
	for _, b := range vectors {
		m, err := c.Conn.Write(b)
		if n += m; err != nil {
			_ = c.cork.pull() // the first error is the cause
			return n, err
		}
	}
	return n, c.cork.pull()
}

// prefixed gives back what was read of a connection to see what it is.
type prefixed struct {
	net.Conn
	prefix []byte
}

func (c *prefixed) Read(b []byte) (int, error) {
	if len(c.prefix) > 0 {
		n := copy(b, c.prefix)
		c.prefix = c.prefix[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// under is what TLS reads from: where it ends early, no more than it needs.
func under(conn net.Conn) net.Conn {
	socket := conn
	if p, ok := conn.(*prefixed); ok {
		socket = p.Conn
	}
	if isUnix(socket) {
		return &records{Conn: conn}
	}
	return conn
}

// records gives out the records of TLS one by one: TLS reads whatever there is otherwise, and what follows the last record is not its own.
type records struct {
	net.Conn
	head []byte // of the record, as far as it is not given out
	left int    // of the record after that
}

func (r *records) Read(b []byte) (int, error) {
	if len(r.head) == 0 && r.left == 0 {
		var head [5]byte
		if _, err := io.ReadFull(r.Conn, head[:]); err != nil {
			return 0, err
		}
		r.head, r.left = head[:], int(binary.BigEndian.Uint16(head[3:]))
	}
	if len(r.head) > 0 {
		n := copy(b, r.head)
		r.head = r.head[n:]
		return n, nil
	}
	n, err := r.Conn.Read(b[:min(len(b), r.left)])
	r.left -= n
	return n, err
}

type guardedTLS struct {
	*secure
	*door
}

func (c *guardedTLS) Read(b []byte) (int, error)  { return read(c.door, c.secure, b) }
func (c *guardedTLS) Write(b []byte) (int, error) { return write(c.door, c.secure, b) }

type guardedTCP struct {
	*net.TCPConn
	*door
}

func (c *guardedTCP) Read(b []byte) (int, error)  { return read(c.door, c.TCPConn, b) }
func (c *guardedTCP) Write(b []byte) (int, error) { return write(c.door, c.TCPConn, b) }

// ReadFrom and WriteTo would go past the door.
func (c *guardedTCP) ReadFrom(r io.Reader) (int64, error) {
	if err := c.open(); err != nil {
		return 0, err
	}
	return c.TCPConn.ReadFrom(r)
}

func (c *guardedTCP) WriteTo(w io.Writer) (int64, error) {
	if err := c.open(); err != nil {
		return 0, err
	}
	return c.TCPConn.WriteTo(w)
}

type guardedUnix struct {
	*localConn
	*door
}

func (c *guardedUnix) Read(b []byte) (int, error)  { return read(c.door, c.localConn, b) }
func (c *guardedUnix) Write(b []byte) (int, error) { return write(c.door, c.localConn, b) }

type guarded struct {
	net.Conn
	*door
}

func (c *guarded) Read(b []byte) (int, error)  { return read(c.door, c.Conn, b) }
func (c *guarded) Write(b []byte) (int, error) { return write(c.door, c.Conn, b) }

func read(d *door, r io.Reader, b []byte) (int, error) {
	if err := d.open(); err != nil {
		return 0, err
	}
	return r.Read(b)
}

func write(d *door, w io.Writer, b []byte) (int, error) {
	if err := d.open(); err != nil {
		return 0, err
	}
	return w.Write(b)
}

// plain wraps a socket that was dialled without TLS or a token: a refusal in place of the first bytes is an error of the first Read.
func plain(conn net.Conn) net.Conn {
	switch c := conn.(type) {
	case *net.TCPConn:
		return &plainTCP{TCPConn: c}
	case *net.UnixConn:
		return &plainUnix{localConn: &localConn{c, c.RemoteAddr()}}
	case *localConn:
		return &plainUnix{localConn: c}
	default:
		return conn
	}
}

type plainTCP struct {
	*net.TCPConn
	firstRead
}

func (c *plainTCP) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	return c.look(c.TCPConn, b, n, err)
}

type plainUnix struct {
	*localConn
	firstRead
}

func (c *plainUnix) Read(b []byte) (int, error) {
	n, err := c.localConn.Read(b)
	return c.look(c.localConn, b, n, err)
}

// firstRead looks at the first Read of a connection.
type firstRead struct{ seen atomic.Bool }

// look is given what a Read of b returned.
func (f *firstRead) look(rest io.Reader, b []byte, n int, err error) (int, error) {
	if f.seen.Load() {
		return n, err
	}
	f.seen.Store(true)
	if n < magicSize || string(b[:magicSize]) != refuseMagic {
		return n, err
	}
	return 0, readRefusal(io.MultiReader(bytes.NewReader(b[magicSize:n]), rest))
}

// isUnix says whether conn is a Unix socket, whatever is around it.
func isUnix(conn net.Conn) bool {
	switch conn.(type) {
	case *net.UnixConn, *guardedUnix, *plainUnix, *localConn:
		return true
	default:
		return false
	}
}
