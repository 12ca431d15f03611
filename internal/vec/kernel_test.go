package vec

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// units are the kinds of kernels this machine can run, the twins first.
func units() []unit {
	switch detect() {
	case avx512:
		return []unit{plain, avx2, avx512}
	case plain:
		return []unit{plain}
	default:
		return []unit{plain, detect()}
	}
}

// with runs f with kernels of one kind.
func with(t testing.TB, u unit, f func()) {
	t.Helper()
	before := active
	active = u
	defer func() { active = before }()
	f()
}

// kernel is one function as the tests call it: it changes the slices, of one length, and returns its sums.
type kernel struct {
	name   string
	slices int
	coeffs int
	run    func(c []float64, s [][]float32) []float64
}

func kernels() []kernel {
	adam := func(c []float64) Adam {
		return Adam{Size: c[0], Corr: c[1], Eps: c[2], Beta1: c[3], Rest1: 1 - c[3], Beta2: c[4], Rest2: 1 - c[4], Decay: c[5], Keep: c[6]}
	}
	return []kernel{
		{"add", 2, 0, func(_ []float64, s [][]float32) []float64 { Add(s[0], s[1]); return nil }},
		{"scale", 1, 1, func(c []float64, s [][]float32) []float64 { Scale(s[0], float32(c[0])); return nil }},
		{"axpy", 2, 1, func(c []float64, s [][]float32) []float64 { Axpy(s[0], float32(c[0]), s[1]); return nil }},
		{"axpby", 3, 2, func(c []float64, s [][]float32) []float64 {
			Axpby(s[0], float32(c[0]), s[1], float32(c[1]), s[2])
			return nil
		}},
		{"dot", 2, 0, func(_ []float64, s [][]float32) []float64 { return []float64{float64(Dot(s[0], s[1]))} }},
		{"nonFinite", 1, 0, func(_ []float64, s [][]float32) []float64 { return []float64{float64(NonFinite(s[0]))} }},
		{"sgd", 2, 2, func(c []float64, s [][]float32) []float64 { (&SGD{c[0], c[1]}).Update(s[0], s[1]); return nil }},
		{"momentum", 3, 3, func(c []float64, s [][]float32) []float64 {
			(&Momentum{c[0], c[1], c[2]}).Update(s[0], s[1], s[2])
			return nil
		}},
		{"nesterov", 3, 3, func(c []float64, s [][]float32) []float64 {
			(&Nesterov{c[0], c[1], c[2]}).Update(s[0], s[1], s[2])
			return nil
		}},
		{"rms", 3, 5, func(c []float64, s [][]float32) []float64 {
			(&RMS{c[0], c[1], c[2], c[3], c[4]}).Update(s[0], s[1], s[2])
			return nil
		}},
		{"adam", 4, 7, func(c []float64, s [][]float32) []float64 {
			p := adam(c)
			p.Update(s[0], s[1], s[2], s[3])
			return nil
		}},
		{"amsgrad", 5, 7, func(c []float64, s [][]float32) []float64 {
			p := AMSGrad(adam(c))
			p.Update(s[0], s[1], s[2], s[3], s[4])
			return nil
		}},
		{"ftrl", 4, 5, func(c []float64, s [][]float32) []float64 {
			(&FTRL{c[0], c[1], c[2], c[3], c[4]}).Update(s[0], s[1], s[2], s[3])
			return nil
		}},
		{"sumSquares", 2, 1, func(c []float64, s [][]float32) []float64 { return []float64{SumSquares(c[0], s[0], s[1])} }},
		{"adamNorms", 4, 8, func(c []float64, s [][]float32) []float64 {
			p := adam(c)
			w, u := p.Norms(c[7], s[0], s[1], s[2], s[3])
			return []float64{w, u}
		}},
	}
}

// allKernels are those of sums and rules, and those of codecs.
func allKernels() []kernel { return slices.Concat(kernels(), halfKernels(), codecKernels()) }

// loose kernels may choose the bits of a NaN.
func (k kernel) loose() bool {
	return slices.Contains([]string{
		"add", "scale", "axpy", "addF16", "addBF16", "addAbsSum", "packSignsRest", "addSigns", "packTwoBitRest", "addTwoBit",
		"encodeInt8Rest", "decodeInt8", "addInt8",
	}, k.name)
}

// guard is what lies before and behind every slice; no kernel may touch it.
const guard = 123.25

// apply runs k with kernels u on copies of the slices, which it returns with the sums.
func (k kernel) apply(t testing.TB, u unit, c []float64, in [][]float32) (out [][]float32, sums []float64) {
	t.Helper()
	var whole, parts [][]float32
	for i, s := range in {
		offset := 1 + i // aligned differently
		w := slices.Concat(slices.Repeat([]float32{guard}, offset), s, slices.Repeat([]float32{guard}, 20))
		whole, parts = append(whole, w), append(parts, w[offset:][:len(s)])
	}
	with(t, u, func() { sums = k.run(c, parts) })
	for i, w := range whole {
		for j, v := range w {
			if (j < 1+i || j >= 1+i+len(in[i])) && v != guard {
				t.Fatalf("%s %s: slice %d of %d elements: written at %d", k.name, u, i, len(in[i]), j-1-i)
			}
		}
	}
	return parts, sums
}

// compare runs k with every kind of kernels and wants the bits of the plain twin.
func (k kernel) compare(t testing.TB, c []float64, in [][]float32) {
	t.Helper()
	want, wantSums := k.apply(t, plain, c, in)
	for _, u := range units()[1:] {
		got, sums := k.apply(t, u, c, in)
		for i := range want {
			for j, w := range want[i] {
				g := got[i][j]
				if math.Float32bits(g) != math.Float32bits(w) && !(k.loose() && g != g && w != w) {
					t.Fatalf("%s %s %v: slice %d element %d of %d is %v (%#x), want %v (%#x)", k.name, u, c, i, j, len(in[i]),
						g, math.Float32bits(g), w, math.Float32bits(w))
				}
			}
		}
		for i, w := range wantSums {
			if g := sums[i]; math.Float64bits(g) != math.Float64bits(w) && !(g != g && w != w) {
				t.Fatalf("%s %s %v: sum %d of %d elements is %v (%#x), want %v (%#x)", k.name, u, c, i, len(in[0]), g, math.Float64bits(g), w, math.Float64bits(w))
			}
		}
	}
}

// randomCoeffs are what rules use: shares, rates, zeros and ones.
func randomCoeffs(rng *rand.Rand, n int) []float64 {
	c := make([]float64, n)
	for i := range c {
		c[i] = []float64{0, 1, 0.9, 0.001, 1e-8, rng.Float64(), rng.Float64() * 10}[rng.IntN(7)]
	}
	return c
}

// randomFloat is a number as training has them, now and then a special one; squares are what must not be negative.
func randomFloat(rng *rand.Rand, square bool) float32 {
	v := float32(rng.NormFloat64() * math.Pow(10, float64(rng.IntN(7)-5)))
	switch rng.IntN(40) {
	case 0:
		v = 0
	case 1:
		v = float32(math.Copysign(0, -1))
	case 2:
		v = math.Float32frombits(rng.Uint32()) // anything: NaNs, infinities, denormals
	case 3:
		v = float32(math.Inf(1 - 2*rng.IntN(2)))
	}
	if square && v < 0 {
		v = -v
	}
	return v
}

// TestKernelsEqualTwins runs every kernel at every length up to some turns of its loops.
func TestKernelsEqualTwins(t *testing.T) {
	for _, k := range allKernels() {
		t.Run(k.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			for n := range 300 {
				for range 3 {
					in := make([][]float32, k.slices)
					for i := range in {
						for range n {
							in[i] = append(in[i], randomFloat(rng, i > 0 && i < k.slices-1))
						}
					}
					k.compare(t, randomCoeffs(rng, k.coeffs), in)
				}
			}
		})
	}
}

// FuzzKernels: bytes are the elements of the slices, any bits, and numbers the coefficients.
func FuzzKernels(f *testing.F) {
	for i := range allKernels() {
		f.Add(uint8(i), uint64(i), []byte("\x00\x00\x80\x3f\x00\x00\x80\xbf\x00\x00\xc0\x7f\x00\x00\x80\xff\x01\x00\x00\x00some more bytes of nothing in particular"))
	}
	f.Fuzz(func(t *testing.T, which uint8, seed uint64, data []byte) {
		all := allKernels()
		k := all[int(which)%len(all)]
		n := len(data) / 4 / k.slices
		in := make([][]float32, k.slices)
		for i := range in {
			for range n {
				in[i] = append(in[i], math.Float32frombits(binary.LittleEndian.Uint32(data)))
				data = data[4:]
			}
		}
		k.compare(t, randomCoeffs(rand.New(rand.NewPCG(seed, 1)), k.coeffs), in)
	})
}

// TestDotOrder: 2^24 swallows a one, so the sum tells the order. By hand: sum 0 stays at 2^24, sums 1 to 5 have three ones, the others two; folding adds 2, 4,
// 9, 17 and 35 to it, each rounded to even.
func TestDotOrder(t *testing.T) {
	a, ones := slices.Repeat([]float32{1}, 70), slices.Repeat([]float32{1}, 70)
	a[0] = 1 << 24
	for _, u := range units() {
		with(t, u, func() {
			if got, want := Dot(a, ones), float32(1<<24+68); got != want {
				t.Errorf("%s: %v, want %v", u, got, want)
			}
			if got := Dot(nil, nil); got != 0 {
				t.Errorf("%s: nothing is %v", u, got)
			}
		})
	}
}

// TestNothingAllocates: no kernel allocates, in any unit.
func TestNothingAllocates(t *testing.T) {
	s := make([][]float32, 5)
	for i := range s {
		s[i] = make([]float32, 37)
	}
	adam := Adam{Size: 0.1, Corr: 1, Eps: 1e-8, Keep: 1}
	for _, u := range units() {
		with(t, u, func() {
			if n := testing.AllocsPerRun(10, func() {
				step := SGD{LR: SumSquares(0, s[0], s[1])}
				step.Update(s[0], s[1])
				k := adam
				k.Size, _ = k.Norms(0.1, s[0], s[1], s[2], s[3])
				k.Update(s[0], s[1], s[2], s[3])
				Scale(s[0], Dot(s[1], s[2]))
				Gemm(s[0][:12], s[1], s[2], 3, 5, 4, true)
				GemmTB(s[0][:12], s[1], s[2], 3, 5, 4, true)
			}); n != 0 {
				t.Errorf("%s: %v allocations", u, n)
			}
		})
	}
}

// TestShortSlices: a slice shorter than the others is refused, as by an index out of range, and nothing is written.
func TestShortSlices(t *testing.T) {
	for _, u := range units() {
		with(t, u, func() {
			for _, k := range kernels() {
				if k.slices < 2 {
					continue
				}
				s := make([][]float32, k.slices)
				for i := range s {
					s[i] = slices.Repeat([]float32{1}, 40)
				}
				short := 1
				if !slices.Contains([]string{"add", "axpy", "axpby", "dot"}, k.name) {
					short = 0 // the gradient says how many
				}
				s[short] = s[short][:20:20]
				func() {
					defer func() {
						if recover() == nil {
							t.Errorf("%s %s: accepted a slice of 20 for 40", k.name, u)
						}
					}()
					k.run(make([]float64, k.coeffs), s)
				}()
				for i := range s {
					if slices.ContainsFunc(s[i], func(v float32) bool { return v != 1 }) {
						t.Errorf("%s %s: slice %d was written", k.name, u, i)
					}
				}
			}
		})
	}
}

// TestGatherRows compares with a copy, row by row, and leaves alone what is behind.
func TestGatherRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, u := range units() {
		with(t, u, func() {
			for dim := range 70 {
				for _, n := range []int{0, 1, 2, 5, 64} {
					rows, want := make([]*float32, n), slices.Repeat([]float32{guard}, n*dim+3)
					for i := range rows {
						row := make([]float32, dim+1)
						for j := range row {
							row[j] = rng.Float32()
						}
						if rng.IntN(5) > 0 {
							rows[i] = &row[0]
							copy(want[i*dim:], row[:dim])
						}
					}
					got := slices.Repeat([]float32{guard}, n*dim+3)
					GatherRows(got, rows, dim)
					if !slices.Equal(got, want) {
						t.Fatalf("%s: %d rows of %d: %v, want %v", u, n, dim, got, want)
					}
				}
			}
		})
	}
}

func TestChoose(t *testing.T) {
	if got := choose("1"); got != plain {
		t.Errorf("switched off: %s", got)
	}
	if got := choose(""); got != detect() {
		t.Errorf("not switched off: %s", got)
	}
}
