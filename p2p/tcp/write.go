package tcp

import (
	"fmt"
	"net"
	"time"

	"hcclps/p2p"
)

const (
	batchMessages = 64      // messages in one write
	batchBytes    = 1 << 20 // no further message after so many bytes
)

// batch is what one write carries on the first connection. Its memory is used again for the next.
type batch struct {
	heads   []byte // the frames without payload, then the headers of data
	data    []piece
	vectors [][]byte
	pending net.Buffers // the rest of vectors while they are written
	refused bool        // heads ends with a refusal
}

// write sends frames on the first connection until the Comm is dead, then the last confirmations.
func (c *Comm) write(readerGone <-chan struct{}) error {
	b := &batch{}
	for {
		dead := c.gather(b)
		if len(b.heads) > 0 || len(b.data) > 0 {
			if err := c.writeBatch(b); err != nil {
				return fmt.Errorf("write frames: %w: %w", p2p.ErrPeer, err)
			}
		}
		if b.refused {
			c.awaitEnd(readerGone)
		}
		if dead {
			return nil
		}
		if len(b.heads) == 0 && len(b.data) == 0 {
			<-c.wake[0]
		}
	}
}

// awaitEnd gives the peer time to read a refusal and to close before we do: closing first could destroy it.
func (c *Comm) awaitEnd(readerGone <-chan struct{}) {
	timer := time.NewTimer(linger)
	defer timer.Stop()
	select {
	case <-readerGone:
	case <-timer.C:
	}
}

// gather collects what can be written now. It says whether the Comm is dead, when only confirmations are left to write.
func (c *Comm) gather(b *batch) (dead bool) {
	clear(b.data)
	b.heads, b.data, b.refused = b.heads[:0], b.data[:0], false
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.confirmed < c.firstRecv {
		c.confirmed = c.firstRecv
		b.heads = appendHeader(b.heads, header{kind: kindDone, rank: c.rank, seq: c.confirmed - 1})
	}
	if c.cause != nil {
		return true
	}
	for c.announced < c.firstRecv+min(uint64(c.recvs.len()), maxPosted) {
		if r := c.recvs.ref(int(c.announced - c.firstRecv)); !r.eager {
			b.heads = appendHeader(b.heads, header{kind: kindReady, rank: c.rank, seq: c.announced, at: uint64(len(r.buf))})
		}
		c.announced++
	}
	size := 0
	for c.whole.len() > 0 && len(b.data) < batchMessages && size < batchBytes {
		p := c.whole.ref(0).first()
		c.whole.pop()
		b.data = append(b.data, p)
		size += p.size
	}
	if p, ok := c.next(); ok { // beside the others, so that neither kind waits for the other
		b.data = append(b.data, p)
	}
	if r := c.refusal; r != nil && len(b.data) == 0 && c.striped.len() == 0 && c.writing == 0 { // what goes before it is written first
		c.setCause(lengthError(r.seq, r.sent, r.posted))
		b.heads = appendHeader(b.heads, header{kind: kindRefuse, rank: c.rank, seq: r.seq, at: r.sent})
		b.refused = true
		return true
	}
	return false
}

// writeBatch writes the payloads from where they lie, by writev where the connection has it.
func (c *Comm) writeBatch(b *batch) error {
	control := len(b.heads)
	for _, p := range b.data {
		b.heads = c.head(b.heads, p)
	}
	b.vectors = b.vectors[:0]
	head := b.heads[:min(control+headerSize, len(b.heads))]
	rest := b.heads[len(head):]
	for _, p := range b.data {
		b.vectors = p.appendTo(append(b.vectors, head))
		head, rest = rest[:min(headerSize, len(rest))], rest[min(headerSize, len(rest)):]
	}
	if len(b.data) == 0 {
		b.vectors = append(b.vectors, head)
	}
	b.pending = b.vectors
	err := writeVectors(c.conns[0], &b.pending)
	clear(b.vectors) // let go of the payloads
	return err
}
