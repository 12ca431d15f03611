package raftlog

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"sync/atomic"
	"unsafe"
)

const (
	formatVersion = 1
	headerSize    = 64
	minSegment    = 1 << 20
	maxSegment    = 1 << 30

	magicLive = 0x31474553504c4348 // "HCLPSEG1"
	magicFree = 0x45455246504c4348 // "HCLPFREE"
)

// segment is one mapped file: a header, descriptors growing up, payloads growing down. Its fields are guarded by
// Log.mu, pins apart. A life of a segment begins when it is rolled to and ends when it is retired; payload space is
// used once in a life, and a new life waits until nobody has it pinned.
type segment struct {
	no   uint32
	path string
	file *os.File // nil: private memory of a frozen log
	m    []byte

	seq   uint64 // number of this life, ascending over all segments
	first uint64 // index of slot 0; 0: told by slot 0 itself
	base  uint32 // chain before slot 0
	n     int    // descriptors
	low   int    // lowest payload byte taken
	max   uint64 // highest index with a descriptor or a payload here
	pins  atomic.Int32
}

// header is what the first 64 bytes say.
type header struct {
	magic uint64
	id    logID
	group uint32
	seq   uint64
	first uint64
	base  uint32
	blank bool // never written
	valid bool // of our version, and its CRC holds
}

// stamp begins a life: the fields first, the magic last.
func (g *segment) stamp(id logID, group uint32) {
	g.putHeader(id, group)
	atomic.StoreUint64(word(g.m), magicLive)
}

// reserve writes a header that belongs to the log and holds nothing.
func (g *segment) reserve(id logID, group uint32) {
	g.putHeader(id, group)
	atomic.StoreUint64(word(g.m), magicFree)
}

// retire ends a life. The bytes stay until the next one.
func (g *segment) retire() { atomic.StoreUint64(word(g.m), magicFree) }

func (g *segment) putHeader(id logID, group uint32) {
	b := g.m[:headerSize]
	binary.LittleEndian.PutUint32(b[8:], formatVersion)
	binary.LittleEndian.PutUint32(b[12:], group)
	copy(b[16:32], id[:])
	binary.LittleEndian.PutUint64(b[32:], g.seq)
	binary.LittleEndian.PutUint64(b[40:], g.first)
	binary.LittleEndian.PutUint64(b[48:], uint64(len(g.m)))
	binary.LittleEndian.PutUint32(b[56:], g.base)
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[8:60], castagnoli))
}

func (g *segment) header() header {
	b := g.m[:headerSize]
	h := header{
		magic: binary.LittleEndian.Uint64(b),
		id:    logID(b[16:32]),
		group: binary.LittleEndian.Uint32(b[12:]),
		seq:   binary.LittleEndian.Uint64(b[32:]),
		first: binary.LittleEndian.Uint64(b[40:]),
		base:  binary.LittleEndian.Uint32(b[56:]),
		blank: !anySet(b),
	}
	h.valid = binary.LittleEndian.Uint32(b[8:]) == formatVersion &&
		binary.LittleEndian.Uint64(b[48:]) == uint64(len(g.m)) &&
		binary.LittleEndian.Uint32(b[60:]) == crc32.Checksum(b[8:60], castagnoli)
	return h
}

// slot is the place of descriptor i.
func (g *segment) slot(i int) []byte {
	return g.m[headerSize+i*frameSize:][:frameSize:frameSize]
}

// frameAt reads the descriptor of an index held here.
func (g *segment) frameAt(index uint64) frame { return readFrame(g.slot(int(index - g.first))) }

func (g *segment) holds(index uint64) bool {
	return g.n > 0 && index >= g.first && index-g.first < uint64(g.n)
}

// room says whether one more descriptor and n payload bytes fit.
func (g *segment) room(n int) bool {
	return g.low-roundUp(n) >= headerSize+(g.n+1)*frameSize
}

// place returns the offset of b in the mapping.
func (g *segment) place(b []byte) (int, bool) {
	off := uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(g.m)))
	return int(off), off < uintptr(len(g.m)) && len(b) <= len(g.m)-int(off)
}

// used is what this life has taken of the file.
func (g *segment) used() int { return headerSize + g.n*frameSize + len(g.m) - g.low }

// anySet reports a byte other than zero.
func anySet(b []byte) bool {
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b) != 0 {
			return true
		}
	}
	for _, c := range b {
		if c != 0 {
			return true
		}
	}
	return false
}

// wipe zeroes b page by page, leaving pages alone that are zero already.
func wipe(b []byte) {
	const page = 4096
	for len(b) > 0 {
		p := b[:min(page, len(b))]
		if anySet(p) {
			clear(p)
		}
		b = b[len(p):]
	}
}
