package shm

import (
	"fmt"
	"sync/atomic"

	"hcclps/p2p"
)

// incoming is the receiving half: it takes messages from the peer's ring, and from its arena. It belongs to the engine.
type incoming struct {
	ring  []byte
	arena []byte
	head  *atomic.Uint64 // the peer's
	tail  *atomic.Uint64 // ours
	state *atomic.Uint32 // the peer's
	peer  *ringer

	queue  queue[transfer] // posted; the front may be filled in part
	pos    uint64
	seen   uint64 // of head
	number uint32
	active bool   // the front's header is read
	from   []byte // what is left of the front's message in the arena; nil: it is in the ring
}

func newIncoming(m *memory, rank int, peer *ringer) incoming {
	return incoming{
		ring: m.ringOf(1 - rank), arena: m.arenaOf(1 - rank),
		head: m.words[1-rank].head, tail: m.words[rank].tail, state: m.words[1-rank].state, peer: peer,
	}
}

// step moves one piece if it can. Functions are called only if call is set.
func (in *incoming) step(call bool) (moved bool, err error) {
	if in.queue.len() == 0 {
		return false, nil
	}
	t := in.queue.front()
	if t.piece != nil && !call {
		return false, nil
	}
	if in.from == nil && in.pos == in.seen {
		if in.seen, err = in.look(); err != nil || in.pos == in.seen {
			return false, err
		}
	}
	switch {
	case !in.active:
		return true, in.begin(t)
	case in.from != nil:
		return true, in.fetch(t)
	default:
		return true, in.read(t)
	}
}

// look reads how far the peer has written.
func (in *incoming) look() (uint64, error) {
	head := in.head.Load()
	if head < in.pos || head-in.pos > uint64(len(in.ring)) || head%line != 0 {
		return in.seen, fmt.Errorf("peer says it wrote %d bytes, %d are taken: %w", head, in.pos, p2p.ErrCorrupt)
	}
	return head, nil
}

// begin reads the header of the message for t, and all of it if that is enough.
func (in *incoming) begin(t *transfer) error {
	at := in.ring[in.pos%uint64(len(in.ring)):][:line]
	h, err := parseHeader(at, in.number, uint64(len(in.arena)))
	if err != nil {
		return err
	}
	if h.length != uint64(t.n) {
		return fmt.Errorf("message %d has %d bytes, its receive %d: %w", h.number, h.length, t.n, p2p.ErrLength)
	}
	in.number++
	switch h.kind {
	case kindInline:
		if err := in.give(t, at[headerBytes:headerBytes+t.n]); err != nil {
			return err
		}
		in.pos += line
		in.took()
	case kindPlace:
		in.active, in.from = true, in.arena[h.place:h.place+h.length]
	case kindRing:
		in.pos += line
		in.active = true
	}
	return nil
}

// give passes a piece to t. Stores that go past the cache, and process_vm_readv in place of the ring, were tried and spare nothing.
func (in *incoming) give(t *transfer, piece []byte) error {
	t.n -= len(piece)
	if t.piece == nil {
		copy(t.next(len(piece)), piece)
		return nil
	}
	if len(piece) == 0 {
		return nil
	}
	if err := t.piece(piece); err != nil {
		return fmt.Errorf("take message %d: %w", in.number-1, err)
	}
	return nil
}

// read takes the next piece of t from the ring.
func (in *incoming) read(t *transfer) error {
	size := uint64(len(in.ring))
	off := in.pos % size
	n := min(uint64(t.n), in.seen-in.pos, size-off, pieceBytes)
	if err := in.give(t, in.ring[off:off+n]); err != nil {
		return err
	}
	in.pos += (n + line - 1) &^ (line - 1)
	if t.n == 0 {
		in.took()
	} else {
		in.publish()
	}
	return nil
}

// fetch takes the next piece of t from the peer's arena. The peer keeps the message as it is until it is taken or the peer has
// closed, and says so before.
func (in *incoming) fetch(t *transfer) error {
	n := min(len(in.from), placePiece)
	if err := in.give(t, in.from[:n]); err != nil {
		return err
	}
	in.from = in.from[n:]
	if len(in.from) > 0 {
		return nil
	}
	if in.state.Load() != stateOpen {
		return fmt.Errorf("peer ended while message %d was read in its memory: %w", in.number-1, p2p.ErrPeer)
	}
	in.from = nil
	in.pos += line
	in.took()
	return nil
}

// placePiece is the most that is copied from the arena before other work gets its turn.
const placePiece = 1 << 20

// took completes the front.
func (in *incoming) took() {
	in.active = false
	done := in.queue.front().done
	in.queue.drop()
	in.publish()
	done.Complete(nil)
}

func (in *incoming) publish() {
	in.tail.Store(in.pos)
	in.peer.ring()
}

// small says whether the next message is one that costs little.
func (in *incoming) small() bool {
	return in.queue.len() > 0 && in.queue.front().n <= inlineBytes
}

// stuck says whether something can be done that the peer will not ring for.
func (in *incoming) stuck() bool {
	return in.queue.len() > 0 && (in.from != nil || in.head.Load() != in.pos)
}
