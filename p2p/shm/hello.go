package shm

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"hcclps/p2p"
)

// version is that of the messages here and of the layout of the memory. Ranks of different versions do not share memory.
const version = 3

// The messages of the negotiation, each of a fixed length. The hello has the same length in all versions.
const (
	helloBytes   = 48
	offerBytes   = 32
	verdictBytes = 8
)

// hello is the first message of each rank, rank 0 first:
//
//	0  4 "shm?"
//	4  u16 version
//	6  u8 rank
//	7  u8 1 if the rank can pass descriptors on this connection
//	8  u32 process id
//	12 u32 user id
//	16 u64 bytes of a ring, as rank 0 wants it
//	24 u64 bytes of its arena
//	32 16 nonce
type hello struct {
	version uint16
	rank    uint8
	passes  bool
	pid     uint32
	uid     uint32
	ring    uint64
	arena   uint64
	nonce   [nonceBytes]byte
}

func (h hello) encode() []byte {
	b := append(make([]byte, 0, helloBytes), "shm?"...)
	b = binary.LittleEndian.AppendUint16(b, h.version)
	b = append(b, h.rank, flag(h.passes))
	b = binary.LittleEndian.AppendUint32(b, h.pid)
	b = binary.LittleEndian.AppendUint32(b, h.uid)
	b = binary.LittleEndian.AppendUint64(b, h.ring)
	b = binary.LittleEndian.AppendUint64(b, h.arena)
	return append(b, h.nonce[:]...)
}

func decodeHello(b []byte) (hello, error) {
	if len(b) != helloBytes || !bytes.HasPrefix(b, []byte("shm?")) {
		return hello{}, fmt.Errorf("decode hello of shared memory: %d bytes starting %q: %w", len(b), b[:min(len(b), 4)], p2p.ErrCorrupt)
	}
	h := hello{
		version: binary.LittleEndian.Uint16(b[4:]), rank: b[6], passes: b[7] != 0,
		pid: binary.LittleEndian.Uint32(b[8:]), uid: binary.LittleEndian.Uint32(b[12:]),
		ring: binary.LittleEndian.Uint64(b[16:]), arena: binary.LittleEndian.Uint64(b[24:]),
		nonce: [nonceBytes]byte(b[32:]),
	}
	if h.version == version && (h.rank > 1 || b[7] > 1) {
		return hello{}, fmt.Errorf("decode hello of shared memory: rank %d, flag %d: %w", h.rank, b[7], p2p.ErrCorrupt)
	}
	return h, nil
}

// way is how rank 1 comes by the memory.
type way uint8

const (
	wayNone   way = iota // there is none
	wayPassed            // the descriptor comes with the offer
	wayFound             // by the descriptor's number in rank 0's process
)

// offer is rank 0's second message:
//
//	0  4 "shm!"
//	4  u8 way
//	5  3 x 0
//	8  u32 number of the descriptor
//	12 u32 0
//	16 u64 bytes of a ring
//	24 u64 bytes of the whole memory
type offer struct {
	way   way
	fd    uint32
	ring  uint64
	total uint64
}

func (o offer) encode() []byte {
	b := append(make([]byte, 0, offerBytes), "shm!"...)
	b = append(b, byte(o.way), 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, o.fd)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, o.ring)
	return binary.LittleEndian.AppendUint64(b, o.total)
}

func decodeOffer(b []byte) (offer, error) {
	if len(b) != offerBytes || !bytes.HasPrefix(b, []byte("shm!")) {
		return offer{}, fmt.Errorf("decode offer of shared memory: %d bytes starting %q: %w", len(b), b[:min(len(b), 4)], p2p.ErrCorrupt)
	}
	o := offer{
		way: way(b[4]), fd: binary.LittleEndian.Uint32(b[8:]),
		ring: binary.LittleEndian.Uint64(b[16:]), total: binary.LittleEndian.Uint64(b[24:]),
	}
	if o.way > wayFound || o.fd > 1<<31-1 {
		return offer{}, fmt.Errorf("decode offer of shared memory: way %d, descriptor %d: %w", o.way, o.fd, p2p.ErrCorrupt)
	}
	return o, nil
}

// A verdict is rank 1's second message: "shm." and u8 1 if it has the memory, then 3 x 0.
func encodeVerdict(ok bool) []byte { return append([]byte("shm."), flag(ok), 0, 0, 0) }

func decodeVerdict(b []byte) (ok bool, err error) {
	if len(b) != verdictBytes || !bytes.HasPrefix(b, []byte("shm.")) || b[4] > 1 {
		return false, fmt.Errorf("decode verdict on shared memory: %q: %w", b, p2p.ErrCorrupt)
	}
	return b[4] == 1, nil
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}
