package region

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"hcclps/p2p"
)

// version is that of the messages and of the layout of the memory.
const version = 1

// messageBytes is the length of every message of Open.
const messageBytes = 64

// kind says what a message means.
type kind uint8

const (
	kindOffer   kind = iota + 1 // the first rank: here is memory, or none
	kindAnswer                  // another rank: it is mapped, or not
	kindVerdict                 // the first rank: all have it, or not
)

// message is one of Open:
//
//	0  4 "hcrg"
//	4  u16 version
//	6  u8 kind
//	7  u8 1 if all is well so far
//	8  u32 rank in the region
//	12 u32 ranks
//	16 u32 process id
//	20 u32 user id
//	24 u32 number of the descriptor (offer)
//	28 u32 0
//	32 u64 bytes of a rank's memory
//	40 16 nonce, in a verdict that of the first rank again
//	56 u64 0
type message struct {
	kind   kind
	ok     bool
	rank   int
	ranks  int
	pid    int
	uid    int
	fd     int
	memory uint64
	nonce  [nonceBytes]byte
}

func (m message) encode() []byte {
	b := append(make([]byte, 0, messageBytes), "hcrg"...)
	b = binary.LittleEndian.AppendUint16(b, version)
	b = append(b, byte(m.kind), 0)
	if m.ok {
		b[7] = 1
	}
	for _, n := range []int{m.rank, m.ranks, m.pid, m.uid, m.fd, 0} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	b = binary.LittleEndian.AppendUint64(b, m.memory)
	b = append(b, m.nonce[:]...)
	return binary.LittleEndian.AppendUint64(b, 0)
}

// decode reads a message, which must be of some kind. Errors wrap p2p.ErrCorrupt.
func decode(b []byte, want kind) (message, error) {
	if len(b) != messageBytes || !bytes.HasPrefix(b, []byte("hcrg")) {
		return message{}, fmt.Errorf("decode message of a region: %d bytes starting %q: %w", len(b), b[:min(len(b), 4)], p2p.ErrCorrupt)
	}
	if v := binary.LittleEndian.Uint16(b[4:]); v != version {
		return message{}, fmt.Errorf("decode message of a region: version %d, not %d: %w", v, version, p2p.ErrCorrupt)
	}
	field := func(at int) int { return int(binary.LittleEndian.Uint32(b[at:])) }
	m := message{
		kind: kind(b[6]), ok: b[7] == 1, rank: field(8), ranks: field(12), pid: field(16), uid: field(20), fd: field(24),
		memory: binary.LittleEndian.Uint64(b[32:]), nonce: [nonceBytes]byte(b[40:]),
	}
	if m.kind != want || b[7] > 1 || m.ranks > MaxRanks || m.rank >= m.ranks || m.pid > 1<<31-1 || m.fd > 1<<31-1 || m.memory > maxMemory ||
		field(28) != 0 || binary.LittleEndian.Uint64(b[56:]) != 0 {
		return message{}, fmt.Errorf("decode message of a region: kind %d for %d, rank %d of %d, process %d, descriptor %d, %d bytes: %w",
			m.kind, want, m.rank, m.ranks, m.pid, m.fd, m.memory, p2p.ErrCorrupt)
	}
	return m, nil
}
