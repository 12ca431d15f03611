package raftlog

import (
	"encoding/binary"
	"hash/crc32"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/hashicorp/raft"
)

const (
	frameSize    = 64 // a descriptor
	payloadAlign = 64
	frameHashed  = 48 // bytes of a descriptor under its chained CRC
	publishAt    = 56
)

// frame is the descriptor of one entry.
type frame struct {
	index, term uint64
	home        uint64 // seq of the segment that holds the payload
	off, length uint32 // place of the payload there
	appended    int64  // nanoseconds since 1970, 0: not known
	payload     uint32 // CRC-32C of the payload
	kind        raft.LogType
	chain       uint32 // CRC of this descriptor, seeded with its predecessor's and the log id
}

// put writes the descriptor into slot b of segment seq and publishes it last, in one atomic store: a process killed
// at any instant leaves a whole frame or none.
func (f *frame) put(b []byte, seq uint64, prev uint32, id logID) {
	_ = b[frameSize-1]
	atomic.StoreUint64(word(b[publishAt:]), 0)
	binary.LittleEndian.PutUint64(b, f.index)
	binary.LittleEndian.PutUint64(b[8:], f.term)
	binary.LittleEndian.PutUint64(b[16:], f.home)
	binary.LittleEndian.PutUint32(b[24:], f.off)
	binary.LittleEndian.PutUint32(b[28:], f.length)
	binary.LittleEndian.PutUint64(b[32:], uint64(f.appended))
	binary.LittleEndian.PutUint32(b[40:], f.payload)
	binary.LittleEndian.PutUint32(b[44:], uint32(f.kind))
	f.chain = chainOf(prev, id, b)
	binary.LittleEndian.PutUint32(b[48:], f.chain)
	binary.LittleEndian.PutUint32(b[52:], uint32(seq))
	atomic.StoreUint64(word(b[publishAt:]), publishWord(f.index, seq, f.chain))
}

// readFrame reads a slot without judging it.
func readFrame(b []byte) frame {
	_ = b[frameSize-1]
	return frame{
		index:    binary.LittleEndian.Uint64(b),
		term:     binary.LittleEndian.Uint64(b[8:]),
		home:     binary.LittleEndian.Uint64(b[16:]),
		off:      binary.LittleEndian.Uint32(b[24:]),
		length:   binary.LittleEndian.Uint32(b[28:]),
		appended: int64(binary.LittleEndian.Uint64(b[32:])),
		payload:  binary.LittleEndian.Uint32(b[40:]),
		kind:     raft.LogType(b[44]),
		chain:    binary.LittleEndian.Uint32(b[48:]),
	}
}

// chainOf is the CRC of the descriptor in b after one whose CRC was prev.
func chainOf(prev uint32, id logID, b []byte) uint32 {
	return crc32.Update(crc32.Update(prev, castagnoli, id[:]), castagnoli, b[:frameHashed])
}

// chainSeed starts the chain of an empty log in segment seq.
func chainSeed(id logID, seq uint64) uint32 {
	return crc32.Checksum(binary.LittleEndian.AppendUint64(id[:len(id):len(id)], seq), castagnoli)
}

// publishWord is never zero and binds a descriptor to its index, to this life of its segment and to its chain.
func publishWord(index, seq uint64, chain uint32) uint64 {
	return (index*0x9e3779b97f4a7c15 ^ seq*0xbf58476d1ce4e5b9 ^ uint64(chain)*0x94d049bb133111eb) | 1
}

// word views eight bytes at a multiple of eight as a number that is stored atomically. Both architectures we build
// for are little endian.
func word(b []byte) *uint64 {
	_ = b[7]
	return (*uint64)(unsafe.Pointer(unsafe.SliceData(b)))
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func roundUp(n int) int { return (n + payloadAlign - 1) &^ (payloadAlign - 1) }
