package p2ptest

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrPattern means that a Pattern was given other bytes than its own.
var ErrPattern = errors.New("wrong contents")

// Pattern is a body of N bytes that follow from Seed and their place, so that none of it need be kept. It is a p2p.Source, and a p2p.Sink that
// checks what it takes. It may be used by any number of goroutines.
type Pattern struct {
	Seed uint64
	N    int
}

// golden spreads the number of a word over all its bits.
const golden = 0x9e3779b97f4a7c15

func (p Pattern) word(off int) uint64 { return (p.Seed + uint64(off/8)) * golden }

// Len is N.
func (p Pattern) Len() int { return p.N }

// Fill writes the bytes from off on, a multiple of 8, to all of b.
func (p Pattern) Fill(off int, b []byte) error {
	for ; len(b) >= 8; b, off = b[8:], off+8 {
		binary.LittleEndian.PutUint64(b, p.word(off))
	}
	var last [8]byte
	binary.LittleEndian.PutUint64(last[:], p.word(off))
	copy(b, last[:])
	return nil
}

// Take returns an error that wraps ErrPattern unless b is the bytes from off on, a multiple of 8.
func (p Pattern) Take(off int, b []byte) error {
	for ; len(b) >= 8; b, off = b[8:], off+8 {
		if got := binary.LittleEndian.Uint64(b); got != p.word(off) {
			return fmt.Errorf("%w: %016x at %d of %d, seed %d", ErrPattern, got, off, p.N, p.Seed)
		}
	}
	var last [8]byte
	binary.LittleEndian.PutUint64(last[:], p.word(off))
	if string(last[:len(b)]) != string(b) {
		return fmt.Errorf("%w: %x at %d of %d, seed %d", ErrPattern, b, off, p.N, p.Seed)
	}
	return nil
}
