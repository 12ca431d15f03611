package tcp

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"hcclps/p2p"
)

const (
	headerSize = 32
	magic      = uint16('p') | uint16('2')<<8
	version    = 3
	rankBit    = 0x80
	eagerBit   = 0x40

	// maxPosted is how many receives may be announced and not yet filled; a peer that announces more is broken.
	maxPosted = 1024
)

type kind uint8

const (
	kindReady kind = iota + 1
	kindData
	kindDone
	kindRefuse
	kindRaw // data without a sum
)

// castagnoli is CRC-32C, which the CPU computes.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is the decoded form.
type header struct {
	kind  kind
	rank  int    // of the sender
	eager bool   // of data: a whole message, before its ready
	seq   uint64 // number of the message
	at    uint64 // of ready and refuse: length of the message; of data: offset of the piece
	size  uint32 // of data: bytes that follow
	sum   uint32 // of kindData: CRC-32C of these
}

func (h header) data() bool { return h.kind == kindData || h.kind == kindRaw }

// appendHeader encodes h.
func appendHeader(b []byte, h header) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint16(b, magic)
	what := byte(h.kind) | byte(h.rank)<<7
	if h.eager {
		what |= eagerBit
	}
	b = append(b, version, what)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, h.seq)
	b = binary.LittleEndian.AppendUint64(b, h.at)
	b = binary.LittleEndian.AppendUint32(b, h.size)
	b = binary.LittleEndian.AppendUint32(b, h.sum)
	binary.LittleEndian.PutUint32(b[start+4:], headerSum(b[start:]))
	return b
}

// headerSum is the CRC of the header without its CRC field.
func headerSum(b []byte) uint32 {
	sum := crc32.Update(0, castagnoli, b[:4])
	return crc32.Update(sum, castagnoli, b[8:headerSize])
}

// parseHeader checks everything but the numbers, which mean something to a Comm only.
func parseHeader(b []byte) (header, error) {
	if len(b) != headerSize {
		return header{}, fmt.Errorf("parse header of %d bytes: want %d: %w", len(b), headerSize, p2p.ErrCorrupt)
	}
	if got := binary.LittleEndian.Uint16(b); got != magic {
		return header{}, fmt.Errorf("parse header: magic %#04x, want %#04x: %w", got, magic, p2p.ErrCorrupt)
	}
	if b[2] != version {
		return header{}, fmt.Errorf("parse header: version %d, this side speaks %d: run the same release on both: %w", b[2], version, p2p.ErrPeer)
	}
	if got, want := binary.LittleEndian.Uint32(b[4:]), headerSum(b); got != want {
		return header{}, fmt.Errorf("parse header: crc %08x, want %08x: %w", got, want, p2p.ErrCorrupt)
	}
	h := header{
		kind: kind(b[3] &^ (rankBit | eagerBit)), eager: b[3]&eagerBit != 0,
		rank: int(b[3] >> 7),
		seq:  binary.LittleEndian.Uint64(b[8:]),
		at:   binary.LittleEndian.Uint64(b[16:]),
		size: binary.LittleEndian.Uint32(b[24:]),
		sum:  binary.LittleEndian.Uint32(b[28:]),
	}
	if h.kind < kindReady || h.kind > kindRaw {
		return header{}, fmt.Errorf("parse header: unknown kind %d: %w", h.kind, p2p.ErrCorrupt)
	}
	if !h.data() && (h.size != 0 || h.eager) || h.kind != kindData && h.sum != 0 || h.eager && h.at != 0 {
		return header{}, fmt.Errorf("parse header: kind %d with %d bytes and sum %08x: %w", h.kind, h.size, h.sum, p2p.ErrCorrupt)
	}
	return h, nil
}
