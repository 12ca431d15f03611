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

// batch is what one write carries. Its memory is used again for the next.
type batch struct {
	heads   []byte // the frames without payload, then the headers of data
	data    []transfer
	first   uint64 // number of the first in data
	vectors [][]byte
	pending net.Buffers // the rest of vectors while they are written
	refused bool        // heads ends with a refusal
}

// write sends frames until the Comm is dead, then the last confirmations.
func (c *Comm) write(readerGone <-chan struct{}) error {
	b := &batch{}
	for {
		dead := c.gather(b)
		if len(b.heads) > 0 || len(b.data) > 0 {
			if err := b.writeTo(c.conn, c.rank); err != nil {
				return fmt.Errorf("write frames: %w: %w", p2p.ErrPeer, err)
			}
		}
		if b.refused {
			c.awaitEnd(readerGone)
		}
		if dead {
			return p2p.ErrClosed // the cause is recorded, this one is not the first
		}
		if len(b.heads) == 0 && len(b.data) == 0 {
			<-c.wake
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
		b.heads = appendHeader(b.heads, kindDone, c.rank, 0, c.confirmed-1, nil)
	}
	if c.cause != nil {
		return true
	}
	for c.announced < c.firstRecv+min(uint64(c.recvs.len()), maxPosted) {
		t := c.recvs.at(int(c.announced - c.firstRecv))
		b.heads = appendHeader(b.heads, kindReady, c.rank, uint64(len(t.buf)), c.announced, nil)
		c.announced++
	}
	b.first = c.firstSend
	for size := 0; c.sends.len() > 0 && c.ready.len() > 0 && len(b.data) < batchMessages && size < batchBytes; {
		t := c.sends.at(0)
		if posted := c.ready.at(0); posted != uint64(len(t.buf)) {
			b.refused = len(b.data) == 0 // what goes before it is written first
			break
		}
		c.ready.pop()
		c.firstSend++
		c.sent.push(c.sends.pop())
		b.data = append(b.data, t)
		size += len(t.buf)
	}
	if b.refused {
		sent, posted := uint64(len(c.sends.at(0).buf)), c.ready.at(0)
		c.setCause(lengthError(c.firstSend, sent, posted))
		b.heads = appendHeader(b.heads, kindRefuse, c.rank, sent, c.firstSend, nil)
		return true
	}
	return false
}

// writeTo writes the batch: the payloads from where they lie, by writev where conn has it.
func (b *batch) writeTo(conn net.Conn, rank int) error {
	control := len(b.heads)
	for i, t := range b.data {
		b.heads = appendHeader(b.heads, kindData, rank, uint64(len(t.buf)), b.first+uint64(i), t.buf)
	}
	b.vectors = b.vectors[:0]
	head := b.heads[:min(control+headerSize, len(b.heads))]
	rest := b.heads[len(head):]
	for _, t := range b.data {
		b.vectors = append(b.vectors, head)
		if len(t.buf) > 0 {
			b.vectors = append(b.vectors, t.buf)
		}
		head, rest = rest[:min(headerSize, len(rest))], rest[min(headerSize, len(rest)):]
	}
	if len(b.data) == 0 {
		b.vectors = append(b.vectors, head)
	}
	b.pending = b.vectors
	_, err := b.pending.WriteTo(conn)
	clear(b.vectors) // let go of the payloads
	return err
}
