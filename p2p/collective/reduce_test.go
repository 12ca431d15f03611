package collective

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hcclps/internal/vec"
	"hcclps/p2p"
)

// naiveHalf is the value of a binary16 number by the definition.
func naiveHalf(h uint16) float64 {
	sign := 1 - 2*float64(h>>15)
	exp, frac := int(h>>10&31), float64(h&0x3ff)
	switch {
	case exp == 31 && frac != 0:
		return math.NaN()
	case exp == 31:
		return sign * math.Inf(1)
	case exp == 0:
		return sign * math.Ldexp(frac, -24)
	default:
		return sign * math.Ldexp(1024+frac, exp-25)
	}
}

// The conversions that folds use, of one number.
func halfToFloat(h uint16) float32  { return decoded(vec.DecodeF16, h) }
func brainToFloat(h uint16) float32 { return decoded(vec.DecodeBF16, h) }
func floatToHalf(f float32) uint16  { return encoded(vec.EncodeF16, f) }
func floatToBrain(f float32) uint16 { return encoded(vec.EncodeBF16, f) }

func decoded(decode func([]float32, []byte), h uint16) float32 {
	var f [1]float32
	decode(f[:], []byte{byte(h), byte(h >> 8)})
	return f[0]
}

func encoded(encode func([]byte, []float32), f float32) uint16 {
	var b [2]byte
	encode(b[:], []float32{f})
	return binary.LittleEndian.Uint16(b[:])
}

func TestHalfIsExact(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		got, want := float64(halfToFloat(h)), naiveHalf(h)
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) || math.Signbit(got) != math.Signbit(want) && !math.IsNaN(want) {
			t.Fatalf("%04x is %v, want %v", h, got, want)
		}
		if back := floatToHalf(halfToFloat(h)); back != h && !math.IsNaN(want) {
			t.Fatalf("%04x comes back as %04x", h, back)
		} else if math.IsNaN(want) && !math.IsNaN(naiveHalf(back)) {
			t.Fatalf("a NaN, %04x, comes back as %04x", h, back)
		}
		b := brainToFloat(h)
		if back := floatToBrain(b); back != h && b == b {
			t.Fatalf("bfloat16 %04x comes back as %04x", h, back)
		} else if b != b && brainToFloat(back) == brainToFloat(back) {
			t.Fatalf("a NaN of bfloat16, %04x, comes back as %04x", h, back)
		}
	}
}

// Between two neighbours the nearer is taken, and of two as near the even one.
func TestHalfRounds(t *testing.T) {
	check := func(round func(float32) uint16, value func(uint16) float32, h uint16) {
		lo, hi := float64(value(h)), float64(value(h+1))
		if math.IsInf(hi, 0) || math.IsNaN(hi) || math.IsNaN(lo) || math.IsInf(lo, 0) {
			return
		}
		mid := float32((lo + hi) / 2) // exact: it needs one bit more
		even := h + h&1
		if got := round(mid); got != even {
			t.Fatalf("%v rounds to %04x, want %04x", mid, got, even)
		}
		if got := round(math.Nextafter32(mid, float32(lo))); got != h {
			t.Fatalf("below %v rounds to %04x, want %04x", mid, got, h)
		}
		if got := round(math.Nextafter32(mid, float32(hi))); got != h+1 {
			t.Fatalf("above %v rounds to %04x, want %04x", mid, got, h+1)
		}
	}
	for i := range 1<<15 - 1 {
		for _, sign := range []uint16{0, 0x8000} {
			check(floatToHalf, halfToFloat, uint16(i)|sign)
			if i < 0x7f00 {
				check(floatToBrain, brainToFloat, uint16(i)|sign)
			}
		}
	}
	for x, want := range map[float32]uint16{65519.996: 0x7bff, 65520: 0x7c00, 1e30: 0x7c00, -1e30: 0xfc00, 1e-30: 0, -1e-30: 0x8000} {
		if got := floatToHalf(x); got != want {
			t.Errorf("%v rounds to %04x, want %04x", x, got, want)
		}
	}
	if got := floatToBrain(math.MaxFloat32); got != 0x7f80 {
		t.Errorf("the largest float32 rounds to %04x", got)
	}
}

// Every element of every length is folded, and none beside it.
func TestFoldLengths(t *testing.T) {
	for _, typ := range []p2p.DType{p2p.Float32, p2p.Float16, p2p.BFloat16, p2p.Float64, p2p.Int32, p2p.Int64, p2p.Uint8} {
		for r := Sum; r <= Avg; r++ {
			red := newReducer(typ, r)
			for _, n := range []int{0, 1, 2, block - 1, block, block + 1, 3 * block} {
				one := make([]byte, (n+1)*typ.Size())
				for i := range n {
					red.finish(one, 1)
					one[i*typ.Size()] = 0
				}
				guard := one[n*typ.Size():]
				for i := range guard {
					guard[i] = 0xa5
				}
				red.into(one[:n*typ.Size()], make([]byte, n*typ.Size()))
				red.finish(one[:n*typ.Size()], 3)
				for i, b := range one {
					if want := byte(0); i < n*typ.Size() && b != want || i >= n*typ.Size() && b != 0xa5 {
						t.Fatalf("%v %v of %d: byte %d is %x", typ, r, n, i, b)
					}
				}
			}
		}
	}
}

func TestExtremes(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		r          Reduction
		a, b, want float32
	}{
		{Max, nan, 1, nan},
		{Max, 1, nan, nan},
		{Min, nan, 1, nan},
		{Min, 1, nan, nan},
		{Max, float32(math.Copysign(0, -1)), 0, 0},
		{Min, 0, float32(math.Copysign(0, -1)), float32(math.Copysign(0, -1))},
		{Sum, float32(math.Inf(1)), float32(math.Inf(-1)), nan},
	} {
		a := binary.LittleEndian.AppendUint32(nil, math.Float32bits(c.a))
		newReducer(p2p.Float32, c.r).into(a, binary.LittleEndian.AppendUint32(nil, math.Float32bits(c.b)))
		got := math.Float32frombits(binary.LittleEndian.Uint32(a))
		if math.Float32bits(got) != math.Float32bits(c.want) && !(got != got && c.want != c.want) {
			t.Errorf("%v of %v and %v is %v", c.r, c.a, c.b, got)
		}
	}
	a := []byte{0xf9, 0xff, 0xff, 0xff} // -7
	newReducer(p2p.Int32, Avg).finish(a, 2)
	if got := int32(binary.LittleEndian.Uint32(a)); got != -3 {
		t.Errorf("the average of -7 over 2 is %d", got)
	}
	u := []byte{200}
	newReducer(p2p.Uint8, Avg).finish(u, 256)
	if u[0] != 0 {
		t.Errorf("200 over 256 ranks is %d", u[0])
	}
}

// The fast sum has the bits of the plain one, wherever the result lies and however it is aligned.
func TestFastSumIsThePlainOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	plain, fast := newFolder(4, loadFloat32, storeFloat32, Sum, divide[float32]), newReducer(p2p.Float32, Sum)
	for n := range 12_000 {
		if n > 100 && n%977 != 0 {
			continue
		}
		for offset := range 2 {
			parts := make([][]byte, 1+n%5)
			for k := range parts {
				parts[k] = make([]byte, offset)
				for range n {
					parts[k] = binary.LittleEndian.AppendUint32(parts[k], math.Float32bits(rng.Float32()-0.5))
				}
				parts[k] = parts[k][offset:]
			}
			want := make([]byte, 4*n)
			plain.fold(want, parts)
			for in := -1; in < len(parts); in++ { // the part that the result replaces
				dst, own := make([]byte, 4*n+offset)[offset:], slices.Clone(parts)
				if in >= 0 {
					copy(dst, parts[in])
					own[in] = dst
				}
				fast.fold(dst, own)
				if string(dst) != string(want) {
					t.Fatalf("%d parts of %d elements at offset %d, in place of %d, differ", len(parts), n, offset, in)
				}
			}
			if len(parts) == 2 {
				fast.into(parts[0], parts[1])
				if string(parts[0]) != string(want) {
					t.Fatalf("into of %d elements at offset %d differs", n, offset)
				}
			}
		}
	}
}
