package sockets

import (
	"net"
	"sync"
)

// corkSize is how much is gathered for one write.
const corkSize = 128 << 10

// cork is under a TLS connection, which writes record by record, 16 KiB each: while it is in, records are gathered, so that the kernel
// is called eight times less. Reads go past it.
type cork struct {
	net.Conn

	mu  sync.Mutex // TLS may have something to write while we do, an alert for one
	in  bool
	buf []byte
	err error // of a write, after which the stream of records has a hole
}

// Write gathers b, or writes it.
func (c *cork) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	if !c.in {
		return c.Conn.Write(b)
	}
	if c.buf = append(c.buf, b...); len(c.buf) < corkSize {
		return len(b), nil
	}
	return len(b), c.flush()
}

// put has records gathered until pull.
func (c *cork) put() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in = true
}

// pull writes what is gathered.
func (c *cork) pull() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in = false
	return c.flush()
}

func (c *cork) flush() error {
	if c.err == nil && len(c.buf) > 0 {
		_, c.err = c.Conn.Write(c.buf)
	}
	c.buf = c.buf[:0]
	return c.err
}
