package shm

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// line is the unit of everything in the shared memory: a cache line.
const line = 64

// The mapping, in bytes. All that follows the control page is a multiple of a page long.
//
//	0      identity: 16 bytes of rank 0's nonce, then 16 of rank 1's
//	4096   control words of rank 0, then of rank 1, 1024 bytes each
//	8192   ring of messages from rank 0, ring of messages from rank 1
//	...    arena of rank 0, arena of rank 1
const (
	page          = 4096
	controlOffset = page
	controlBytes  = 1024
	ringsOffset   = 2 * page
)

// Control words of a rank. What its peer looks at while it waits is in one line, and what both write in another, two lines apart, since CPUs
// fetch lines in pairs.
const (
	headOffset  = 0   // u64, bytes this rank has written to its ring
	tailOffset  = 8   // u64, bytes this rank has taken from its peer's ring
	stateOffset = 16  // u32, see state
	bellOffset  = 256 // u32, see bell
)

// layout is what the two sides agree on: sizes in bytes.
type layout struct {
	ring  uint64    // a power of two
	arena [2]uint64 // by rank
}

// Bounds of sizes, which keep sums far from overflow.
const (
	minRing  = page
	maxRing  = 1 << 30
	maxArena = 1 << 42
)

// check refuses sizes that the other side should not have named.
func (l layout) check() error {
	if l.ring < minRing || l.ring > maxRing || l.ring&(l.ring-1) != 0 {
		return fmt.Errorf("ring of %d bytes: want a power of two from %d to %d", l.ring, minRing, maxRing)
	}
	for rank, n := range l.arena {
		if n > maxArena || n%page != 0 {
			return fmt.Errorf("arena of rank %d of %d bytes: want a multiple of %d, at most %d", rank, n, page, int64(maxArena))
		}
	}
	return nil
}

func (l layout) ringOffset(rank int) uint64 { return ringsOffset + uint64(rank)*l.ring }

func (l layout) arenaOffset(rank int) uint64 {
	return ringsOffset + 2*l.ring + uint64(rank)*l.arena[0]
}

func (l layout) total() uint64 { return l.arenaOffset(1) + l.arena[1] }

// memory is the mapping with its parts by name.
type memory struct {
	layout
	bytes []byte
	words [2]words
}

// words are the control words of one rank. Its owner writes all but bell, which both write.
type words struct {
	head  *atomic.Uint64
	tail  *atomic.Uint64
	bell  bell
	state *atomic.Uint32
}

// The states of a rank. It leaves open once.
const (
	stateOpen uint32 = iota
	stateClosed
	stateLength
	stateCorrupt
)

// view names the parts of a mapping of l.total() bytes.
func view(l layout, b []byte) *memory {
	m := &memory{layout: l, bytes: b}
	for rank := range m.words {
		base := controlOffset + rank*controlBytes
		m.words[rank] = words{
			head:  (*atomic.Uint64)(unsafe.Pointer(&b[base+headOffset])),
			tail:  (*atomic.Uint64)(unsafe.Pointer(&b[base+tailOffset])),
			bell:  bell{(*atomic.Uint32)(unsafe.Pointer(&b[base+bellOffset]))},
			state: (*atomic.Uint32)(unsafe.Pointer(&b[base+stateOffset])),
		}
	}
	return m
}

// nonce is the place of a rank's nonce.
func (m *memory) nonce(rank int) []byte { return m.bytes[rank*nonceBytes : (rank+1)*nonceBytes] }

func (m *memory) ringOf(rank int) []byte {
	off := m.ringOffset(rank)
	return m.bytes[off : off+m.ring : off+m.ring]
}

func (m *memory) arenaOf(rank int) []byte {
	off := m.arenaOffset(rank)
	return m.bytes[off : off+m.arena[rank] : off+m.arena[rank]]
}
