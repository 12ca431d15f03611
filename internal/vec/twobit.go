package vec

import (
	"math"
	"unsafe"
)

// Two bits an element say 0, +level or -level. They are packed as two rows of bits, each in the order of signs: some
// has a 1 where the element is not 0, neg where it is -level. A 1 in neg alone means nothing.

// PackTwoBit writes the bits of x: those whose magnitude is at least t, which is not negative, compared as in MaxAbs,
// are not 0. Both rows must have (len(x) + 7) / 8 bytes at least.
func PackTwoBit(some, neg []byte, x []float32, t float32) {
	n := len(x)
	some, neg = some[:(n+7)/8], neg[:(n+7)/8]
	done := packTwoBitFast(unsafe.SliceData(some), unsafe.SliceData(neg), unsafe.SliceData(x), magnitude(t), n)
	if done < n {
		packTwoBitPlain(some[done/8:], neg[done/8:], x[done:], magnitude(t))
	}
}

func packTwoBitPlain(some, neg []byte, x []float32, t uint32) {
	clear(some)
	clear(neg)
	for i, v := range x {
		if magnitude(v) >= t {
			some[i>>3] |= 1 << (i & 7)
			neg[i>>3] |= byte(math.Float32bits(v)>>31) << (i & 7)
		}
	}
}

// PackTwoBitRest is PackTwoBit, and takes from each element what UnpackTwoBit will make of it.
func PackTwoBitRest(some, neg []byte, x []float32, t, level float32) {
	n := len(x)
	some, neg = some[:(n+7)/8], neg[:(n+7)/8]
	done := packTwoBitRestFast(unsafe.SliceData(some), unsafe.SliceData(neg), unsafe.SliceData(x), magnitude(t), level, n)
	if done < n {
		packTwoBitRestPlain(some[done/8:], neg[done/8:], x[done:], magnitude(t), level)
	}
}

func packTwoBitRestPlain(some, neg []byte, x []float32, t uint32, level float32) {
	packTwoBitPlain(some, neg, x, t)
	for i, v := range x {
		if magnitude(v) >= t {
			x[i] = v - signed(level, math.Float32bits(v))
		}
	}
}

// UnpackTwoBit fills dst. Both rows must have (len(dst) + 7) / 8 bytes at least.
func UnpackTwoBit(dst []float32, some, neg []byte, level float32) {
	n := len(dst)
	some, neg = some[:(n+7)/8], neg[:(n+7)/8]
	done := unpackTwoBitFast(unsafe.SliceData(dst), unsafe.SliceData(some), unsafe.SliceData(neg), level, n)
	if done < n {
		unpackTwoBitPlain(dst[done:], some[done/8:], neg[done/8:], level)
	}
}

func unpackTwoBitPlain(dst []float32, some, neg []byte, level float32) {
	for i := range dst {
		dst[i] = 0
		if bitSign(some, i) != 0 {
			dst[i] = signed(level, bitSign(neg, i))
		}
	}
}

// AddTwoBit adds to dst what UnpackTwoBit would fill it with.
func AddTwoBit(dst []float32, some, neg []byte, level float32) {
	n := len(dst)
	some, neg = some[:(n+7)/8], neg[:(n+7)/8]
	done := addTwoBitFast(unsafe.SliceData(dst), unsafe.SliceData(some), unsafe.SliceData(neg), level, n)
	if done < n {
		addTwoBitPlain(dst[done:], some[done/8:], neg[done/8:], level)
	}
}

func addTwoBitPlain(dst []float32, some, neg []byte, level float32) {
	for i := range dst {
		if bitSign(some, i) != 0 {
			dst[i] += signed(level, bitSign(neg, i))
		}
	}
}
