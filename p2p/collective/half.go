package collective

import "math"

// halfToFloat is the value of an IEEE 754 binary16 number; every one is a float32.
func halfToFloat(h uint16) float32 {
	sign := uint32(h>>15) << 31
	exp, frac := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exp {
	case 0: // zero and the subnormals: a multiple of 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*0x1p-24))
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	default:
		return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
	}
}

// floatToHalf rounds to the nearest binary16 number, ties to even, to infinity from 65520. A NaN stays one.
func floatToHalf(f float32) uint16 {
	bits := math.Float32bits(f)
	sign, abs := uint16(bits>>16)&0x8000, bits&0x7fffffff
	switch {
	case abs > 0x7f800000:
		return sign | 0x7e00 | uint16(abs>>13)&0x1ff
	case abs >= 0x477ff000:
		return sign | 0x7c00
	case abs < 0x38800000: // below 2^-14: the sum with 0.5 rounds to a multiple of 2^-24
		return sign | uint16(math.Float32bits(math.Float32frombits(abs)+0.5)-0x3f000000)
	default:
		abs += 0xfff + abs>>13&1
		return sign | uint16(abs>>13-112<<10)
	}
}

// brainToFloat is the value of a bfloat16 number, which is the upper half of a float32.
func brainToFloat(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// floatToBrain rounds to the nearest bfloat16 number, ties to even. A NaN stays one.
func floatToBrain(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits&0x7fffffff > 0x7f800000 {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}
