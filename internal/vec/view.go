package vec

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// Floats reads bytes as float32 values, in place when they lie aligned on a
// little-endian machine (both supported ones are), else as a copy. A tail of
// fewer than 4 bytes is left out.
func Floats(b []byte) []float32 {
	n := len(b) / 4
	if n == 0 {
		return nil
	}
	if p := unsafe.Pointer(unsafe.SliceData(b)); uintptr(p)%4 == 0 {
		return unsafe.Slice((*float32)(p), n)
	}
	out := make([]float32, n)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

// Uint64s reads bytes as uint64 values, in place when they lie aligned, else
// as a copy. A tail of fewer than 8 bytes is left out.
func Uint64s(b []byte) []uint64 {
	n := len(b) / 8
	if n == 0 {
		return nil
	}
	if p := unsafe.Pointer(unsafe.SliceData(b)); uintptr(p)%8 == 0 {
		return unsafe.Slice((*uint64)(p), n)
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return out
}

// BytesOfFloats is the memory of f as bytes, in place.
func BytesOfFloats(f []float32) []byte {
	if len(f) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
}

// BytesOfUint64s is the memory of u as bytes, in place.
func BytesOfUint64s(u []uint64) []byte {
	if len(u) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(u))), 8*len(u))
}
