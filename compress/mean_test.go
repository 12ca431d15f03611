package compress_test

import (
	"errors"
	"math"
	"testing"

	"hcclps/compress"
)

// TestMean: of exact codes it is the mean, and what its own code loses comes with the next.
func TestMean(t *testing.T) {
	none, onebit := parse(t, "none"), parse(t, "onebit")
	m, err := compress.NewMean(onebit, 64)
	if err != nil {
		t.Fatal(err)
	}
	in, out, decoded := make([]float64, 64), make([]float64, 64), make([]float32, 64)
	for step := range uint64(50) {
		for worker := range 1 + step%3 {
			g := normal(step*7+worker, 64)
			code, err := none.Append(nil, g, 0)
			if err = errors.Join(err, m.Add(none, code)); err != nil {
				t.Fatal(err)
			}
			for i := range g {
				in[i] += float64(g[i]) / float64(1+step%3)
			}
		}
		if err := m.Add(none, []byte{1}); !errors.Is(err, compress.ErrMalformed) {
			t.Fatalf("a short code: %v", err)
		}
		code, err := m.Close(nil, step)
		if err = errors.Join(err, onebit.Decode(decoded, code, compress.Set)); err != nil {
			t.Fatal(err)
		}
		for i, d := range decoded {
			out[i] += float64(d)
		}
	}
	for i, r := range m.Feedback().Residual() {
		if math.Abs(in[i]-out[i]-float64(r)) > 1e-4 {
			t.Errorf("element %d: %v in, %v out, residual %v", i, in[i], out[i], r)
		}
	}
}
