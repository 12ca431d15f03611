package table

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	minSlab = 64 << 10
	maxSlab = 64 << 20
	osPage  = 4096
)

// slabs cuts numbered blocks of one size from anonymous mappings, outside the heap and out of the collector's sight.
// Blocks lie in extents of a power of two of them, each behind a head of headBytes a block; slabs are runs of extents.
// Huge pages are not asked for: at 10^7 rows they made lookups no faster, and clearing one can hold up a push for some milliseconds.
// A new slab is a 128th of what is mapped already, within 64 KiB and 64 MiB, so that the part not yet used stays below 1 %.
type slabs struct {
	block, head int              // bytes of a block, and of its head
	least       int              // bytes of a slab, at least
	shift       uint             // binary logarithm of the blocks of an extent
	extents     []unsafe.Pointer // first byte of each, mapped memory
	used        int64            // blocks handed out, ever
	free        []uint32         // of those, given back
	mapped      int64            // bytes
	maps        [][]byte
	memory      *Memory // counts what is mapped, if it is there
}

func newSlabs(block, head int) slabs {
	s := slabs{block: block, head: head}
	for (block+head)<<(s.shift+1) <= minSlab {
		s.shift++
	}
	return s
}

// extentBytes is the length of an extent: its heads, then its blocks.
func (s *slabs) extentBytes() int { return (s.block + s.head) << s.shift }

// take hands out n blocks of consecutive numbers and returns the first. They are zeroed, but for a block that was given back.
func (s *slabs) take(n int) (uint32, error) {
	if n == 1 && len(s.free) > 0 {
		return s.pop(), nil
	}
	first := s.used
	if first+int64(n) > math.MaxUint32 {
		return 0, errors.New("grow table: all block numbers of this shard are used: spread the table over more shards")
	}
	for first+int64(n) > int64(len(s.extents))<<s.shift {
		if err := s.grow(); err != nil {
			return 0, err
		}
	}
	s.used += int64(n)
	return uint32(first), nil
}

// room is the number of blocks that can be handed out without mapping memory.
func (s *slabs) room() int { return len(s.free) + len(s.extents)<<s.shift - int(s.used) }

// last is the first block of the newest mapping, if the blocks in use there can move to free ones before it. The free ones there are then
// not handed out any more, and unmapLast is to follow.
func (s *slabs) last() (first uint32, ok bool) {
	if len(s.maps) < 2 {
		return 0, false
	}
	first = uint32(len(s.extents)-len(s.maps[len(s.maps)-1])/s.extentBytes()) << s.shift
	below := 0
	for _, b := range s.free {
		if b < first {
			below++
		}
	}
	if live := max(0, s.used-int64(first)) - int64(len(s.free)-below); live > int64(below) {
		return 0, false
	}
	s.free = slices.DeleteFunc(s.free, func(b uint32) bool { return b >= first })
	return first, true
}

// pop hands out a block that was given back.
func (s *slabs) pop() uint32 {
	block := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	return block
}

// unmapLast unmaps the newest mapping, in which nothing is in use.
func (s *slabs) unmapLast() error {
	m := s.maps[len(s.maps)-1]
	s.maps = s.maps[:len(s.maps)-1]
	s.extents = s.extents[:len(s.extents)-len(m)/s.extentBytes()]
	s.used = min(s.used, int64(len(s.extents))<<s.shift)
	s.mapped -= int64(len(m))
	s.memory.Add(-int64(len(m)))
	if err := unix.Munmap(m); err != nil {
		return fmt.Errorf("unmap a part of a table: %w", err)
	}
	return nil
}

// give takes a block back, to be handed out again.
func (s *slabs) give(block uint32) { s.free = append(s.free, block) }

func (s *slabs) grow() error {
	extent := s.extentBytes()
	want := max(extent, s.least, min(maxSlab, int(s.mapped/128)))
	count := want / extent
	size := (count*extent + osPage - 1) &^ (osPage - 1)
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("grow table: map %d bytes: %w: give the server more memory, or the table more shards", size, err)
	}
	s.maps = append(s.maps, mem)
	s.mapped += int64(size)
	s.memory.Add(int64(size))
	for i := range count {
		s.extents = append(s.extents, unsafe.Pointer(&mem[i*extent]))
	}
	return nil
}

// at is the first byte of block i.
func (s *slabs) at(i uint32) unsafe.Pointer {
	in := int(i & (1<<s.shift - 1))
	return unsafe.Add(s.extents[i>>s.shift], s.head<<s.shift+in*s.block)
}

// bytesOf is block i.
func (s *slabs) bytesOf(i uint32) []byte { return unsafe.Slice((*byte)(s.at(i)), s.block) }

// headOf is the first byte of the head of block i.
func (s *slabs) headOf(i uint32) unsafe.Pointer {
	in := int(i & (1<<s.shift - 1))
	return unsafe.Add(s.extents[i>>s.shift], in*s.head)
}

// bytes is all memory the slabs cost.
func (s *slabs) bytes() int64 {
	return s.mapped + int64(cap(s.extents))*8 + int64(cap(s.maps))*24 + int64(cap(s.free))*4
}

func (s *slabs) close() error {
	var faults []error
	for _, m := range s.maps {
		faults = append(faults, unix.Munmap(m))
	}
	s.memory.Add(-s.mapped)
	s.maps, s.extents, s.free, s.mapped = nil, nil, nil, 0
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("unmap table: %w", err)
	}
	return nil
}
