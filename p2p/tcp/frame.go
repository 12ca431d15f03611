package tcp

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"hcclps/p2p"
)

const (
	headerSize = 24
	magic      = uint16('p') | uint16('2')<<8
	version    = 1
	rankBit    = 0x80

	// maxPosted is how many receives may be announced and not yet filled; a peer that announces more is broken.
	maxPosted = 1024
)

type kind uint8

const (
	kindReady kind = iota + 1
	kindData
	kindDone
	kindRefuse
)

// castagnoli is CRC-32C, which the CPU computes.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is the decoded form; crc covers the payload too.
type header struct {
	kind   kind
	rank   int // of the sender
	crc    uint32
	length uint64
	seq    uint64
}

// appendHeader encodes a frame's header; payload is nil but for data.
func appendHeader(b []byte, k kind, rank int, length, seq uint64, payload []byte) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint16(b, magic)
	b = append(b, version, byte(k)|byte(rank)<<7)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, length)
	b = binary.LittleEndian.AppendUint64(b, seq)
	sum := crc32.Update(headerSum(b[start:]), castagnoli, payload)
	binary.LittleEndian.PutUint32(b[start+4:], sum)
	return b
}

// headerSum is the CRC of the header without its CRC field.
func headerSum(b []byte) uint32 {
	sum := crc32.Update(0, castagnoli, b[:4])
	return crc32.Update(sum, castagnoli, b[8:headerSize])
}

// parseHeader checks everything that can be checked before the payload is there.
func parseHeader(b []byte) (header, error) {
	if len(b) != headerSize {
		return header{}, fmt.Errorf("parse header of %d bytes: want %d: %w", len(b), headerSize, p2p.ErrCorrupt)
	}
	if got := binary.LittleEndian.Uint16(b); got != magic {
		return header{}, fmt.Errorf("parse header: magic %#04x, want %#04x: %w", got, magic, p2p.ErrCorrupt)
	}
	if b[2] != version {
		return header{}, fmt.Errorf("parse header: version %d, this side speaks %d: %w", b[2], version, p2p.ErrPeer)
	}
	h := header{
		kind:   kind(b[3] &^ rankBit),
		rank:   int(b[3] >> 7),
		crc:    binary.LittleEndian.Uint32(b[4:]),
		length: binary.LittleEndian.Uint64(b[8:]),
		seq:    binary.LittleEndian.Uint64(b[16:]),
	}
	if h.kind < kindReady || h.kind > kindRefuse {
		return header{}, fmt.Errorf("parse header: unknown kind %d: %w", h.kind, p2p.ErrCorrupt)
	}
	if h.kind != kindData && h.crc != headerSum(b) {
		return header{}, fmt.Errorf("parse header: crc %08x, want %08x: %w", h.crc, headerSum(b), p2p.ErrCorrupt)
	}
	return h, nil
}
