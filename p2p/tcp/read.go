package tcp

import (
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"hcclps/p2p"
)

const (
	// readBuffer gathers small frames; a payload larger than it goes from the socket to its destination.
	readBuffer = 16 << 10
	// readPiece is how much is read before it is checked, small enough to be in the cache still.
	readPiece = 256 << 10
)

// read takes frames until the connection ends or the peer breaks the protocol.
func (c *Comm) read() error {
	r := bufio.NewReaderSize(c.conn, readBuffer)
	var b [headerSize]byte
	for {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return fmt.Errorf("read frame: closed by the other side: %w", p2p.ErrPeer)
			}
			return fmt.Errorf("read frame: %w: %w", p2p.ErrPeer, err)
		}
		h, err := parseHeader(b[:])
		if err != nil {
			return err
		}
		if h.rank == c.rank {
			return fmt.Errorf("read frame: both sides are rank %d: %w", h.rank, p2p.ErrRank)
		}
		if err := c.handle(r, h, headerSum(b[:])); err != nil {
			return err
		}
	}
}

func (c *Comm) handle(r io.Reader, h header, sum uint32) error {
	switch h.kind {
	case kindReady:
		return c.onReady(h)
	case kindData:
		return c.onData(r, h, sum)
	case kindDone:
		return c.onDone(h)
	case kindRefuse:
		return c.onRefuse(h)
	default:
		return broken(h, "unknown kind")
	}
}

// onReady notes that the peer has posted a receive.
func (c *Comm) onReady(h header) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.seq != c.nextReady {
		return broken(h, "want number %d", c.nextReady)
	}
	if c.ready.len()+c.sent.len() >= maxPosted {
		return broken(h, "%d receives are announced", maxPosted)
	}
	c.nextReady++
	c.ready.push(h.length)
	if c.sends.len() > 0 {
		c.poke()
	}
	return nil
}

// onData fills the first receive.
func (c *Comm) onData(r io.Reader, h header, sum uint32) error {
	t, err := c.awaited(h)
	if err != nil {
		return err
	}
	if h.length != uint64(len(t.buf)) {
		return broken(h, "the receive takes %d bytes", len(t.buf))
	}
	for done := 0; done < len(t.buf); {
		piece := t.buf[done:min(done+readPiece, len(t.buf))]
		n, err := io.ReadFull(r, piece)
		done += n
		if err != nil {
			return fmt.Errorf("receive message %d: %d of %d bytes: %w: %w", h.seq, done, len(t.buf), p2p.ErrPeer, err)
		}
		sum = crc32.Update(sum, castagnoli, piece)
	}
	if sum != h.crc {
		return fmt.Errorf("receive message %d of %d bytes: crc %08x, want %08x: %w", h.seq, len(t.buf), sum, h.crc, p2p.ErrCorrupt)
	}
	c.mu.Lock()
	c.recvs.pop()
	c.firstRecv++
	c.poke()
	c.mu.Unlock()
	t.done.Complete(nil)
	return nil
}

// awaited returns the receive that a data or refuse frame is about: always the first, and announced.
func (c *Comm) awaited(h header) (transfer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.seq != c.firstRecv || h.seq >= c.announced {
		return transfer{}, broken(h, "want number %d, announced to %d", c.firstRecv, c.announced)
	}
	return c.recvs.at(0), nil
}

// onDone completes the sends that the peer has taken.
func (c *Comm) onDone(h header) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.length != 0 || h.seq < c.firstSent || h.seq >= c.firstSent+uint64(c.sent.len()) {
		return broken(h, "%d messages are under way from number %d", c.sent.len(), c.firstSent)
	}
	for c.firstSent <= h.seq {
		c.firstSent++
		c.sent.pop().done.Complete(nil)
	}
	return nil
}

// onRefuse ends the Comm with the lengths of both sides.
func (c *Comm) onRefuse(h header) error {
	t, err := c.awaited(h)
	if err != nil {
		return err
	}
	return lengthError(h.seq, h.length, uint64(len(t.buf)))
}

func lengthError(seq, sent, posted uint64) error {
	return fmt.Errorf("match message %d: %d bytes sent, %d bytes to receive: %w", seq, sent, posted, p2p.ErrLength)
}

func broken(h header, format string, args ...any) error {
	return fmt.Errorf("read frame (kind %d, length %d, number %d): %s: %w",
		h.kind, h.length, h.seq, fmt.Sprintf(format, args...), p2p.ErrCorrupt)
}
