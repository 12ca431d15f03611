package tcp

import (
	"fmt"
	"net"

	"hcclps/p2p"
)

const (
	// maxWhole is the longest message that travels in one frame: cutting it would cost more than it gains.
	maxWhole = 128 << 10
	// maxPiece bounds a piece, behind which small messages wait. It is no more than what the kernel has room for.
	maxPiece = 2 << 20
	// minBehind is the least piece of a message behind others: the stripes have something to do anyway, and a piece costs some switches of threads.
	minBehind = 1 << 20
	// maxSummed bounds a piece with a sum: it is read twice, by the sum and by the kernel, the second time from the cache.
	maxSummed = 512 << 10
	// pieceUnit is what pieces are a multiple of.
	pieceUnit = 64 << 10
)

// pieceSize is into what pieces a message of n bytes is cut on some stripes. Of a message that is alone each stripe has something; one that is behind
// others is cut into fewer.
func pieceSize(n, stripes int, sums, behind bool) int {
	each := (n + stripes - 1) / stripes
	each = (each + pieceUnit - 1) / pieceUnit * pieceUnit
	switch {
	case sums:
		return min(max(each, maxWhole), maxSummed)
	case behind:
		return min(max(each, minBehind), maxPiece)
	default:
		return min(max(each, maxWhole), maxPiece)
	}
}

// piece is a part of a message that is being written.
type piece struct {
	seq uint64
	at  int
	load
	eager bool
}

// first is the next piece of a message.
func (o *outgoing) first() piece {
	return piece{seq: o.seq, at: o.off, load: o.cut(o.off, min(o.off+o.piece, o.size)), eager: o.eager}
}

// next takes the next piece off the striped messages; c.mu is held.
func (c *Comm) next() (p piece, ok bool) {
	if c.striped.len() == 0 {
		return piece{}, false
	}
	o := c.striped.ref(0)
	p = o.first()
	if o.off += p.size; o.off == o.size {
		c.striped.pop()
	}
	return p, true
}

// head makes the header of a piece.
func (c *Comm) head(b []byte, p piece) []byte {
	h := header{kind: kindRaw, rank: c.rank, seq: p.seq, at: uint64(p.at), size: uint32(p.size), eager: p.eager}
	if c.sums {
		h.kind, h.sum = kindData, p.sum()
		c.summed.Add(1) // see onDone
	}
	return appendHeader(b, h)
}

// writePieces writes pieces on connection k, one but the first, until the Comm is dead or the connection.
func (c *Comm) writePieces(k int) error {
	var head [headerSize]byte
	var vectors net.Buffers
	for {
		p, ok, dead := c.take()
		if dead {
			return nil
		}
		if !ok {
			<-c.wake[k]
			continue
		}
		vectors = p.appendTo(append(vectors[:0], c.head(head[:0], p)))
		pending := vectors
		err := writeVectors(c.conns[k], &pending)
		clear(vectors) // let go of the payload
		c.put()
		if err != nil {
			return fmt.Errorf("write message %d at %d: %w: %w", p.seq, p.at, p2p.ErrPeer, err)
		}
	}
}

// take is next for the writers but the first, which say by put that they have written.
func (c *Comm) take() (p piece, ok, dead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil || c.lost != nil {
		return piece{}, false, c.cause != nil
	}
	if p, ok = c.next(); ok {
		c.writing++
	}
	return p, ok, false
}

func (c *Comm) put() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writing--; c.refusal != nil {
		c.poke(0)
	}
}
