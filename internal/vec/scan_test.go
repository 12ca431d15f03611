package vec

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestNonFiniteIsThatOfThePlainLoop(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	bad := []float32{float32(math.Inf(1)), float32(math.Inf(-1)), math.Float32frombits(0x7f800001), math.Float32frombits(0xffffffff)}
	good := []float32{0, float32(math.Copysign(0, -1)), math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, math.Float32frombits(0x007fffff), 1}
	for _, u := range units() {
		with(t, u, func() {
			for range 2000 {
				values := make([]float32, 1+r.IntN(300))[r.IntN(2):] // also where no word is aligned
				for i := range values {
					values[i] = good[r.IntN(len(good))]
				}
				for range r.IntN(3) {
					if len(values) > 0 {
						values[r.IntN(len(values))] = bad[r.IntN(len(bad))]
					}
				}
				want := slices.IndexFunc(values, func(v float32) bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) })
				if got := NonFinite(values); got != want {
					t.Fatalf("%v: %d, want %d", values, got, want)
				}
			}
		})
	}
}
