package vec

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// product is one of the three forms of Gemm; at and bt say what is transposed.
type product struct {
	name   string
	at, bt bool
	run    func(c, a, b []float32, m, k, n int, accumulate bool)
}

func products() []product {
	return []product{{"AB", false, false, Gemm}, {"ATB", true, false, GemmTA}, {"ABT", false, true, GemmTB}}
}

// check compares a product with sums in float64, within the rounding of k float32 steps.
func (p product) check(t *testing.T, rng *rand.Rand, m, k, n int, accumulate bool) {
	t.Helper()
	random := func(n int) []float32 {
		s := make([]float32, n)
		for i := range s {
			s[i] = float32(rng.NormFloat64())
		}
		return s
	}
	a, b, c := random(m*k), random(k*n), random(m*n)
	guarded := append(slices.Clone(c), guard, guard)
	p.run(guarded[:m*n], a, b, m, k, n, accumulate)
	if guarded[m*n] != guard || guarded[m*n+1] != guard {
		t.Fatalf("%s %dx%dx%d %s: written behind c", p.name, m, k, n, active)
	}
	for i := range m {
		for j := range n {
			want, size := 0.0, 0.0
			if accumulate {
				want, size = float64(c[i*n+j]), math.Abs(float64(c[i*n+j]))
			}
			for l := range k {
				x, y := a[i*k+l%max(k, 1)], b[l*n+j]
				if p.at {
					x = a[l*m+i]
				}
				if p.bt {
					y = b[j*k+l]
				}
				want += float64(x) * float64(y)
				size += math.Abs(float64(x) * float64(y))
			}
			if got := float64(guarded[i*n+j]); !(math.Abs(got-want) <= size*float64(k+2)/(1<<24)) {
				t.Fatalf("%s %dx%dx%d %s accumulate %v: element (%d, %d) is %v, want %v", p.name, m, k, n, active, accumulate, i, j, got, want)
			}
		}
	}
}

// TestGemm runs edges of tiles and panels in every direction.
func TestGemm(t *testing.T) {
	shapes := [][3]int{{0, 3, 4}, {3, 0, 4}, {3, 4, 0}, {1, 1, 1}, {8, 8, 32}, {6, 16, 16}, {16, 256, 64}, {9, 257, 33}, {7, 300, 31}, {1, 513, 1}, {70, 300, 1}, {1, 300, 70}, {3, 0, 1}, {70, 1, 1}, {70, 1, 40}, {48, 29, 96}, {5, 7, 100}}
	for _, u := range units() {
		with(t, u, func() {
			rng := rand.New(rand.NewPCG(5, 6))
			for _, p := range products() {
				for _, s := range shapes {
					p.check(t, rng, s[0], s[1], s[2], false)
					p.check(t, rng, s[0], s[1], s[2], true)
				}
				for range 30 {
					p.check(t, rng, 1+rng.IntN(40), 1+rng.IntN(70), 1+rng.IntN(80), rng.IntN(2) == 0)
				}
			}
		})
	}
}

// TestGemmOneOrder: kernels sum every element in one order, so AVX2 and AVX-512 agree to the bit.
func TestGemmOneOrder(t *testing.T) {
	all := units()
	if len(all) < 3 {
		t.Skip("one kind of kernels on this machine")
	}
	rng := rand.New(rand.NewPCG(8, 8))
	const m, k, n = 37, 429, 101
	a, b := make([]float32, m*k), make([]float32, k*n)
	for _, s := range [][]float32{a, b} {
		for i := range s {
			s[i] = float32(rng.NormFloat64())
		}
	}
	for _, p := range products() {
		var results [][]float32
		for _, u := range all[1:] {
			c := slices.Repeat([]float32{0.5}, m*n)
			with(t, u, func() { p.run(c, a, b, m, k, n, true) })
			results = append(results, c)
		}
		if !slices.Equal(results[0], results[1]) {
			t.Errorf("%s: %s and %s differ", p.name, all[1], all[2])
		}
	}
}
