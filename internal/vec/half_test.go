package vec

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"
)

// halfKernels are encoders and decoders as the other tests of kernels call them: bytes lie in the first half of a slice's memory.
func halfKernels() []kernel {
	bytesOf := func(s []float32) []byte { return BytesOfFloats(s)[:2*len(s)] }
	return []kernel{
		{"encodeF16", 2, 0, func(_ []float64, s [][]float32) []float64 { EncodeF16(bytesOf(s[0]), s[1]); return nil }},
		{"decodeF16", 2, 0, func(_ []float64, s [][]float32) []float64 { DecodeF16(s[0], bytesOf(s[1])); return nil }},
		{"addF16", 2, 0, func(_ []float64, s [][]float32) []float64 { AddF16(s[0], bytesOf(s[1])); return nil }},
		{"encodeBF16", 2, 0, func(_ []float64, s [][]float32) []float64 { EncodeBF16(bytesOf(s[0]), s[1]); return nil }},
		{"decodeBF16", 2, 0, func(_ []float64, s [][]float32) []float64 { DecodeBF16(s[0], bytesOf(s[1])); return nil }},
		{"addBF16", 2, 0, func(_ []float64, s [][]float32) []float64 { AddBF16(s[0], bytesOf(s[1])); return nil }},
	}
}

// TestHalfRoundTrip: every number of 16 bits survives; NaNs stay NaNs.
func TestHalfRoundTrip(t *testing.T) {
	const all = 1 << 16
	in, values, out := make([]byte, 2*all), make([]float32, all), make([]byte, 2*all)
	for i := range all {
		binary.LittleEndian.PutUint16(in[2*i:], uint16(i))
	}
	for _, u := range units() {
		with(t, u, func() {
			DecodeF16(values, in)
			EncodeF16(out, values)
			for i := range all {
				want := uint16(i)
				if want&0x7fff > 0x7c00 {
					want |= 0x200
				}
				if got := binary.LittleEndian.Uint16(out[2*i:]); got != want {
					t.Fatalf("%s: f16 %#x is %v and then %#x", u, i, values[i], got)
				}
			}
			DecodeBF16(values, in)
			EncodeBF16(out, values)
			for i := range all {
				want := uint16(i)
				if want&0x7fff > 0x7f80 {
					want |= 0x40
				}
				if got := binary.LittleEndian.Uint16(out[2*i:]); got != want {
					t.Fatalf("%s: bf16 %#x is %v and then %#x", u, i, values[i], got)
				}
			}
		})
	}
}

// TestHalfRounding: what lies between two neighbours goes to the nearer, half way to the even one.
func TestHalfRounding(t *testing.T) {
	type format struct {
		name    string
		encode  func([]byte, []float32)
		decode  func([]float32, []byte)
		largest uint16 // finite
	}
	for _, f := range []format{{"f16", EncodeF16, DecodeF16, 0x7bff}, {"bf16", EncodeBF16, DecodeBF16, 0x7f7f}} {
		n := int(f.largest)
		codes, values := make([]byte, 2*n+2), make([]float32, n+1)
		for i := range values {
			binary.LittleEndian.PutUint16(codes[2*i:], uint16(i))
		}
		f.decode(values, codes)
		var in []float32
		var want []uint16
		for i, lo := range values[:n] {
			middle := float32((float64(lo) + float64(values[i+1])) / 2) // exact
			below, above := math.Nextafter32(middle, 0), math.Nextafter32(middle, float32(math.Inf(1)))
			in = append(in, below, middle, above, -below, -middle, -above)
			lower, upper, even := uint16(i), uint16(i+1), uint16(i+i&1)
			want = append(want, lower, even, upper, lower|0x8000, even|0x8000, upper|0x8000)
		}
		got := make([]byte, 2*len(in))
		for _, u := range units() {
			with(t, u, func() {
				f.encode(got, in)
				for i, w := range want {
					if g := binary.LittleEndian.Uint16(got[2*i:]); g != w {
						t.Fatalf("%s %s: %v is %#x, want %#x", f.name, u, in[i], g, w)
					}
				}
			})
		}
	}
}

func TestHalfBeyondRange(t *testing.T) {
	in := []float32{65504, 65519.996, 65520, -65520, 1e30, float32(math.Inf(-1)), 0x1p-25, math.Nextafter32(0x1p-25, 1), math.Float32frombits(0xff800001), math.Float32frombits(0x80000000)}
	want := []uint16{0x7bff, 0x7bff, 0x7c00, 0xfc00, 0x7c00, 0xfc00, 0, 1, 0xfe00, 0x8000}
	in, want = slices.Repeat(in, 3), slices.Repeat(want, 3)
	out := make([]byte, 2*len(in))
	for _, u := range units() {
		with(t, u, func() {
			EncodeF16(out, in)
			for i, w := range want {
				if g := binary.LittleEndian.Uint16(out[2*i:]); g != w {
					t.Errorf("%s: %v is %#x, want %#x", u, in[i], g, w)
				}
			}
			EncodeBF16(out, []float32{math.MaxFloat32, math.Float32frombits(0x7f800001)})
			if inf, nan := binary.LittleEndian.Uint16(out), binary.LittleEndian.Uint16(out[2:]); inf != 0x7f80 || nan != 0x7fc0 {
				t.Errorf("%s: bf16 of the largest is %#x and of a NaN %#x", u, inf, nan)
			}
		})
	}
}
