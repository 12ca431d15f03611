package vec

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"
)

// twinCRC32C goes bit by bit.
func twinCRC32C(sum uint32, b []byte) uint32 {
	sum = ^sum
	for _, x := range b {
		sum ^= uint32(x)
		for range 8 {
			sum = sum>>1 ^ crc32.Castagnoli&-(sum&1)
		}
	}
	return ^sum
}

func TestCRC32C(t *testing.T) {
	rng := rand.New(rand.NewPCG(32, 3))
	memory := make([]byte, 70<<10)
	for i := range memory {
		memory[i] = byte(rng.Uint32())
	}
	for _, u := range units() {
		with(t, u, func() {
			if got := CRC32C(0, []byte("123456789")); got != 0xe3069283 { // the check value of RFC 3720's CRC
				t.Errorf("%v: sum %08x of the check", u, got)
			}
			for n := range 5 * crcWorth {
				at, sum := rng.IntN(64), rng.Uint32()
				b := memory[at : at+n]
				if got, want := CRC32C(sum, b), crc32.Update(sum, castagnoli, b); got != want {
					t.Fatalf("%v: sum %08x of %d bytes after %08x, want %08x", u, got, n, sum, want)
				}
			}
			cut := rng.IntN(len(memory))
			if got, want := CRC32C(CRC32C(7, memory[:cut]), memory[cut:]), twinCRC32C(7, memory); got != want {
				t.Errorf("%v: sum %08x of two parts, want %08x", u, got, want)
			}
		})
	}
}

func FuzzCRC32C(f *testing.F) {
	f.Add(uint32(0), []byte("abc"), 1)
	f.Add(uint32(1), slices.Repeat([]byte{0}, 7), 300)
	f.Add(^uint32(0), slices.Repeat([]byte{255}, 64), 64)
	f.Fuzz(func(t *testing.T, sum uint32, b []byte, times int) {
		b = slices.Repeat(b, min(max(times, 1), 1+(16<<10)/max(len(b), 1)))
		if got, want := CRC32C(sum, b), twinCRC32C(sum, b); got != want {
			t.Errorf("sum %08x of %d bytes after %08x, want %08x", got, len(b), sum, want)
		}
	})
}

func BenchmarkCRC32C(b *testing.B) {
	for _, n := range []int{1 << 10, 4 << 10, 32 << 10, 256 << 10, 1 << 20, 64 << 20} {
		memory := make([]byte, n)
		for i := range memory {
			memory[i] = byte(i * 7)
		}
		for _, u := range units() {
			b.Run(fmt.Sprintf("%d/%v", n, u), func(b *testing.B) {
				with(b, u, func() {
					b.SetBytes(int64(n))
					for b.Loop() {
						CRC32C(0, memory)
					}
				})
			})
		}
	}
}
