package tcp

import (
	"errors"
	"fmt"
	"io"

	"hcclps/internal/vec"
	"hcclps/p2p"
)

// readPiece is how much is read before it is checked, small enough to be in the cache still.
const readPiece = 256 << 10

// read takes frames from connection k until it ends or the peer breaks the protocol.
func (c *Comm) read(k int) error {
	r := newSource(c.conns[k])
	var b [headerSize]byte
	for {
		if err := r.header(b[:]); err != nil {
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
		if k > 0 && (!h.data() || h.eager) {
			return broken(h, "it belongs on the first connection")
		}
		if err := c.handle(r, h); err != nil {
			return err
		}
	}
}

func (c *Comm) handle(r *source, h header) error {
	switch h.kind {
	case kindReady:
		return c.onReady(h)
	case kindData, kindRaw:
		if h.eager {
			return c.onEager(r, h)
		}
		return c.onData(r, h)
	case kindDone:
		return c.onDone(h)
	case kindRefuse:
		return c.onRefuse(h)
	default:
		return broken(h, "unknown kind")
	}
}

// onData reads a piece of a message into its receive.
func (c *Comm) onData(r *source, h header) error {
	piece, err := c.claim(h)
	if err != nil {
		return err
	}
	if err := take(r, h, piece); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrive(h.seq, len(piece))
	return nil
}

// take reads the payload of a frame into piece, and checks it.
func take(r *source, h header, piece []byte) error {
	sum, size := uint32(0), len(piece)
	if h.kind == kindData {
		size = readPiece
	}
	for done := 0; done < len(piece); {
		part := piece[done:min(done+size, len(piece))]
		n, err := r.payload(part)
		done += n
		if err != nil {
			return fmt.Errorf("receive message %d: %d of %d bytes: %w: %w", h.seq, done, len(piece), p2p.ErrPeer, err)
		}
		if h.kind == kindData {
			sum = vec.CRC32C(sum, part)
		}
	}
	if sum != h.sum {
		return fmt.Errorf("receive message %d: crc %08x of %d bytes, want %08x: %w", h.seq, sum, len(piece), h.sum, p2p.ErrCorrupt)
	}
	return nil
}

// claim finds the place of a piece, which nothing else writes from now on.
func (c *Comm) claim(h header) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, err := c.awaited(h)
	if err != nil {
		return nil, err
	}
	size := uint64(len(r.buf))
	if h.at > size || uint64(h.size) > size-h.at {
		return nil, broken(h, "the receive takes %d bytes", size)
	}
	from, to := int(h.at), int(h.at)+int(h.size)
	if r.eager || r.odd || from == to && (size > 0 || r.begun) || from < to && !r.claims.add(from, to) {
		return nil, broken(h, "a part of it was sent before")
	}
	r.begun = true
	return r.buf[from:to], nil
}

// awaited returns the receive that a data or refuse frame is about, which was announced; c.mu is held.
func (c *Comm) awaited(h header) (*incoming, error) {
	if h.seq < c.firstRecv || h.seq >= c.announced {
		return nil, broken(h, "want number %d, announced to %d", c.firstRecv, c.announced)
	}
	return c.recvs.ref(int(h.seq - c.firstRecv)), nil
}

// arrive counts a piece, and completes the receives that are full and have none before them that is not; c.mu is held.
func (c *Comm) arrive(seq uint64, n int) {
	c.recvs.ref(int(seq - c.firstRecv)).arrived += n
	for c.recvs.len() > 0 && c.recvs.ref(0).full() {
		c.firstRecv++
		c.recvs.pop().done.Complete(nil)
		c.poke(0)
	}
	c.announced = max(c.announced, c.firstRecv)
}

// onRefuse ends the Comm with the lengths of both sides.
func (c *Comm) onRefuse(h header) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, err := c.awaited(h)
	if err != nil {
		return err
	}
	return lengthError(h.seq, h.at, uint64(len(r.buf)))
}

func lengthError(seq, sent, posted uint64) error {
	return fmt.Errorf("match message %d: %d bytes sent, %d bytes to receive: %w", seq, sent, posted, p2p.ErrLength)
}

func broken(h header, format string, args ...any) error {
	return fmt.Errorf("read frame (kind %d, number %d, at %d, %d bytes): %s: %w",
		h.kind, h.seq, h.at, h.size, fmt.Sprintf(format, args...), p2p.ErrCorrupt)
}
