package vec

import (
	"math/bits"
	"testing"
	"unsafe"
)

// TestMix64Vectors pins the function: partitions of stored data depend on it. Known answers of fmix64.
func TestMix64Vectors(t *testing.T) {
	for _, c := range []struct{ key, seed, want uint64 }{
		{0, 0, 0},
		{1, 0, 0xb456bcfc34c2cb2c},
		{0xdeadbeef, 0, 0xd24bd59f862a1dac},
		{0xdeadbeef ^ 77, 77, 0xd24bd59f862a1dac},
	} {
		if got := Mix64(c.key, c.seed); got != c.want {
			t.Errorf("Mix64(%#x, %#x) = %#x, want %#x", c.key, c.seed, got, c.want)
		}
	}
}

// TestMix64Inverse undoes the mix step by step: a bijection has no two keys with one hash.
func TestMix64Inverse(t *testing.T) {
	inverse := func(odd uint64) uint64 { // Newton's iteration modulo 2^64
		x := odd
		for range 6 {
			x *= 2 - odd*x
		}
		return x
	}
	for i := range uint64(10_000) {
		key, seed := i*0x9e3779b97f4a7c15, bits.Reverse64(i)
		h := Mix64(key, seed)
		h ^= h >> 33
		h *= inverse(0xc4ceb9fe1a85ec53)
		h ^= h >> 33
		h *= inverse(0xff51afd7ed558ccd)
		h ^= h >> 33
		if h^seed != key {
			t.Fatalf("key %#x seed %#x: undone to %#x", key, seed, h^seed)
		}
		if got := Unmix64(Mix64(key, seed), seed); got != key {
			t.Fatalf("Unmix64 of key %#x seed %#x: %#x", key, seed, got)
		}
	}
}

// TestMix64Strided: ids that differ by any power of two spread over 1024 buckets.
func TestMix64Strided(t *testing.T) {
	for shift := range 40 {
		var count [1024]int
		for i := range uint64(64 * 1024) {
			count[Mix64(i<<shift, 3)>>54]++
		}
		for b, n := range count {
			if n < 20 || n > 120 { // mean 64, deviation 8
				t.Fatalf("shift %d: bucket %d got %d of a mean of 64", shift, b, n)
			}
		}
	}
}

// TestPrefetchIsInert: no address, however wild, faults, and memory keeps its content.
func TestPrefetchIsInert(t *testing.T) {
	data := make([]byte, 4096)
	for i := range data {
		data[i] = byte(i)
	}
	addrs := []uintptr{0, 1, ^uintptr(0), 1 << 63, uintptr(unsafe.Pointer(&data[0])), uintptr(unsafe.Pointer(&data[1000]))}
	Prefetch(nil, 4)
	Prefetch(addrs, 0)
	for n := range addrs {
		Prefetch(addrs[:n+1], 1+n)
	}
	for i := range data {
		if data[i] != byte(i) {
			t.Fatalf("byte %d changed", i)
		}
	}
	if n := testing.AllocsPerRun(10, func() { Prefetch(addrs, 2) }); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}
