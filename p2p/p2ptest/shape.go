package p2ptest

import (
	"net"
	"sync"
	"time"
)

// burst is how far a shaped connection may catch up when a timer fired late.
const burst = time.Millisecond

// Shape is the quality of a link: bytes a second, and the time from when a byte has left to when it arrives. Zero is no limit. It goes by the clock
// of package time, so that in a testing/synctest bubble it is exact and costs nothing.
type Shape struct {
	Bandwidth float64
	Latency   time.Duration
	Exact     bool // nothing catches up, as it must where timers fire late: for fake time
}

// Conn makes a connection whose writes are shaped; wrap both ends for both directions. Until Close a goroutine delivers what is on its way.
func (s Shape) Conn(inner net.Conn) net.Conn {
	c := &shaped{
		Conn: inner, shape: s,
		queue: make(chan parcel, 4096), failed: make(chan struct{}), closed: make(chan struct{}), delivered: make(chan struct{}),
	}
	go c.deliver()
	return c
}

// parcel is a piece of bytes on its way.
type parcel struct {
	b   []byte
	due time.Time
}

type shaped struct {
	net.Conn
	shape     Shape
	queue     chan parcel
	failed    chan struct{} // closed by deliver with err
	err       error
	closed    chan struct{}
	once      sync.Once
	delivered chan struct{} // closed when deliver has ended

	mu   sync.Mutex // held by one Write
	free time.Time  // when the link has taken all that was written
}

// Write returns when the link has taken all of b.
func (c *shaped) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	done := 0
	for done < len(b) {
		p := b[done:min(done+piece, len(b))]
		if !c.pace(len(p)) {
			return done, net.ErrClosed
		}
		select {
		case c.queue <- parcel{append([]byte(nil), p...), c.free.Add(c.shape.Latency)}:
			done += len(p)
		case <-c.failed:
			return done, c.err
		case <-c.closed:
			return done, net.ErrClosed
		}
	}
	return done, nil
}

// pace waits until the link has taken n more bytes.
func (c *shaped) pace(n int) bool {
	now := time.Now()
	late := now.Add(-burst)
	if c.shape.Exact {
		late = now
	}
	if c.free.Before(late) {
		c.free = late
	}
	if c.shape.Bandwidth > 0 {
		c.free = c.free.Add(time.Duration(float64(n) / c.shape.Bandwidth * float64(time.Second)))
	}
	return c.until(c.free)
}

// until waits for a moment. It reports false if the connection was closed first.
func (c *shaped) until(t time.Time) bool {
	wait := time.Until(t)
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.closed:
		return false
	}
}

func (c *shaped) deliver() {
	defer close(c.delivered)
	for {
		select {
		case p := <-c.queue:
			if !c.until(p.due) {
				return
			}
			if _, err := c.Conn.Write(p.b); err != nil {
				c.err = err
				close(c.failed)
				return
			}
		case <-c.closed:
			return
		}
	}
}

// Close breaks the connection: what is on its way is lost.
func (c *shaped) Close() error {
	c.once.Do(func() { close(c.closed) })
	err := c.Conn.Close()
	<-c.delivered
	return err
}
