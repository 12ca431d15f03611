package vec

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// The functions below turn float32 into 16 bits and back: F16 is IEEE 754 binary16 (largest 65504, 11 bits of
// precision), BF16 the upper half of a float32 (its range, 8 bits of precision). Bytes are little endian and need not
// be aligned. Encoding rounds to the nearest, ties to even, and beyond the largest number to infinity; a NaN keeps its
// sign and the upper bits of its payload and becomes quiet. Bits are the same in every unit, but see Add for sums of
// NaNs.

// EncodeF16 writes all of src to dst, 2 bytes an element. len(dst) must be at least 2 x len(src).
func EncodeF16(dst []byte, src []float32) {
	n := len(src)
	dst = dst[:2*n]
	done := encodeF16Fast(unsafe.SliceData(dst), unsafe.SliceData(src), n)
	if done < n {
		encodeF16Plain(dst[2*done:], src[done:])
	}
}

func encodeF16Plain(dst []byte, src []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], f16(v))
	}
}

// DecodeF16 fills dst from src. len(src) must be at least 2 x len(dst).
func DecodeF16(dst []float32, src []byte) {
	n := len(dst)
	src = src[:2*n]
	done := decodeF16Fast(unsafe.SliceData(dst), unsafe.SliceData(src), n)
	if done < n {
		decodeF16Plain(dst[done:], src[2*done:])
	}
}

func decodeF16Plain(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = floatOfF16(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

// AddF16 adds what src holds to dst. len(src) must be at least 2 x len(dst).
func AddF16(dst []float32, src []byte) {
	n := len(dst)
	src = src[:2*n]
	done := addF16Fast(unsafe.SliceData(dst), unsafe.SliceData(src), n)
	if done < n {
		addF16Plain(dst[done:], src[2*done:])
	}
}

func addF16Plain(dst []float32, src []byte) {
	for i := range dst {
		dst[i] += floatOfF16(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

// EncodeBF16 writes all of src to dst, 2 bytes an element. len(dst) must be at least 2 x len(src).
func EncodeBF16(dst []byte, src []float32) {
	n := len(src)
	dst = dst[:2*n]
	done := encodeBF16Fast(unsafe.SliceData(dst), unsafe.SliceData(src), n)
	if done < n {
		encodeBF16Plain(dst[2*done:], src[done:])
	}
}

func encodeBF16Plain(dst []byte, src []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], bf16(v))
	}
}

// DecodeBF16 fills dst from src. len(src) must be at least 2 x len(dst).
func DecodeBF16(dst []float32, src []byte) {
	n := len(dst)
	src = src[:2*n]
	done := decodeBF16Fast(unsafe.SliceData(dst), unsafe.SliceData(src), n)
	if done < n {
		decodeBF16Plain(dst[done:], src[2*done:])
	}
}

func decodeBF16Plain(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = floatOfBF16(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

// AddBF16 adds what src holds to dst. len(src) must be at least 2 x len(dst).
func AddBF16(dst []float32, src []byte) {
	n := len(dst)
	src = src[:2*n]
	done := addBF16Fast(unsafe.SliceData(dst), unsafe.SliceData(src), n)
	if done < n {
		addBF16Plain(dst[done:], src[2*done:])
	}
}

func addBF16Plain(dst []float32, src []byte) {
	for i := range dst {
		dst[i] += floatOfBF16(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

// f16 rounds to binary16.
func f16(v float32) uint16 {
	bits := math.Float32bits(v)
	sign, abs := uint16(bits>>16)&0x8000, bits&0x7fffffff
	switch {
	case abs > 0x7f800000: // NaN
		return sign | 0x7e00 | uint16(abs>>13)&0x1ff
	case abs >= 0x477ff000: // 65520, half way between the largest number and what would be the next
		return sign | 0x7c00
	case abs < 0x38800000: // subnormal: the sum with 0.5 is rounded to a multiple of 2^-24
		return sign | uint16(math.Float32bits(math.Float32frombits(abs)+0.5)-0x3f000000)
	default:
		abs += 0xfff + abs>>13&1
		return sign | uint16((abs-112<<23)>>13)
	}
}

// floatOfF16 is exact.
func floatOfF16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exponent, fraction := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch {
	case exponent == 0: // a multiple of 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)*0x1p-24))
	case exponent < 0x1f:
		return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
	case fraction == 0:
		return math.Float32frombits(sign | 0x7f800000)
	default:
		return math.Float32frombits(sign | 0x7fc00000 | fraction<<13)
	}
}

// bf16 rounds to bfloat16.
func bf16(v float32) uint16 {
	bits := math.Float32bits(v)
	if bits&0x7fffffff > 0x7f800000 { // NaN
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// floatOfBF16 is exact.
func floatOfBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }
