package region

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// MaxRanks is the most ranks that share a region.
const MaxRanks = 256

const (
	page = 4096
	// line is two cache lines, since CPUs fetch them in pairs.
	line = 128
	// maxMemory bounds a rank's memory, which keeps sums far from overflow.
	maxMemory = 1 << 42
)

// layout is what the ranks agree on.
//
//	0      u32 count of sleeping ranks
//	128    for each rank 128 bytes: nonce at 0, u32 process id at 16, u32 bell at 64, u32 state at 68
//	...    from the next page on the memory of each rank
type layout struct {
	ranks  int
	memory uint64 // bytes of a rank
}

const (
	sleepersOffset = 0
	pidOffset      = 16
	bellOffset     = 64
	stateOffset    = 68
	nonceBytes     = 16
)

// The states of a rank. It leaves here once.
const (
	stateHere uint32 = iota
	stateLeft
)

// check refuses what another rank should not have named.
func (l layout) check() error {
	if l.ranks < 1 || l.ranks > MaxRanks {
		return fmt.Errorf("%d ranks, want 1 to %d", l.ranks, MaxRanks)
	}
	if l.memory == 0 || l.memory > maxMemory || l.memory%page != 0 {
		return fmt.Errorf("memory of %d bytes a rank, want a multiple of %d, at most %d", l.memory, page, int64(maxMemory))
	}
	return nil
}

func (l layout) control() uint64 { return (uint64(l.ranks+1)*line + page - 1) &^ (page - 1) }

func (l layout) offset(rank int) uint64 { return l.control() + uint64(rank)*l.memory }

func (l layout) total() uint64 { return l.offset(l.ranks) }

// mapping is the memory with its parts by name.
type mapping struct {
	layout
	bytes    []byte
	sleepers *atomic.Uint32
	ranks    []control
}

// control is a rank's part of the control words.
type control struct {
	nonce  []byte
	pid    *atomic.Uint32
	bell   *atomic.Uint32 // 1 while it sleeps
	state  *atomic.Uint32 // written by the rank itself
	memory []byte
}

// view names the parts of l.total() bytes.
func view(l layout, b []byte) *mapping {
	m := &mapping{layout: l, bytes: b, sleepers: word32(b, sleepersOffset)}
	for r := range l.ranks {
		base := uint64(r+1) * line
		from, to := l.offset(r), l.offset(r+1)
		m.ranks = append(m.ranks, control{
			nonce: b[base : base+nonceBytes], pid: word32(b, base+pidOffset), bell: word32(b, base+bellOffset), state: word32(b, base+stateOffset),
			memory: b[from:to:to],
		})
	}
	return m
}

func word32(b []byte, at uint64) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&b[at])) }

// word is the 8 bytes at w x 8 of a rank's memory.
func (c *control) word(w int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&c.memory[8*w : 8*w+8][0]))
}

// offset is where b lies in memory, if it lies there whole.
func offset(memory, b []byte) (int, bool) {
	if len(b) == 0 {
		return 0, false
	}
	begin, at := uintptr(unsafe.Pointer(&memory[0])), uintptr(unsafe.Pointer(&b[0]))
	if at < begin || at-begin > uintptr(len(memory)-len(b)) {
		return 0, false
	}
	return int(at - begin), true
}
