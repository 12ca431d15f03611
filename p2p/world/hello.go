package world

import (
	"encoding/binary"
	"fmt"

	"hcclps/p2p"
)

// version is that of everything this package says on a connection.
const version = 2

// helloMagic begins a hello and its answer. It and the version after it stay where they are in every version.
const helloMagic = "hcwd"

const (
	maxStripes = 16
	maxTerms   = 512 // bytes of what all ranks must have alike
)

// purpose says what a connection is for. The values are on the wire.
type purpose uint8

const (
	joining purpose = iota + 1 // to the rendezvous: a process wants to be in the world; then the connection carries frames
	pairing                    // to a higher rank: it is one of a pair of a comm
)

// hello is the first message on a connection, from the dialler.
type hello struct {
	version  uint16 // 0 means version
	purpose  purpose
	job      string
	from, to int    // ranks; of one that joins: the one it was started as, or had last
	size     int    // ranks of the world
	info     string // for people: where the dialler runs

	// id is the number of the process if it joins, and that of the world if it makes a pair: drawn at random, so that what was left by a
	// process or a world before this one is told apart.
	id uint64

	address, host string // of a joining rank: where it listens for pairs, and which machine it is on

	// Of one that comes back, the epoch being 0 of one that is new:
	last   uint64 // number of the world it was in last
	born   uint32 // epoch in which it came in
	number uint32 // its rank then
	dead   uint32 // the rank that it holds for dead, plus 1; 0: none
	lost   uint32 // the rank with the rendezvous that it has lost, plus 1; 0: none

	// Of a joining rank:
	name  string // that no two have at a time; "": none
	terms string // what all ranks must have alike: lines of name=value

	// Of a pair:
	epoch           uint32 // and of one that comes back: that of its last world
	comm            string
	ranks           string // who is in the comm
	attempt         uint16 // connections of an earlier one are forgotten
	stripe, stripes uint8
}

// encode makes the message, its length before it. A name that is too long is an error.
func (h hello) encode() ([]byte, error) {
	names := []string{h.job, h.address, h.host, h.comm}
	for _, s := range append(names, h.name) {
		if len(s) > maxName {
			return nil, fmt.Errorf("encode hello: %.40q... has %d bytes, at most %d", s, len(s), maxName)
		}
	}
	if h.version == 0 {
		h.version = version
	}
	b := append(make([]byte, 4, 256), helloMagic...)
	b = binary.LittleEndian.AppendUint16(b, h.version)
	b = append(b, byte(h.purpose), h.stripe, h.stripes)
	b = binary.LittleEndian.AppendUint16(b, h.attempt)
	for _, n := range []int{h.from, h.to, h.size} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	b = binary.LittleEndian.AppendUint64(b, h.id)
	for _, n := range []uint32{h.epoch, h.born, h.number, h.dead, h.lost} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	b = binary.LittleEndian.AppendUint64(b, h.last)
	for _, s := range append(names, clip(h.ranks), clip(h.info)) {
		b = appendBlock(b, s)
	}
	return sealed(appendBlock(appendBlock(b, h.name), h.terms)), nil
}

// errVersion marks a hello or an answer of another version.
var errVersion = fmt.Errorf("%w: another version", p2p.ErrRefused)

// decodeHello is the inverse of encode, without the length. Of another version it returns the version and errVersion.
func decodeHello(b []byte) (hello, error) {
	d := fields{b: b}
	if magic := string(d.bytes(len(helloMagic))); magic != helloMagic {
		return hello{}, fmt.Errorf("decode hello: begins with %q, want %q: %w", magic, helloMagic, p2p.ErrMalformed)
	}
	h := hello{version: d.u16()}
	if d.err == nil && h.version != version {
		return h, fmt.Errorf("decode hello: %w: %d", errVersion, h.version)
	}
	h.purpose, h.stripe, h.stripes, h.attempt = purpose(d.u8()), d.u8(), d.u8(), d.u16()
	h.from, h.to, h.size = int(d.u32()), int(d.u32()), int(d.u32())
	h.id = d.u64()
	h.epoch, h.born, h.number, h.dead, h.lost = d.u32(), d.u32(), d.u32(), d.u32(), d.u32()
	h.last = d.u64()
	h.job, h.address, h.host, h.comm = d.str(maxName), d.str(maxName), d.str(maxName), d.str(maxName)
	h.ranks, h.info = d.str(maxText), d.str(maxText)
	h.name, h.terms = d.str(maxName), d.str(maxTerms)
	if err := d.end(); err != nil {
		return hello{}, fmt.Errorf("decode hello: %w", err)
	}
	switch {
	case h.purpose != joining && h.purpose != pairing:
		return hello{}, fmt.Errorf("decode hello: purpose %d: %w", h.purpose, p2p.ErrMalformed)
	case h.purpose == joining && (h.epoch == 0) != (h.born == 0):
		return hello{}, fmt.Errorf("decode hello: comes back from epoch %d and came in at %d: %w", h.epoch, h.born, p2p.ErrMalformed)
	case h.purpose == pairing && (h.stripe >= h.stripes || h.stripes > maxStripes):
		return hello{}, fmt.Errorf("decode hello: connection %d of %d of a pair: %w", h.stripe, h.stripes, p2p.ErrMalformed)
	}
	return h, nil
}

// answer is what the acceptor says to a hello.
type answer struct {
	version uint16 // of the acceptor
	refusal string // "": welcome
}

// encode makes: "hcwd", u16 version, u8 1 if refused, the refusal. It is the same in every version.
func (a answer) encode() []byte {
	b := append(make([]byte, 4, 64), helloMagic...)
	b = binary.LittleEndian.AppendUint16(b, version)
	if a.refusal == "" {
		b = append(b, 0)
	} else {
		b = append(b, 1)
	}
	return sealed(appendBlock(b, clip(a.refusal)))
}

// decodeAnswer is the inverse of encode, without the length.
func decodeAnswer(b []byte) (answer, error) {
	d := fields{b: b}
	if magic := string(d.bytes(len(helloMagic))); magic != helloMagic {
		return answer{}, fmt.Errorf("decode answer to hello: begins with %q, want %q: %w", magic, helloMagic, p2p.ErrMalformed)
	}
	a := answer{version: d.u16()}
	refused := d.u8()
	a.refusal = d.str(maxText)
	if err := d.end(); err != nil {
		return answer{}, fmt.Errorf("decode answer to hello: %w", err)
	}
	if refused > 1 || (refused == 1) != (a.refusal != "") {
		return answer{}, fmt.Errorf("decode answer to hello: code %d with reason %q: %w", refused, a.refusal, p2p.ErrMalformed)
	}
	return a, nil
}
