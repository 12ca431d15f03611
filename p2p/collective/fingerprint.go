package collective

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"hcclps/p2p"
)

// A fingerprint is a Call on the wire, little endian:
//
//	 0 "HCFP"                 16 u64 epoch
//	 4 u8 version, 1          24 u64 sequence number
//	 5 u8 operation           32 u64 count
//	 6 u8 element type        40 u64 bytes of the first message on this edge
//	 7 u8 reduction           48 u32 group
//	 8 u8 algorithm, level 0  52 u32 plan
//	 9 u8 algorithm, level 1  56 u8 type that elements travel as, 0: the element type
//	10 u8 1: rank order       57 u8[3] zero
//	11 u8 bytes in the frame  60 u32 CRC-32C of the 60 bytes before
//	12 u32 root, 2^32-1: none
//
// A frame is a fingerprint and room for a first message that is small. Frames have one length, whatever is called: so
// ranks that call different things can tell each other.
const (
	printSize  = 64
	inlineMax  = 64
	frameSize  = printSize + inlineMax
	version    = 1
	noRootWire = 1<<32 - 1
	countMax   = 1 << 48 // elements; far above any memory
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errFingerprint means that bytes are no fingerprint.
var errFingerprint = errors.New("no fingerprint of a call")

// fingerprint is a Call and what belongs to one edge.
type fingerprint struct {
	call   Call
	length int // of the first message on the edge
	inline int // bytes of it that are in the frame: all or none
}

// encode writes the first printSize bytes of b.
func (f fingerprint) encode(b []byte) {
	c := f.call
	copy(b, "HCFP")
	b[4], b[5], b[6], b[7] = version, byte(c.Op), byte(c.DType), byte(c.Reduction)
	b[8], b[9], b[10], b[11] = byte(c.Algorithm.Level0), byte(c.Algorithm.Level1), 0, byte(f.inline)
	if c.RankOrder {
		b[10] = 1
	}
	root := uint32(noRootWire)
	if c.Root != NoRoot {
		root = uint32(c.Root)
	}
	binary.LittleEndian.PutUint32(b[12:], root)
	binary.LittleEndian.PutUint64(b[16:], c.Epoch)
	binary.LittleEndian.PutUint64(b[24:], c.Seq)
	binary.LittleEndian.PutUint64(b[32:], uint64(c.Count))
	binary.LittleEndian.PutUint64(b[40:], uint64(f.length))
	binary.LittleEndian.PutUint32(b[48:], c.Group)
	binary.LittleEndian.PutUint32(b[52:], c.Plan)
	binary.LittleEndian.PutUint32(b[56:], uint32(c.Wire))
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
}

// decode reads a fingerprint from the beginning of b. The error wraps errFingerprint.
func decode(b []byte) (fingerprint, error) {
	switch {
	case len(b) < printSize:
		return fingerprint{}, fmt.Errorf("%d bytes: %w", len(b), errFingerprint)
	case string(b[:4]) != "HCFP":
		return fingerprint{}, fmt.Errorf("begins with %x: %w", b[:4], errFingerprint)
	case b[4] != version:
		return fingerprint{}, fmt.Errorf("version %d, want %d: %w", b[4], version, errFingerprint)
	case crc32.Checksum(b[:60], castagnoli) != binary.LittleEndian.Uint32(b[60:]):
		return fingerprint{}, fmt.Errorf("wrong checksum: %w", errFingerprint)
	}
	count, length := binary.LittleEndian.Uint64(b[32:]), binary.LittleEndian.Uint64(b[40:])
	f := fingerprint{
		call: Call{
			Group:     binary.LittleEndian.Uint32(b[48:]),
			Epoch:     binary.LittleEndian.Uint64(b[16:]),
			Seq:       binary.LittleEndian.Uint64(b[24:]),
			Op:        Op(b[5]),
			Count:     int(count),
			DType:     p2p.DType(b[6]),
			Wire:      p2p.DType(b[56]),
			Reduction: Reduction(b[7]),
			Root:      int(binary.LittleEndian.Uint32(b[12:])),
			Algorithm: Choice{Level0: Algorithm(b[8]), Level1: Algorithm(b[9])},
			RankOrder: b[10] == 1,
			Plan:      binary.LittleEndian.Uint32(b[52:]),
		},
		length: int(length),
		inline: int(b[11]),
	}
	if f.call.Root == noRootWire {
		f.call.Root = NoRoot
	}
	switch {
	case f.call.Op.name() == "" || b[10] > 1 || b[8] > byte(lastAlgorithm) || b[9] > byte(lastAlgorithm) || b[7] > byte(Avg) || b[6] > byte(p2p.Uint8):
		return fingerprint{}, fmt.Errorf("unknown call % x: %w", b[5:11], errFingerprint)
	case count > countMax || length > 8*countMax || f.inline > inlineMax || f.inline != 0 && f.inline != f.length:
		return fingerprint{}, fmt.Errorf("count %d, length %d, %d bytes in the frame: %w", count, length, f.inline, errFingerprint)
	case binary.LittleEndian.Uint32(b[56:]) > uint32(p2p.Uint8):
		return fingerprint{}, fmt.Errorf("reserved bytes are used: %w", errFingerprint)
	}
	return f, nil
}
