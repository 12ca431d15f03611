package compress_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hcclps/compress"
)

// fleet trains a linear model on four workers, all with whole gradients in the warm-up, and then with codes in both directions.
type fleet struct {
	t       *testing.T
	codec   compress.Codec
	server  *compress.Mean
	workers []*compress.OneBitAdam
	weights [][]float32
	truth   []float32
}

const fleetDim = 200

func newFleet(t *testing.T, codec string, warmup int) *fleet {
	t.Helper()
	f := &fleet{t: t, codec: parse(t, codec), truth: make([]float32, fleetDim)}
	for i := range f.truth {
		f.truth[i] = float32(i%13)/6 - 1
	}
	var err error
	if f.server, err = compress.NewMean(f.codec, fleetDim); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		a, err := compress.NewOneBitAdam(compress.OneBitAdamConfig{LR: 0.01, Warmup: warmup, Codec: f.codec}, fleetDim)
		if err != nil {
			t.Fatal(err)
		}
		f.workers = append(f.workers, a)
		f.weights = append(f.weights, make([]float32, fleetDim))
	}
	return f
}

// gradient is that of half the squared error over 32 rows, and the error. The last elements have no data.
func (f *fleet) gradient(step, worker int) (g []float32, loss float64) {
	rng := rand.New(rand.NewPCG(uint64(step), uint64(worker)))
	g = make([]float32, fleetDim)
	const rows = 32
	for range rows {
		x := make([]float32, fleetDim)
		off := 0.0
		for i := range x[:fleetDim-5] {
			x[i] = float32(rng.NormFloat64())
			off += float64(x[i]) * float64(f.weights[worker][i]-f.truth[i])
		}
		loss += off * off / 2 / rows
		for i := range g {
			g[i] += float32(off * float64(x[i]) / rows)
		}
	}
	return g, loss
}

func (f *fleet) step(step int) (loss float64) {
	f.t.Helper()
	if f.workers[0].Warm() {
		sum := make([]float32, fleetDim)
		for i := range f.workers {
			g, l := f.gradient(step, i)
			loss += l / 4
			for j := range g {
				sum[j] += g[j] / 4
			}
		}
		for i, a := range f.workers {
			if err := a.Whole(f.weights[i], sum); err != nil {
				f.t.Fatal(err)
			}
		}
		return loss
	}
	for i, a := range f.workers {
		g, l := f.gradient(step, i)
		loss += l / 4
		code, err := a.Append(nil, g, uint64(step))
		if err = errors.Join(err, f.server.Add(f.codec, code)); err != nil {
			f.t.Fatal(err)
		}
	}
	back, err := f.server.Close(nil, uint64(step))
	if err != nil {
		f.t.Fatal(err)
	}
	for i, a := range f.workers {
		m := make([]float32, fleetDim)
		if err := errors.Join(f.codec.Decode(m, back, compress.Set), a.Apply(f.weights[i], m)); err != nil {
			f.t.Fatal(err)
		}
	}
	return loss
}

// TestOneBitAdamConverges about as Adam does, the whole of it being a warm-up, with the same bits on all workers.
func TestOneBitAdamConverges(t *testing.T) {
	const steps = 1000
	final := func(f *fleet) float64 {
		sum := 0.0
		for step := range steps {
			if loss := f.step(step); step >= steps-100 {
				sum += loss / 100
			}
		}
		for _, w := range f.weights[1:] {
			if !slices.Equal(w, f.weights[0]) {
				t.Fatal("workers have other weights")
			}
		}
		return sum
	}
	first := newFleet(t, "none", steps).step(0)
	adam, bits := final(newFleet(t, "none", steps)), final(newFleet(t, "onebit", 100))
	t.Logf("loss %.4g at first, %.4g with Adam, %.4g with one bit", first, adam, bits)
	if bits > adam+first/2000 {
		t.Errorf("loss %.4g at first, %.4g with Adam, %.4g with one bit", first, adam, bits)
	}
}

// TestOneBitAdamExactCodec: with a codec that keeps all, it is Adam whose second moment stands still.
func TestOneBitAdamExactCodec(t *testing.T) {
	const warmup, steps = 20, 40
	f := newFleet(t, "none", warmup)
	w, m, v := make([]float64, fleetDim), make([]float64, fleetDim), make([]float64, fleetDim)
	for step := range steps {
		g := make([]float64, fleetDim)
		for i := range f.workers {
			part, _ := f.gradient(step, i)
			for j := range g {
				g[j] += float64(part[j]) / 4
			}
		}
		f.step(step)
		mean := 0.0
		for j := range g {
			m[j] = 0.9*m[j] + 0.1*g[j]
			if step < warmup {
				v[j] = 0.999*v[j] + 0.001*g[j]*g[j]
			}
			mean += v[j] / fleetDim
			first := m[j] / (1 - math.Pow(0.9, float64(step+1)))
			second := v[j] / (1 - math.Pow(0.999, float64(min(step+1, warmup))))
			w[j] -= 0.01 * first / (math.Sqrt(second) + 1e-8)
		}
		if step == warmup-1 {
			for j := range v {
				v[j] = max(v[j], 0.01*mean)
			}
		}
		for j := range w {
			if math.Abs(w[j]-float64(f.weights[0][j])) > 1e-4 {
				t.Fatalf("step %d: weight %d is %v, want %v", step, j, f.weights[0][j], w[j])
			}
		}
	}
}

// TestOneBitAdamRestored goes on as if it had not stopped, in the warm-up and after it.
func TestOneBitAdamRestored(t *testing.T) {
	one, two := newFleet(t, "onebit", 10), newFleet(t, "onebit", 10)
	for step := range 30 {
		one.step(step)
		if step == 5 || step == 20 {
			fresh := newFleet(t, "onebit", 10)
			for i, a := range two.workers {
				s := a.State()
				s.M, s.V, s.Residual = slices.Clone(s.M), slices.Clone(s.V), slices.Clone(s.Residual)
				if err := fresh.workers[i].Restore(s); err != nil {
					t.Fatal(err)
				}
			}
			if err := fresh.server.Feedback().Restore(two.server.Feedback().Residual()); err != nil {
				t.Fatal(err)
			}
			fresh.weights = two.weights
			two = fresh
		}
		two.step(step)
		if !slices.Equal(one.weights[0], two.weights[0]) {
			t.Fatalf("step %d: other weights", step)
		}
	}
}

func TestOneBitAdamRefuses(t *testing.T) {
	for what, cfg := range map[string]compress.OneBitAdamConfig{
		"no warm-up": {}, "beta1": {Warmup: 1, Beta1: 1}, "beta2": {Warmup: 1, Beta2: -1}, "eps": {Warmup: 1, Eps: math.Inf(1)}, "rate": {Warmup: 1, LR: math.NaN()},
		"floor": {Warmup: 1, Floor: 2},
	} {
		if _, err := compress.NewOneBitAdam(cfg, 3); err == nil {
			t.Errorf("accepted %s", what)
		}
	}
	a, err := compress.NewOneBitAdam(compress.OneBitAdamConfig{Warmup: 1}, 3)
	if err != nil {
		t.Fatal(err)
	}
	w, g := make([]float32, 3), []float32{1, 2, 3}
	early := errors.Join(second(a.Append(nil, g, 0)), a.Apply(w, g))
	short := a.Whole(w, g[:2])
	if err := a.Whole(w, g); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"codes in the warm-up": early, "two of three": short, "whole gradients after it": a.Whole(w, g), "a short momentum": a.Apply(w, g[:2]),
		"moments of others": a.Restore(compress.OneBitAdamState{M: g[:2], V: g}), "a residual of others": a.Restore(compress.OneBitAdamState{M: g, V: g, Residual: g[:1]}),
	} {
		if !errors.Is(err, compress.ErrMismatch) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

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
