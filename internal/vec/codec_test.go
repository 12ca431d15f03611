package vec

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// codecKernels are the kernels of codecs as the other tests call them: bytes and indexes lie in the memory of a slice.
func codecKernels() []kernel {
	none := func(f func(c []float64, s [][]float32)) func([]float64, [][]float32) []float64 {
		return func(c []float64, s [][]float32) []float64 { f(c, s); return nil }
	}
	bits := func(s []float32) []byte { return BytesOfFloats(s)[:(len(s)+7)/8] }
	more := func(s []float32) []byte { return BytesOfFloats(s)[2*len(s):] }
	block := func(c []float64) int { return 8 + int(8*c[0]) }
	return []kernel{
		{"maxAbs", 1, 0, func(_ []float64, s [][]float32) []float64 { return []float64{float64(MaxAbs(s[0]))} }},
		{"absSum", 1, 0, func(_ []float64, s [][]float32) []float64 { return []float64{float64(AbsSum(s[0]))} }},
		{"addAbsSum", 2, 0, func(_ []float64, s [][]float32) []float64 { return []float64{float64(AddAbsSum(s[0], s[1]))} }},
		{"absSumAbove", 1, 1, func(c []float64, s [][]float32) []float64 {
			sum, n := AbsSumAbove(s[0], float32(c[0]))
			return []float64{float64(sum), float64(n)}
		}},
		{"selectAbs", 2, 2, func(c []float64, s [][]float32) []float64 {
			index := unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(s[0]))), len(s[0]))
			if c[1] == 0.9 {
				index = index[:len(index)/4]
			}
			found, seen := SelectAbs(index, s[1], float32(c[0]))
			if c[1] != unspoilt {
				clear(index[found:]) // what is there is the kernel's own affair
			}
			return []float64{float64(found), float64(seen)}
		}},
		{"packSigns", 2, 0, none(func(_ []float64, s [][]float32) { PackSigns(bits(s[0]), s[1]) })},
		{"packSignsRest", 2, 1, none(func(c []float64, s [][]float32) { PackSignsRest(bits(s[0]), s[1], float32(c[0])) })},
		{"unpackSigns", 2, 1, none(func(c []float64, s [][]float32) { UnpackSigns(s[0], bits(s[1]), float32(c[0])) })},
		{"addSigns", 2, 1, none(func(c []float64, s [][]float32) { AddSigns(s[0], bits(s[1]), float32(c[0])) })},
		{"packTwoBit", 2, 1, none(func(c []float64, s [][]float32) { PackTwoBit(bits(s[0]), more(s[0]), s[1], float32(c[0])) })},
		{"packTwoBitRest", 2, 2, none(func(c []float64, s [][]float32) {
			PackTwoBitRest(bits(s[0]), more(s[0]), s[1], float32(c[0]), float32(c[1]))
		})},
		{"unpackTwoBit", 2, 1, none(func(c []float64, s [][]float32) { UnpackTwoBit(s[0], bits(s[1]), more(s[1]), float32(c[0])) })},
		{"addTwoBit", 2, 1, none(func(c []float64, s [][]float32) { AddTwoBit(s[0], bits(s[1]), more(s[1]), float32(c[0])) })},
		{"encodeInt8", 3, 1, none(func(c []float64, s [][]float32) { EncodeInt8(wide(s[0], s[1]), s[2], block(c)) })},
		{"encodeInt8Rest", 3, 1, none(func(c []float64, s [][]float32) { EncodeInt8Rest(wide(s[0], s[1]), s[2], block(c)) })},
		{"decodeInt8", 3, 1, none(func(c []float64, s [][]float32) { DecodeInt8(s[0], wide(s[1], s[2]), block(c)) })},
		{"addInt8", 3, 1, none(func(c []float64, s [][]float32) { AddInt8(s[0], wide(s[1], s[2]), block(c)) })},
	}
}

// unspoilt is a coefficient of selectAbs that benchmarks give, to have its time alone.
const unspoilt = 2

// wide is the memory of a, or if that is short, new memory with the content of both.
func wide(a, b []float32) []byte {
	if len(a) > 1 {
		return BytesOfFloats(a)
	}
	return slices.Concat(BytesOfFloats(a), BytesOfFloats(b), make([]byte, 8))
}

// codecTouched is how many bytes a call on n elements reads and writes, 0 of other kernels.
func codecTouched(name string, n int) int {
	switch name {
	case "maxAbs", "absSum", "absSumAbove", "selectAbs":
		return 4 * n
	case "encodeF16", "decodeF16", "encodeBF16", "decodeBF16":
		return 6 * n
	case "addF16", "addBF16":
		return 10 * n
	case "addAbsSum":
		return 12 * n
	case "packSigns", "unpackSigns":
		return 4*n + n/8
	case "packSignsRest", "addSigns":
		return 8*n + n/8
	case "packTwoBit", "unpackTwoBit":
		return 4*n + n/4
	case "packTwoBitRest", "addTwoBit":
		return 8*n + n/4
	case "encodeInt8", "decodeInt8":
		return 5 * n
	case "encodeInt8Rest", "addInt8":
		return 9 * n
	}
	return 0
}

// TestRestIsWhatDecodingLeaves: an element is what it decodes to and its rest, and the bytes are those of the encoder that leaves x alone.
func TestRestIsWhatDecodingLeaves(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, u := range units() {
		with(t, u, func() {
			for n := range 600 {
				x := make([]float32, n)
				for i := range x {
					x[i] = float32(rng.NormFloat64())
				}
				check := func(name string, encode, rest func(dst []byte, x []float32), decode, add func(dst []float32, src []byte)) {
					t.Helper()
					left, bytes, same := slices.Clone(x), make([]byte, 5*n+9), make([]byte, 5*n+9)
					rest(bytes, left)
					encode(same, x)
					if !slices.Equal(bytes, same) {
						t.Fatalf("%s %s: bytes of %d elements differ", name, u, n)
					}
					decoded, sum := make([]float32, n), slices.Repeat([]float32{0.5}, n)
					decode(decoded, bytes)
					add(sum, bytes)
					for i, d := range decoded {
						if left[i] != x[i]-d || sum[i] != 0.5+d {
							t.Fatalf("%s %s: element %d of %d, %v, is %v with rest %v, and added to 0.5 %v", name, u, i, n, x[i], d, left[i], sum[i])
						}
					}
				}
				scale := AbsSum(x) / float32(max(n, 1))
				check("signs", PackSigns, func(b []byte, x []float32) { PackSignsRest(b, x, scale) },
					func(d []float32, b []byte) { UnpackSigns(d, b, scale) }, func(d []float32, b []byte) { AddSigns(d, b, scale) })
				half := (n + 7) / 8
				check("two bits", func(b []byte, x []float32) { PackTwoBit(b, b[half:], x, scale) },
					func(b []byte, x []float32) { PackTwoBitRest(b, b[half:], x, scale, 2*scale) },
					func(d []float32, b []byte) { UnpackTwoBit(d, b, b[half:], 2*scale) }, func(d []float32, b []byte) { AddTwoBit(d, b, b[half:], 2*scale) })
				check("int8", func(b []byte, x []float32) { EncodeInt8(b, x, 64) }, func(b []byte, x []float32) { EncodeInt8Rest(b, x, 64) },
					func(d []float32, b []byte) { DecodeInt8(d, b, 64) }, func(d []float32, b []byte) { AddInt8(d, b, 64) })
			}
		})
	}
}

// TestInt8Error: no element is off by more than half a scale and what rounding adds, and tiny blocks are zeros.
func TestInt8Error(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for _, u := range units() {
		with(t, u, func() {
			for n := 1; n < 500; n += 7 {
				x, out := make([]float32, n), make([]float32, n)
				size := math.Pow(10, float64(rng.IntN(30)-15))
				for i := range x {
					x[i] = float32(rng.NormFloat64() * size)
				}
				bytes := make([]byte, Int8Len(n, 32))
				EncodeInt8(bytes, x, 32)
				DecodeInt8(out, bytes, 32)
				for i := range x {
					first := i / 32 * 32
					bound := 0.501 * float64(MaxAbs(x[first:min(first+32, n)])) / 127
					if math.Abs(float64(x[i])-float64(out[i])) > bound {
						t.Fatalf("%s: %v became %v, off by more than %v", u, x[i], out[i], bound)
					}
				}
				for i := range x {
					x[i] = float32(0x1p-101)
				}
				EncodeInt8(bytes, x, 32)
				DecodeInt8(out, bytes, 32)
				if MaxAbs(out) != 0 {
					t.Fatalf("%s: tiny numbers became %v", u, out)
				}
			}
		})
	}
}

// TestInt8LongBlocks: blocks of 256, which the codec has, with special numbers, of nothing but tiny ones, and without special ones.
func TestInt8LongBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	fill := []func() float32{
		func() float32 { return randomFloat(rng, false) },
		func() float32 { return 0x1p-101 },
		func() float32 { return float32(rng.NormFloat64()) },
	}
	for _, k := range codecKernels() {
		if !strings.Contains(k.name, "Int8") {
			continue
		}
		for _, n := range []int{255, 256, 257, 511, 512, 768, 1030} {
			in := make([][]float32, k.slices)
			for i := range in {
				for j := range n {
					in[i] = append(in[i], fill[j/256%len(fill)]())
				}
			}
			k.compare(t, []float64{31}, in)
			slices.Reverse(fill)
		}
	}
}

// TestAbsOrder: as TestDotOrder, and a NaN is the largest of all.
func TestAbsOrder(t *testing.T) {
	x := slices.Repeat([]float32{-1}, 70)
	x[0] = 1 << 24
	nan := float32(math.NaN())
	for _, u := range units() {
		with(t, u, func() {
			if got, want := AbsSum(x), float32(1<<24+68); got != want {
				t.Errorf("%s: sum %v, want %v", u, got, want)
			}
			if got := MaxAbs(x); got != 1<<24 {
				t.Errorf("%s: largest %v", u, got)
			}
			if got := MaxAbs(append(slices.Clone(x), nan)); got == got {
				t.Errorf("%s: largest with a NaN %v", u, got)
			}
			if MaxAbs(nil) != 0 || AbsSum(nil) != 0 {
				t.Errorf("%s: something of nothing", u)
			}
		})
	}
}

// TestSelectAbs stops where index is full, and says where.
func TestSelectAbs(t *testing.T) {
	x := make([]float32, 1000)
	for i := range x {
		x[i] = float32(i%10) - 4.5 // the largest are -4.5 and 4.5, at 0, 9, 10, 19, ...
	}
	for _, u := range units() {
		with(t, u, func() {
			for room := range 202 {
				index := slices.Repeat([]uint32{7}, room+1)
				found, seen := SelectAbs(index[:room], x, 4.5)
				wantFound, wantSeen := min(room, 200), 1000
				if room < 200 {
					wantSeen = room/2*10 + room%2*9
				}
				if found != wantFound || seen != wantSeen || index[room] != 7 {
					t.Fatalf("%s: room %d: %d up to %d, want %d up to %d", u, room, found, seen, wantFound, wantSeen)
				}
				for i, at := range index[:found] {
					if want := i/2*10 + i%2*9; int(at) != want {
						t.Fatalf("%s: room %d: index %d is %d, want %d", u, room, i, at, want)
					}
				}
			}
		})
	}
}

// TestCodecShortSlices: what is too short is refused before anything is written.
func TestCodecShortSlices(t *testing.T) {
	for _, u := range units() {
		with(t, u, func() {
			floats, short := make([]float32, 40), make([]byte, 4)
			for name, f := range map[string]func(){
				"EncodeF16": func() { EncodeF16(make([]byte, 79), floats) }, "DecodeF16": func() { DecodeF16(floats, make([]byte, 79)) },
				"AddF16": func() { AddF16(floats, make([]byte, 79)) }, "EncodeBF16": func() { EncodeBF16(make([]byte, 79), floats) },
				"DecodeBF16": func() { DecodeBF16(floats, make([]byte, 79)) }, "AddBF16": func() { AddBF16(floats, make([]byte, 79)) },
				"AddAbsSum": func() { AddAbsSum(floats, floats[:39:39]) },
				"PackSigns": func() { PackSigns(short, floats) }, "PackSignsRest": func() { PackSignsRest(short, floats, 1) },
				"UnpackSigns": func() { UnpackSigns(floats, short, 1) }, "AddSigns": func() { AddSigns(floats, short, 1) },
				"PackTwoBit": func() { PackTwoBit(make([]byte, 5), short, floats, 1) }, "PackTwoBitRest": func() { PackTwoBitRest(short, make([]byte, 5), floats, 1, 1) },
				"UnpackTwoBit": func() { UnpackTwoBit(floats, make([]byte, 5), short, 1) }, "AddTwoBit": func() { AddTwoBit(floats, short, make([]byte, 5), 1) },
				"EncodeInt8": func() { EncodeInt8(make([]byte, 47), floats, 32) }, "EncodeInt8Rest": func() { EncodeInt8Rest(make([]byte, 47), floats, 32) },
				"DecodeInt8": func() { DecodeInt8(floats, make([]byte, 47), 32) }, "AddInt8": func() { AddInt8(floats, make([]byte, 47), 32) },
			} {
				func() {
					defer func() {
						if recover() == nil {
							t.Errorf("%s %s: accepted", name, u)
						}
					}()
					f()
				}()
			}
			if MaxAbs(floats) != 0 || slices.Max(short) != 0 {
				t.Errorf("%s: something was written", u)
			}
		})
	}
}
