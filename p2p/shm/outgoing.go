package shm

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"hcclps/p2p"
)

// pieceBytes is the most that is copied between two signs to the other side, so that both copy at the same time.
const pieceBytes = 256 << 10

// placeBytes is the length from which on a message in the arena is read in place.
const placeBytes = 4 << 10

// outgoing is the sending half: it writes headers and messages to this rank's ring. It belongs to the engine.
type outgoing struct {
	ring  []byte
	arena []byte
	head  *atomic.Uint64 // ours
	tail  *atomic.Uint64 // the peer's
	peer  *ringer

	queue   queue[transfer] // not yet written to the end; the front may be in part
	written queue[leaving]  // not yet taken
	pos     uint64          // written
	shown   uint64          // of that, what the peer may read
	taken   uint64          // of that, what the peer has taken
	number  uint32
	active  bool // the front's header is written
}

func newOutgoing(m *memory, rank int, peer *ringer) outgoing {
	return outgoing{
		ring: m.ringOf(rank), arena: m.arenaOf(rank),
		head: m.words[rank].head, tail: m.words[1-rank].tail, peer: peer,
	}
}

// step moves one piece if it can. Functions are called only if call is set.
func (o *outgoing) step(call bool) (moved bool, err error) {
	if o.written.len() > 0 || o.queue.len() > 0 {
		if moved, err = o.settle(); err != nil {
			return moved, err
		}
	}
	if o.queue.len() == 0 {
		return moved, nil
	}
	t := o.queue.front()
	if t.piece != nil && !call {
		return moved, nil
	}
	if !o.active {
		begun, err := o.begin(t)
		return begun || moved, err
	}
	n, err := o.write(t)
	return n > 0 || moved, err
}

// fail ends all that is pending with err.
func (o *outgoing) fail(err error) {
	for ; o.written.len() > 0; o.written.drop() {
		o.written.front().done.Complete(err)
	}
	fail(&o.queue, err)
}

// settle completes what the peer has taken.
func (o *outgoing) settle() (moved bool, err error) {
	tail := o.tail.Load()
	if tail == o.taken {
		return false, nil
	}
	if tail < o.taken || tail > o.pos || tail%line != 0 {
		return false, fmt.Errorf("peer says it took %d bytes of %d, after %d: %w", tail, o.pos, o.taken, p2p.ErrCorrupt)
	}
	o.taken = tail
	for o.written.len() > 0 && o.written.front().end <= tail {
		done := o.written.front().done
		o.written.drop()
		done.Complete(nil)
	}
	return true, nil
}

func (o *outgoing) room() uint64 { return uint64(len(o.ring)) - (o.pos - o.taken) }

// begin writes the header of t, and all of it if that is enough.
func (o *outgoing) begin(t *transfer) (bool, error) {
	if o.room() < line {
		return false, nil
	}
	at := o.ring[o.pos%uint64(len(o.ring)):][:line]
	h := header{length: uint64(t.n), number: o.number, kind: kindRing}
	if place, ok := o.place(t); ok {
		h.kind, h.place = kindPlace, place
	} else if t.n <= inlineBytes {
		h.kind = kindInline
		if err := o.fill(t, at[headerBytes:headerBytes+t.n]); err != nil {
			return false, err
		}
	}
	h.put(at)
	o.number++
	o.pos += line
	if h.kind == kindRing {
		o.active = true // the header becomes visible with the first piece
		return true, nil
	}
	o.sent()
	o.publish()
	return true, nil
}

// fill writes the next piece of t.
func (o *outgoing) fill(t *transfer, piece []byte) error {
	if t.piece == nil {
		copy(piece, t.next(len(piece)))
		return nil
	}
	if len(piece) == 0 {
		return nil
	}
	if err := t.piece(piece); err != nil {
		return fmt.Errorf("fill a piece of %d bytes: %w", len(piece), err)
	}
	return nil
}

// place finds t in the arena.
func (o *outgoing) place(t *transfer) (off uint64, ok bool) {
	if t.n < placeBytes || t.piece != nil || len(o.arena) == 0 {
		return 0, false
	}
	base := uintptr(unsafe.Pointer(unsafe.SliceData(o.arena)))
	at := uintptr(unsafe.Pointer(unsafe.SliceData(t.buf)))
	if at < base || at >= base+uintptr(len(o.arena)) {
		return 0, false
	}
	return uint64(at - base), true
}

// write copies the next piece of t to the ring.
func (o *outgoing) write(t *transfer) (int, error) {
	size := uint64(len(o.ring))
	off := o.pos % size
	n := min(uint64(t.n), o.room(), size-off, pieceBytes)
	if n == 0 {
		return 0, nil
	}
	if err := o.fill(t, o.ring[off:off+n]); err != nil {
		return 0, err
	}
	t.n -= int(n)
	o.pos += (n + line - 1) &^ (line - 1)
	if t.n == 0 {
		o.active = false
		o.sent()
	}
	o.publish()
	return int(n), nil
}

// sent moves the front to those that wait for the peer to take them.
func (o *outgoing) sent() {
	o.written.push(leaving{o.pos, o.queue.front().done})
	o.queue.drop()
}

func (o *outgoing) publish() {
	o.shown = o.pos
	o.head.Store(o.pos)
	o.peer.ring()
}

// stuck says whether something can be done that the peer will not ring for.
func (o *outgoing) stuck() bool {
	if o.written.len() == 0 && o.queue.len() == 0 {
		return false
	}
	return o.tail.Load() != o.taken || o.queue.len() > 0 && o.shown == o.taken
}
