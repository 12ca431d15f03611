package optim_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hcclps/ps/optim"
)

// cases are the rules and parameters that the oracle and the golden digests run.
func cases() []optim.Config {
	return []optim.Config{
		{Name: "sgd"},
		{Name: "sgd", Params: map[string]float64{"lr": 0.3, "weight_decay": 1e-2}},
		{Name: "adagrad"},
		{Name: "adagrad", Params: map[string]float64{"lr": 1, "eps": 1e-6, "initial_accumulator": 0, "weight_decay": 1e-3}},
		{Name: "adam"},
		{Name: "adam", Params: map[string]float64{"lr": 0.1, "beta1": 0, "beta2": 0.5, "eps": 1e-3}},
		{Name: "adam", Params: map[string]float64{"lr": 0.01, "weight_decay": 0.1}},
	}
}

func caseName(c optim.Config) string {
	var b strings.Builder
	b.WriteString(c.Name)
	for _, k := range slices.Sorted(maps.Keys(c.Params)) {
		fmt.Fprintf(&b, " %s=%v", k, c.Params[k])
	}
	return b.String()
}

func mustNew(t testing.TB, c optim.Config) optim.Rule {
	t.Helper()
	r, err := optim.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// gradient draws what training gives: mostly small, now and then large, tiny or zero.
func gradient(rng *rand.Rand) float32 {
	g := float32(rng.IntN(1<<24)-1<<23) / (1 << 23)
	switch rng.IntN(20) {
	case 0:
		return 0
	case 1:
		return g * 1e3
	case 2:
		return g * 1e-6
	}
	return g * 0.1
}

func newRow(rng *rand.Rand, r optim.Rule, dim int) []float32 {
	row := make([]float32, dim*(1+r.Slots()))
	for i := range dim {
		row[i] = float32(rng.IntN(2001)-1000) / 10000
	}
	for s, v := range r.SlotInit() {
		for i := range dim {
			row[dim*(1+s)+i] = v
		}
	}
	return row
}

// oracle is one step of one weight, by the textbook, in float64: state in, state out.
func oracle(c optim.Config, step int, rate float64, state []float64, g float64) []float64 {
	p := c.Params
	w := state[0]
	g += p["weight_decay"] * w
	switch c.Name {
	case "sgd":
		return []float64{w - rate*p["lr"]*g}
	case "adagrad":
		s := state[1] + g*g
		return []float64{w - rate*p["lr"]*g/(math.Sqrt(s)+p["eps"]), s}
	case "adam":
		b1, b2 := p["beta1"], p["beta2"]
		m := b1*state[1] + (1-b1)*g
		v := b2*state[2] + (1-b2)*g*g
		mHat, vHat := m/(1-math.Pow(b1, float64(step))), v/(1-math.Pow(b2, float64(step)))
		return []float64{w - rate*p["lr"]*mHat/(math.Sqrt(vHat)+p["eps"]), m, v}
	}
	return nil
}

// ulp is the distance from |v|, as a float32, to the next.
func ulp(v float64) float64 {
	f := float32(math.Abs(v))
	return float64(math.Nextafter32(f, math.MaxFloat32)) - float64(f)
}

// TestOracle: each of 10,000 steps, begun from the float32 state, is within 2 ulp of the largest of old, new and update.
func TestOracle(t *testing.T) {
	const dim, steps, bound = 8, 10_000, 2.0
	for _, c := range cases() {
		t.Run(caseName(c), func(t *testing.T) {
			r := mustNew(t, c)
			full := r.Config()
			rng := rand.New(rand.NewPCG(7, 11))
			row, grad := newRow(rng, r, dim), make([]float32, dim)
			var state optim.State
			worst := 0.0
			for step := 1; step <= steps; step++ {
				for i := range grad {
					grad[i] = gradient(rng)
				}
				rate := float32(1)
				if step%3 == 0 {
					rate = 0.37
				}
				old := slices.Clone(row)
				r.Advance(&state)
				r.Step(&state, rate).Update(row, grad)
				for i := range dim {
					in := make([]float64, 1+r.Slots())
					for s := range in {
						in[s] = float64(old[s*dim+i])
					}
					want := oracle(full, step, float64(rate), in, float64(grad[i]))
					for s := range want {
						got := float64(row[s*dim+i])
						scale := max(math.Abs(in[s]), math.Abs(want[s]), math.Abs(want[s]-in[s]))
						worst = max(worst, math.Abs(got-want[s])/ulp(scale))
					}
				}
			}
			t.Logf("worst: %.3f ulp", worst)
			if worst > bound {
				t.Errorf("worst error %.3f ulp of the largest of old, new and update, want at most %v", worst, bound)
			}
		})
	}
}

// TestKnownSteps are steps small enough to follow by hand.
func TestKnownSteps(t *testing.T) {
	for _, c := range []struct {
		config optim.Config
		row    []float32
		want   []float32
	}{
		{optim.Config{Name: "sgd", Params: map[string]float64{"lr": 0.5}}, []float32{1}, []float32{0}},
		{optim.Config{Name: "sgd", Params: map[string]float64{"lr": 0.5, "weight_decay": 1}}, []float32{1}, []float32{-0.5}},
		{optim.Config{Name: "adagrad", Params: map[string]float64{"lr": 0.5, "initial_accumulator": 0}}, []float32{1, 12}, []float32{0.75, 16}},
		// the first step of adam is lr, whatever the gradient
		{optim.Config{Name: "adam", Params: map[string]float64{"lr": 0.25}}, []float32{1, 0, 0}, []float32{0.75, 0.2, 0.004}},
	} {
		r := mustNew(t, c.config)
		var s optim.State
		r.Advance(&s)
		row := slices.Clone(c.row)
		r.Step(&s, 1).Update(row, []float32{2})
		for i := range row {
			if math.Abs(float64(row[i]-c.want[i])) > 1e-6 {
				t.Errorf("%s: %v, want %v", caseName(c.config), row, c.want)
				break
			}
		}
	}
}

// TestDescends: every rule with its defaults finds the minimum of a bowl.
func TestDescends(t *testing.T) {
	for _, name := range optim.Names() {
		r := mustNew(t, optim.Config{Name: name})
		row := append([]float32{1, -1}, make([]float32, 2*r.Slots())...)
		var s optim.State
		for range 20_000 {
			r.Advance(&s)
			r.Step(&s, 1).Update(row, []float32{row[0], 10 * row[1]})
		}
		if math.Abs(float64(row[0])) > 0.01 || math.Abs(float64(row[1])) > 0.01 {
			t.Errorf("%s ends at %v", name, row[:2])
		}
	}
}

// TestRate: a rate of one half is half the learning rate, to the bit; a rate of 0 leaves the weights.
func TestRate(t *testing.T) {
	for _, name := range optim.Names() {
		whole := mustNew(t, optim.Config{Name: name, Params: map[string]float64{"lr": 0.125}})
		half := mustNew(t, optim.Config{Name: name, Params: map[string]float64{"lr": 0.0625}})
		rng := rand.New(rand.NewPCG(1, 2))
		a := newRow(rng, whole, 4)
		b, still := slices.Clone(a), slices.Clone(a)
		grad := []float32{1, -2, 3, 0.5}
		var s optim.State
		whole.Advance(&s)
		whole.Step(&s, 0.5).Update(a, grad)
		half.Step(&s, 1).Update(b, grad)
		if !slices.Equal(a, b) {
			t.Errorf("%s: %v, want %v", name, a, b)
		}
		before := slices.Clone(still[:4])
		whole.Step(&s, 0).Update(still, grad)
		if !slices.Equal(still[:4], before) {
			t.Errorf("%s: rate 0 moved the weights", name)
		}
	}
}

// TestOneNaN: whatever is not a number is stored with the same bits.
func TestOneNaN(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, name := range optim.Names() {
		r := mustNew(t, optim.Config{Name: name})
		var s optim.State
		r.Advance(&s)
		row := append([]float32{inf, float32(math.NaN()), 1}, make([]float32, 3*r.Slots())...)
		r.Step(&s, 1).Update(row, []float32{inf, 1, float32(math.NaN())})
		for i, v := range row {
			if v != v && math.Float32bits(v) != 0x7fc00000 {
				t.Errorf("%s: element %d has the bits %#x", name, i, math.Float32bits(v))
			}
		}
		if row[1] == row[1] || row[2] == row[2] {
			t.Errorf("%s: NaN was lost: %v", name, row)
		}
	}
}

// TestAllocates: one Updater a step, nothing a row.
func TestAllocates(t *testing.T) {
	for _, name := range optim.Names() {
		r := mustNew(t, optim.Config{Name: name})
		row, grad := make([]float32, 16*3), make([]float32, 16)
		var s optim.State
		r.Advance(&s)
		u := r.Step(&s, 1)
		if n := testing.AllocsPerRun(100, func() { u.Update(row[:16*(1+r.Slots())], grad) }); n != 0 {
			t.Errorf("%s: %v allocations a row", name, n)
		}
	}
}

func TestConfig(t *testing.T) {
	r := mustNew(t, optim.Config{Name: "adam", Params: map[string]float64{"lr": 0.5}})
	want := map[string]float64{"lr": 0.5, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0}
	got := r.Config()
	if got.Name != "adam" || !maps.Equal(got.Params, want) {
		t.Errorf("config %v, want %v", got, want)
	}
	got.Params["lr"] = 7
	if r.Config().Params["lr"] != 0.5 {
		t.Error("the caller's map is the rule's")
	}
}

func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		config optim.Config
		want   []string
	}{
		{optim.Config{Name: "adagard"}, []string{`"adagard"`, `nearest is "adagrad"`}},
		{optim.Config{}, []string{"nearest is"}},
		{optim.Config{Name: "sgd", Params: map[string]float64{"wieght_decay": 1}}, []string{`"wieght_decay"`, `nearest is "weight_decay"`}},
		{optim.Config{Name: "sgd", Params: map[string]float64{"momentum": 0.9}}, []string{`"momentum"`}},
		{optim.Config{Name: "adam", Params: map[string]float64{"beta1": 1}}, []string{"beta1 = 1", "below 1"}},
		{optim.Config{Name: "adam", Params: map[string]float64{"eps": 0}}, []string{"eps = 0", "above 0"}},
		{optim.Config{Name: "adam", Params: map[string]float64{"lr": math.NaN(), "beta2": -1}}, []string{"lr = NaN", "beta2 = -1"}},
		{optim.Config{Name: "adagrad", Params: map[string]float64{"lr": math.Inf(1)}}, []string{"lr = +Inf"}},
	} {
		_, err := optim.New(c.config)
		if err == nil {
			t.Errorf("%s: accepted", caseName(c.config))
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %q does not say %s", caseName(c.config), err, part)
			}
		}
	}
}

func TestNearest(t *testing.T) {
	valid := []string{"accuracy", "adagrad", "adam", "sgd"}
	for name, want := range map[string]string{
		"adam": "adam", "ADAM": "adam", "adma": "adam", "adagradd": "adagrad", "sg": "sgd", "acuracy": "accuracy", "sdg": "sgd",
	} {
		if got := optim.Nearest(name, valid); got != want {
			t.Errorf("nearest of %q is %q, want %q", name, got, want)
		}
	}
	if got := optim.Nearest("x", nil); got != "" {
		t.Errorf("nearest of nothing is %q", got)
	}
}
