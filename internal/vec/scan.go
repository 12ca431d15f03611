package vec

import (
	"math"
	"unsafe"
)

// NonFinite is the index of the first NaN or infinity of x, or -1.
func NonFinite(x []float32) int {
	done := finiteFast(unsafe.SliceData(x), len(x))
	if done == len(x) {
		return -1
	}
	if i := nonFinitePlain(x[done:]); i >= 0 {
		return done + i
	}
	return -1
}

// nonFinitePlain looks, two values a word and eight words at once, whether the carry of any exponent reaches the sign, which it does from the
// largest exponent alone.
func nonFinitePlain(x []float32) int {
	const values, lowest, signs = 0x7fffffff_7fffffff, 0x00800000_00800000, 0x80000000_80000000
	i := 0
	for words := Uint64s(BytesOfFloats(x)); len(words) >= 8; words = words[8:] {
		w := (*[8]uint64)(words)
		a := (w[0]&values + lowest) | (w[1]&values + lowest) | (w[2]&values + lowest) | (w[3]&values + lowest)
		b := (w[4]&values + lowest) | (w[5]&values + lowest) | (w[6]&values + lowest) | (w[7]&values + lowest)
		if (a|b)&signs != 0 {
			break
		}
		i += 16
	}
	for k, v := range x[i:] {
		if math.Float32bits(v)&0x7f800000 == 0x7f800000 {
			return i + k
		}
	}
	return -1
}
