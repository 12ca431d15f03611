package shm

import (
	"encoding/binary"
	"fmt"

	"hcclps/p2p"
)

// kind says where the bytes of a message are.
type kind uint16

const (
	kindInline kind = iota + 1 // in the header's line
	kindRing                   // in the ring, from the next line on, the last line padded
	kindPlace                  // in the sender's arena
)

// header announces a message. It has a line of the ring to itself:
//
//	0  u64 length of the message
//	8  u32 number of the message in its direction, from 0, modulo 2^32
//	12 u16 kind
//	14 u16 check
//	16 48 bytes: the message (kindInline), or u64 its offset in the arena (kindPlace)
type header struct {
	length uint64
	number uint32
	kind   kind
	place  uint64
}

const (
	headerBytes = 16
	inlineBytes = line - headerBytes
)

// check ties the fields together, so that stray bytes are not taken for a header.
func (h header) check() uint16 {
	x := (h.length ^ uint64(h.number)<<16 ^ uint64(h.kind)<<48 ^ h.place<<8 ^ 0x68636d70) * 0x9e3779b97f4a7c15
	return uint16(x >> 48)
}

// put writes h to a line. An inline message is put beside it by the caller.
func (h header) put(b []byte) {
	_ = b[line-1]
	binary.LittleEndian.PutUint64(b, h.length)
	binary.LittleEndian.PutUint32(b[8:], h.number)
	binary.LittleEndian.PutUint16(b[12:], uint16(h.kind))
	binary.LittleEndian.PutUint16(b[14:], h.check())
	if h.kind == kindPlace {
		binary.LittleEndian.PutUint64(b[headerBytes:], h.place)
	}
}

// parseHeader reads a line that should be the header of message number, from a sender with an arena of so many bytes. The line is
// in memory that the sender may write at any time, so each field is read once.
func parseHeader(b []byte, number uint32, arena uint64) (header, error) {
	_ = b[line-1]
	h := header{
		length: binary.LittleEndian.Uint64(b),
		number: binary.LittleEndian.Uint32(b[8:]),
		kind:   kind(binary.LittleEndian.Uint16(b[12:])),
	}
	check := binary.LittleEndian.Uint16(b[14:])
	if h.kind == kindPlace {
		h.place = binary.LittleEndian.Uint64(b[headerBytes:])
	}
	switch {
	case check != h.check():
		return header{}, fmt.Errorf("header of message %d: check %04x, computed %04x: %w", number, check, h.check(), p2p.ErrCorrupt)
	case h.number != number:
		return header{}, fmt.Errorf("header of message %d has number %d: %w", number, h.number, p2p.ErrCorrupt)
	case h.kind < kindInline || h.kind > kindPlace,
		h.kind == kindInline && h.length > inlineBytes,
		h.kind == kindRing && h.length <= inlineBytes,
		h.kind == kindPlace && (h.length > arena || h.place > arena-h.length):
		return header{}, fmt.Errorf("header of message %d: kind %d of %d bytes at %d: %w", number, h.kind, h.length, h.place, p2p.ErrCorrupt)
	}
	return h, nil
}
