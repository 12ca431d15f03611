package compress_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hcclps/compress"
)

func newFeedback(t testing.TB, name string, shape ...int) *compress.Feedback {
	t.Helper()
	f, err := compress.NewFeedback(parse(t, name), shape...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFeedbackLosesNothing: the sum of the vectors less that of what was decoded is the last residual.
func TestFeedbackLosesNothing(t *testing.T) {
	const n, steps = 3000, 300
	for _, name := range codecs() {
		f := newFeedback(t, name, n)
		in, out, decoded := make([]float64, n), make([]float64, n), make([]float32, n)
		size := 0.0
		for step := range uint64(steps) {
			g := normal(step, n)
			code, err := f.Append(nil, g, step)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Codec().Decode(decoded, code, compress.Set); err != nil {
				t.Fatal(err)
			}
			for i := range g {
				in[i] += float64(g[i])
				out[i] += float64(decoded[i])
			}
			size += compress.Norm(g)
		}
		off, length := 0.0, 0.0
		for i, r := range f.Residual() {
			d := in[i] - out[i] - float64(r)
			off += d * d
			length += in[i] * in[i]
		}
		if off, length = math.Sqrt(off), math.Sqrt(length); off > 1e-4*length {
			t.Errorf("%s: inputs less outputs differ from the residual by %v of %v", name, off, length)
		}
	}
}

// TestFeedbackStaysBounded: over 10^5 steps the residual of every codec stays below some steps' worth of gradient. (A
// fixed threshold does so for elements below it.)
func TestFeedbackStaysBounded(t *testing.T) {
	const n = 48
	steps := uint64(100_000)
	if testing.Short() {
		steps /= 10
	}
	for name, bound := range map[string]float64{
		"none": 0, "bf16": 0.005, "fp16": 0.001, "int8": 0.015, "onebit": 4, "twobit": 2, "twobit:8": 4, "topk:0.1": 4, "randomk:0.25": 10,
	} {
		f := newFeedback(t, name, n)
		rng := rand.New(rand.NewPCG(9, 9))
		g, room := make([]float32, n), make([]byte, 0, f.Codec().MaxLen(n))
		var largest, gradients float64
		for step := range steps {
			for i := range g {
				g[i] = float32(rng.NormFloat64() * float64(1+i%5))
			}
			for i := range g {
				g[i] = max(-8, min(8, g[i]+0.5))
			}
			if _, err := f.Append(room, g, step); err != nil {
				t.Fatal(err)
			}
			if step%16 == 0 {
				largest = max(largest, f.Norm())
				gradients += compress.Norm(g)
			}
		}
		if ratio := largest / (gradients / float64(steps/16)); ratio > bound || math.IsNaN(ratio) {
			t.Errorf("%s: the residual grew to %.3g gradients, want %.3g at most", name, ratio, bound)
		} else {
			t.Logf("%s: the residual was %.3g gradients at most", name, ratio)
		}
	}
}

// TestFeedbackRestored goes on as if it had not stopped.
func TestFeedbackRestored(t *testing.T) {
	for _, name := range codecs() {
		one, two := newFeedback(t, name, 500), newFeedback(t, name, 500)
		for step := range uint64(20) {
			a, err := one.AppendFrame(nil, normal(step, 500), step)
			if err != nil {
				t.Fatal(err)
			}
			if step == 10 {
				saved := slices.Clone(two.Residual())
				two = newFeedback(t, name, 500)
				if err := two.Restore(saved); err != nil {
					t.Fatal(err)
				}
			}
			b, err := two.AppendFrame(nil, normal(step, 500), step)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(a, b) {
				t.Fatalf("%s: frames of step %d differ", name, step)
			}
		}
	}
}

// TestFeedbackReturn: what is returned comes again.
func TestFeedbackReturn(t *testing.T) {
	for _, name := range codecs() {
		f := newFeedback(t, name, 700)
		g := normal(1, 700)
		code, err := f.Append(nil, g, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Return(code); err != nil {
			t.Fatal(err)
		}
		if d, length := distance(g, f.Residual()); d > 1e-6*length {
			t.Errorf("%s: the residual is %v of %v away from the gradient", name, d, length)
		}
		f.Reset()
		if f.Norm() != 0 {
			t.Errorf("%s: a residual of length %v after a reset", name, f.Norm())
		}
	}
}

// TestFeedbackRefuses: a vector of another length or with a NaN changes nothing, nor does a residual of that kind.
func TestFeedbackRefuses(t *testing.T) {
	for _, name := range codecs() {
		f := newFeedback(t, name, 100)
		if _, err := f.Append(nil, normal(1, 100), 1); err != nil {
			t.Fatal(err)
		}
		was := slices.Clone(f.Residual())
		bad := normal(2, 100)
		bad[99] = float32(math.NaN())
		for what, err := range map[string]error{
			"a NaN":             second(f.Append(nil, bad, 2)),
			"a frame of a NaN":  second(f.AppendFrame(nil, bad, 2)),
			"99 elements":       second(f.Append(nil, bad[:99], 2)),
			"a source of a NaN": second(f.Source(nil, bad, 2)),
			"a restored NaN":    f.Restore(bad),
			"99 restored":       f.Restore(bad[:99]),
			"an empty code":     f.Return(nil),
		} {
			if !errors.Is(err, compress.ErrNotFinite) && !errors.Is(err, compress.ErrMismatch) && !errors.Is(err, compress.ErrMalformed) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		if !slices.Equal(was, f.Residual()) {
			t.Errorf("%s: the residual changed", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }
