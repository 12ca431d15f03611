package vec

import (
	"math"
	"unsafe"
)

// Signs are packed eight a byte: element i is bit i mod 8 of byte i / 8, 1 if its sign bit is set, which is so for -0
// and may be for a NaN. Bits behind the last element are 0. n elements take (n + 7) / 8 bytes.

const signBit = 0x80000000

// signed is v, or -v if the sign bit of sign is set.
func signed(v float32, sign uint32) float32 {
	return math.Float32frombits(math.Float32bits(v) ^ sign&signBit)
}

// bitSign is the sign bit if bit i of b is set.
func bitSign(b []byte, i int) uint32 { return uint32(b[i>>3]>>(i&7)) << 31 }

// PackSigns writes the signs of x. len(dst) must be at least (len(x) + 7) / 8.
func PackSigns(dst []byte, x []float32) {
	n := len(x)
	dst = dst[:(n+7)/8]
	done := packSignsFast(unsafe.SliceData(dst), unsafe.SliceData(x), n)
	if done < n {
		packSignsPlain(dst[done/8:], x[done:])
	}
}

func packSignsPlain(dst []byte, x []float32) {
	clear(dst)
	for i, v := range x {
		dst[i>>3] |= byte(math.Float32bits(v)>>31) << (i & 7)
	}
}

// PackSignsRest is PackSigns, and takes from each element what UnpackSigns will make of it.
func PackSignsRest(dst []byte, x []float32, scale float32) {
	n := len(x)
	dst = dst[:(n+7)/8]
	done := packSignsRestFast(unsafe.SliceData(dst), unsafe.SliceData(x), scale, n)
	if done < n {
		packSignsRestPlain(dst[done/8:], x[done:], scale)
	}
}

func packSignsRestPlain(dst []byte, x []float32, scale float32) {
	clear(dst)
	for i, v := range x {
		bits := math.Float32bits(v)
		dst[i>>3] |= byte(bits>>31) << (i & 7)
		x[i] = v - signed(scale, bits)
	}
}

// UnpackSigns fills dst with scale, or -scale where src has a 1. len(src) must be at least (len(dst) + 7) / 8.
func UnpackSigns(dst []float32, src []byte, scale float32) {
	n := len(dst)
	src = src[:(n+7)/8]
	done := unpackSignsFast(unsafe.SliceData(dst), unsafe.SliceData(src), scale, n)
	if done < n {
		unpackSignsPlain(dst[done:], src[done/8:], scale)
	}
}

func unpackSignsPlain(dst []float32, src []byte, scale float32) {
	for i := range dst {
		dst[i] = signed(scale, bitSign(src, i))
	}
}

// AddSigns adds scale to each element of dst, or -scale where src has a 1. len(src) must be at least (len(dst) + 7) / 8.
func AddSigns(dst []float32, src []byte, scale float32) {
	n := len(dst)
	src = src[:(n+7)/8]
	done := addSignsFast(unsafe.SliceData(dst), unsafe.SliceData(src), scale, n)
	if done < n {
		addSignsPlain(dst[done:], src[done/8:], scale)
	}
}

func addSignsPlain(dst []float32, src []byte, scale float32) {
	for i := range dst {
		dst[i] += signed(scale, bitSign(src, i))
	}
}
