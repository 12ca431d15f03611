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
		{Name: "momentum"},
		{Name: "momentum", Params: map[string]float64{"lr": 0.1, "momentum": 0.5, "weight_decay": 1e-2}},
		{Name: "nesterov"},
		{Name: "nesterov", Params: map[string]float64{"lr": 0.1, "momentum": 0.5, "weight_decay": 1e-2}},
		{Name: "rowwise_adagrad"},
		{Name: "rowwise_adagrad", Params: map[string]float64{"lr": 1, "eps": 1e-6, "initial_accumulator": 0, "weight_decay": 1e-3}},
		{Name: "rmsprop"},
		{Name: "rmsprop", Params: map[string]float64{"lr": 0.1, "alpha": 0.5, "eps": 1e-4, "weight_decay": 1e-2}},
		{Name: "lazy_adam"},
		{Name: "lazy_adam", Params: map[string]float64{"lr": 0.1, "beta1": 0, "beta2": 0.5, "eps": 1e-3, "weight_decay": 0.1}},
		{Name: "adamw"},
		{Name: "adamw", Params: map[string]float64{"lr": 0.1, "beta1": 0.5, "beta2": 0.9, "weight_decay": 0.5}},
		{Name: "amsgrad"},
		{Name: "amsgrad", Params: map[string]float64{"lr": 0.01, "beta1": 0.8, "beta2": 0.9, "weight_decay": 0.1}},
		{Name: "ftrl"},
		{Name: "ftrl", Params: map[string]float64{"lr": 0.5, "beta": 0.1, "l1": 0.5, "l2": 2, "initial_accumulator": 0.1}},
		{Name: "lamb"},
		{Name: "lamb", Params: map[string]float64{"lr": 0.1, "beta1": 0.5, "beta2": 0.9, "weight_decay": 0.3}},
		{Name: "onebit_adam", Params: map[string]float64{"freeze_step": 500}}, // after which the oracle's gradients are momenta
		{Name: "onebit_adam", Params: map[string]float64{"lr": 0.1, "beta1": 0.5, "beta2": 0.9, "eps": 1e-3, "weight_decay": 0.1, "freeze_step": 1, "floor": 0.5}},
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
	row := make([]float32, 0, dim+r.Slots(dim))
	for range dim {
		row = append(row, float32(rng.IntN(2001)-1000)/10000)
	}
	return append(row, r.SlotInit(dim)...)
}

// ulp is the distance from |v|, as a float32, to the next.
func ulp(v float64) float64 {
	f := float32(math.Abs(v))
	return float64(math.Nextafter32(f, math.MaxFloat32)) - float64(f)
}

// TestOracle: each of 10,000 steps, begun from the float32 state, is within 2 ulp (ftrl and lamb: 4) of the largest of old, new and update.
func TestOracle(t *testing.T) {
	const dim, steps = 11, 10_000
	for _, c := range cases() {
		t.Run(caseName(c), func(t *testing.T) {
			r := mustNew(t, c)
			full := r.Config()
			bound := 2.0
			if c.Name == "ftrl" || c.Name == "lamb" {
				bound = 4
			}
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
				old, want := widened(row), widened(row)
				r.Advance(&state)
				r.Step(&state, rate).Update(row, grad)
				oracle(full, step, float64(rate), want, widened(grad))
				for i := range row {
					scale := max(math.Abs(old[i]), math.Abs(want[i]), math.Abs(want[i]-old[i]))
					worst = max(worst, math.Abs(float64(row[i])-want[i])/ulp(scale))
				}
			}
			t.Logf("worst: %.3f ulp", worst)
			if !(worst <= bound) {
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
		{optim.Config{Name: "amsgrad", Params: map[string]float64{"lr": 0.25}}, []float32{1, 0, 0, 0}, []float32{0.75, 0.2, 0.004, 0.004}},
		{optim.Config{Name: "amsgrad", Params: map[string]float64{"lr": 0.25}}, []float32{1, 0, 0, 0.016}, []float32{0.875, 0.2, 0.004, 0.016}},
		// the row's own count of steps: the same first step, and the second
		{optim.Config{Name: "lazy_adam", Params: map[string]float64{"lr": 0.25}}, []float32{1, 0, 0, 0}, []float32{0.75, 0.2, 0.004, 1}},
		{optim.Config{Name: "lazy_adam", Params: map[string]float64{"lr": 0.25}}, []float32{1, 0.2, 0.004, 1}, []float32{0.75, 0.38, 0.007996, 2}},
		{optim.Config{Name: "adamw", Params: map[string]float64{"lr": 0.25, "weight_decay": 2}}, []float32{1, 0, 0}, []float32{0.25, 0.2, 0.004}},
		{optim.Config{Name: "momentum", Params: map[string]float64{"lr": 0.125, "momentum": 0.5}}, []float32{1, 4}, []float32{0.5, 4}},
		{optim.Config{Name: "nesterov", Params: map[string]float64{"lr": 0.125, "momentum": 0.5}}, []float32{1, 4}, []float32{0.5, 4}},
		{optim.Config{Name: "nesterov", Params: map[string]float64{"lr": 0.125, "momentum": 0.5}}, []float32{1, 0}, []float32{0.625, 2}},
		{optim.Config{Name: "rowwise_adagrad", Params: map[string]float64{"lr": 0.5, "initial_accumulator": 0}}, []float32{1, 12}, []float32{0.75, 16}},
		{optim.Config{Name: "rmsprop", Params: map[string]float64{"lr": 0.5, "alpha": 0.5}}, []float32{1, 28}, []float32{0.75, 16}},
		// z = 2 - (2 - 0) x 1, n = 4, w = 0; then with z = 3 w = -(3 - 1) / (1 + 2 + 1)
		{optim.Config{Name: "ftrl", Params: map[string]float64{"lr": 1}}, []float32{1, 0, 0}, []float32{0, 0, 4}},
		{optim.Config{Name: "ftrl", Params: map[string]float64{"lr": 1, "l1": 1, "l2": 1}}, []float32{0, 1, 0}, []float32{-0.5, 3, 4}},
		{optim.Config{Name: "ftrl", Params: map[string]float64{"lr": 1, "l1": 3}}, []float32{0, 1, 0}, []float32{0, 3, 4}},
		// the step is lr times the norm of the row, that of a row of zeros lr
		{optim.Config{Name: "lamb", Params: map[string]float64{"lr": 0.25, "weight_decay": 0}}, []float32{8, 0, 0}, []float32{6, 0.2, 0.004}},
		{optim.Config{Name: "lamb", Params: map[string]float64{"lr": 0.25}}, []float32{0, 0, 0}, []float32{-0.25, 0.2, 0.004}},
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
		row := append([]float32{1, -1}, r.SlotInit(2)...)
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
		if name == "ftrl" {
			continue // its lr is a part of the state's meaning; see TestScheduleOfFTRL
		}
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

// TestScheduleOfFTRL: rate weighs the gradient in z, and a rate of 0 leaves the whole row.
func TestScheduleOfFTRL(t *testing.T) {
	r := mustNew(t, optim.Config{Name: "ftrl", Params: map[string]float64{"lr": 1}})
	var s optim.State
	r.Advance(&s)
	row := []float32{0, 1, 0}
	r.Step(&s, 0).Update(row, []float32{2})
	if want := []float32{0, 1, 0}; !slices.Equal(row, want) {
		t.Errorf("rate 0: %v, want %v", row, want)
	}
	r.Step(&s, 0.5).Update(row, []float32{2})
	if want := []float32{-2.0 / 3, 2, 4}; !slices.Equal(row, want) {
		t.Errorf("rate 0.5: %v, want %v", row, want)
	}
}

// TestLazyAdamAgrees: on a row pushed at every step lazy_adam is adam, and its count stays where float32 ends to count, whatever a row came with.
func TestLazyAdamAgrees(t *testing.T) {
	params := map[string]float64{"lr": 0.01, "weight_decay": 0.01}
	eager, lazy := mustNew(t, optim.Config{Name: "adam", Params: params}), mustNew(t, optim.Config{Name: "lazy_adam", Params: params})
	rng := rand.New(rand.NewPCG(3, 4))
	a := newRow(rng, eager, 4)
	b := append(slices.Clone(a), 0)
	var s optim.State
	for range 500 {
		grad := []float32{gradient(rng), gradient(rng), gradient(rng), gradient(rng)}
		eager.Advance(&s)
		eager.Step(&s, 1).Update(a, grad)
		lazy.Step(&s, 1).Update(b, grad)
	}
	for i := range a {
		if math.Abs(float64(a[i]-b[i])) > 1e-6 {
			t.Errorf("adam %v, lazy_adam %v", a, b)
			break
		}
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for count, want := range map[float32]float32{500: 501, 1<<24 - 1: 1 << 24, 1 << 24: 1 << 24, inf: 1 << 24, -3: 1, nan: 1} {
		row := []float32{1, 0, 0, count}
		lazy.Step(&s, 1).Update(row, []float32{1})
		if row[3] != want || row[0] != row[0] {
			t.Errorf("count %v: %v, want the count %v", count, row, want)
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
		row := append([]float32{inf, float32(math.NaN()), 1}, make([]float32, r.Slots(3))...)
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
		row, grad := make([]float32, 16+r.Slots(16)), make([]float32, 16)
		var s optim.State
		r.Advance(&s)
		u := r.Step(&s, 1)
		if n := testing.AllocsPerRun(100, func() { u.Update(row, grad) }); n != 0 {
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
		{optim.Config{Name: "rowwise_adagrid"}, []string{`nearest is "rowwise_adagrad"`}},
		{optim.Config{Name: "lazyadam"}, []string{`nearest is "lazy_adam"`}},
		{optim.Config{Name: "ftrl", Params: map[string]float64{"lr": 0, "weight_decay": 1}}, []string{"lr = 0: give above 0", `unknown parameter "weight_decay"`}},
		{optim.Config{Name: "ftrl", Params: map[string]float64{"l3": 1}}, []string{`"l3"`, `nearest is "l1"`}},
		{optim.Config{Name: "rmsprop", Params: map[string]float64{"alpha": 1}}, []string{"alpha = 1", "below 1"}},
		{optim.Config{Name: "nesterov", Params: map[string]float64{"momentum": -0.1}}, []string{"momentum = -0.1", "at least 0"}},
		{optim.Config{Name: "onebitadam"}, []string{`nearest is "onebit_adam"`}},
		{optim.Config{Name: "onebit_adam", Params: map[string]float64{"freeze_steps": 5}}, []string{`nearest is "freeze_step"`}},
		{optim.Config{Name: "onebit_adam", Params: map[string]float64{"freeze_step": 1.5, "floor": 2}}, []string{"freeze_step = 1.5: give a whole number, at least 1", "floor = 2"}},
		{optim.Config{Name: "onebit_adam", Params: map[string]float64{"freeze_step": 0}}, []string{"freeze_step = 0"}},
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
	for name, want := range map[string]string{"adma": "adam", "acurcy": "accuracy", "quiet": "", "sgdmom": "", "acuracyy": "accuracy"} {
		if got := optim.Close(name, valid); got != want {
			t.Errorf("close to %q is %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{"adma": "adam", "sg": "sgd", "x": "", "foo": "", "": "", "momentum": ""} {
		if got := optim.Near(name, valid); got != want {
			t.Errorf("near %q is %q, want %q", name, got, want)
		}
	}
}
