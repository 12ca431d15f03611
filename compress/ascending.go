package compress

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// Ascending numbers are coded as the first one, a varint, and then, in groups of 128, a byte with a number of bits w
// and as many bits of each difference to the number before, less 1: lowest bits first, the last byte of a group filled
// up with zeros.

const group = 128

// appendAscending appends the code of v, which ascends strictly.
func appendAscending(dst []byte, v []uint64) []byte {
	if len(v) == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, v[0])
	prev := v[0]
	v = v[1:]
	for len(v) > 0 {
		n := min(len(v), group)
		width, before := 0, prev
		for _, x := range v[:n] {
			width = max(width, bits.Len64(x-before-1))
			before = x
		}
		dst = append(dst, byte(width))
		size := (n*width + 7) / 8
		dst = slices.Grow(dst, size+9)
		room := dst[len(dst) : len(dst)+size+9]
		clear(room)
		for i, x := range v[:n] {
			putBits(room, i*width, x-prev-1)
			prev = x
		}
		dst = dst[:len(dst)+size]
		v = v[n:]
	}
	return dst
}

// putBits writes the bits of v, which are still zero, from a bit on; nine bytes must be there.
func putBits(room []byte, bit int, v uint64) {
	at, shift := bit>>3, bit&7
	old := binary.LittleEndian.Uint64(room[at:])
	binary.LittleEndian.PutUint64(room[at:], old|v<<shift)
	room[at+8] |= byte(v >> (64 - shift)) // nothing if shift is 0
}

// eachAscending calls f with each of n numbers up to limit and returns what follows their code. It reads no further than the code has bytes, whatever n is.
func eachAscending(code []byte, n int, limit uint64, f func(i int, v uint64)) (rest []byte, err error) {
	if n == 0 {
		return code, nil
	}
	v, used := uvarint(code)
	if used <= 0 {
		return nil, fmt.Errorf("decode ascending numbers: no first number: %w", ErrMalformed)
	}
	if v > limit {
		return nil, fmt.Errorf("decode ascending numbers: the first is %d, over %d: %w", v, limit, ErrMalformed)
	}
	f(0, v)
	code = code[used:]
	var padded [group*8 + 9]byte
	for i := 1; i < n; i += group {
		count := min(n-i, group)
		if len(code) == 0 || code[0] > 64 || len(code)-1 < (count*int(code[0])+7)/8 {
			return nil, fmt.Errorf("decode ascending numbers: number %d of %d is missing or too wide: %w", i, n, ErrMalformed)
		}
		width := int(code[0])
		size := (count*width + 7) / 8
		words := code[1:]
		if len(words) < size+9 {
			clear(padded[size:min(size+9, len(padded))])
			copy(padded[:], words[:size])
			words = padded[:]
		}
		code = code[1+size:]
		mask := uint64(1)<<width - 1 // all ones for 64
		for j := range count {
			step := getBits(words, j*width) & mask
			next := v + step + 1
			if next <= v || next > limit {
				return nil, fmt.Errorf("decode ascending numbers: number %d of %d is over %d: %w", i+j, n, limit, ErrMalformed)
			}
			v = next
			f(i+j, v)
		}
	}
	return code, nil
}

// getBits reads 64 bits from a bit on; nine bytes must be there.
func getBits(words []byte, bit int) uint64 {
	at, shift := bit>>3, bit&7
	return binary.LittleEndian.Uint64(words[at:])>>shift | uint64(words[at+8])<<(64-shift)
}
