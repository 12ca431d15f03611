package vec

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// Blocks of int8: a float32 scale, little endian, and a signed byte an element, which stands for byte x scale. The
// scale is the largest magnitude of the block / 127; bytes are element x (127 / largest), rounded to the nearest, ties
// to even. Blocks with nothing of at least 2^-100 have scale 0 and bytes 0. The last block may be shorter. A block with
// a NaN or an infinity decodes to NaNs.

// Int8Len is the number of bytes that n elements in blocks take.
func Int8Len(n, block int) int { return n + 4*((n+block-1)/block) }

// EncodeInt8 writes x in blocks. len(dst) must be at least Int8Len(len(x), block).
func EncodeInt8(dst []byte, x []float32, block int) {
	dst = dst[:Int8Len(len(x), block)]
	done := 0
	if whole := len(x) / block; whole > 0 {
		done = encodeInt8Fast(unsafe.SliceData(dst), unsafe.SliceData(x), whole, block) * block
	}
	for ; done < len(x); done += block {
		end := min(done+block, len(x))
		encodeInt8Plain(dst[Int8Len(done, block):], x[done:end])
	}
}

func encodeInt8Plain(dst []byte, x []float32) {
	scale, inv := int8Scale(x)
	binary.LittleEndian.PutUint32(dst, math.Float32bits(scale))
	for i, v := range x {
		dst[4+i] = byte(nearestInt8(float32(v * inv)))
	}
}

// EncodeInt8Rest is EncodeInt8, and takes from each element what DecodeInt8 will make of it.
func EncodeInt8Rest(dst []byte, x []float32, block int) {
	dst = dst[:Int8Len(len(x), block)]
	done := 0
	if whole := len(x) / block; whole > 0 {
		done = encodeInt8RestFast(unsafe.SliceData(dst), unsafe.SliceData(x), whole, block) * block
	}
	for ; done < len(x); done += block {
		end := min(done+block, len(x))
		encodeInt8RestPlain(dst[Int8Len(done, block):], x[done:end])
	}
}

func encodeInt8RestPlain(dst []byte, x []float32) {
	scale, inv := int8Scale(x)
	binary.LittleEndian.PutUint32(dst, math.Float32bits(scale))
	for i, v := range x {
		q := nearestInt8(float32(v * inv))
		dst[4+i] = byte(q)
		x[i] = v - float32(float32(q)*scale)
	}
}

// DecodeInt8 fills dst. len(src) must be at least Int8Len(len(dst), block).
func DecodeInt8(dst []float32, src []byte, block int) {
	src = src[:Int8Len(len(dst), block)]
	done := 0
	if whole := len(dst) / block; whole > 0 {
		done = decodeInt8Fast(unsafe.SliceData(dst), unsafe.SliceData(src), whole, block) * block
	}
	for ; done < len(dst); done += block {
		end := min(done+block, len(dst))
		decodeInt8Plain(dst[done:end], src[Int8Len(done, block):])
	}
}

func decodeInt8Plain(dst []float32, src []byte) {
	scale := math.Float32frombits(binary.LittleEndian.Uint32(src))
	for i := range dst {
		dst[i] = float32(int8(src[4+i])) * scale
	}
}

// AddInt8 adds to dst what DecodeInt8 would fill it with.
func AddInt8(dst []float32, src []byte, block int) {
	src = src[:Int8Len(len(dst), block)]
	done := 0
	if whole := len(dst) / block; whole > 0 {
		done = addInt8Fast(unsafe.SliceData(dst), unsafe.SliceData(src), whole, block) * block
	}
	for ; done < len(dst); done += block {
		end := min(done+block, len(dst))
		addInt8Plain(dst[done:end], src[Int8Len(done, block):])
	}
}

func addInt8Plain(dst []float32, src []byte) {
	scale := math.Float32frombits(binary.LittleEndian.Uint32(src))
	for i := range dst {
		dst[i] += float32(float32(int8(src[4+i])) * scale)
	}
}

// int8Scale is the scale of a block and what its elements are multiplied by.
func int8Scale(x []float32) (scale, inv float32) {
	const tiny = 0x0d800000 // 2^-100
	bits := maxAbsPlain(x)
	if bits < tiny {
		return 0, 0
	}
	top := math.Float32frombits(bits)
	return top / 127, 127 / top
}

// nearestInt8 is the integer nearest to v, which is one of a byte, or -128 of a NaN, as the instruction of amd64 has it.
func nearestInt8(v float32) int8 {
	if v != v {
		return math.MinInt8
	}
	return int8(math.RoundToEven(float64(v)))
}
