package optim_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hcclps/ps/optim"
)

func momentumRule(t *testing.T, params map[string]float64) optim.MomentumRule {
	t.Helper()
	r, ok := mustNew(t, optim.Config{Name: optim.OneBitAdam, Params: params}).(optim.MomentumRule)
	if !ok {
		t.Fatal("it wants no momenta")
	}
	return r
}

// TestOneBitAdamWarmsUpAsAdam: up to freeze_step weights and moments have the bits of adam.
func TestOneBitAdamWarmsUpAsAdam(t *testing.T) {
	const dim, steps = 9, 40
	params := map[string]float64{"lr": 0.02, "weight_decay": 0.01, "beta1": 0.8}
	adam := mustNew(t, optim.Config{Name: "adam", Params: params})
	params["freeze_step"] = steps
	r := momentumRule(t, params)
	rng := rand.New(rand.NewPCG(5, 6))
	a := newRow(rng, adam, dim)
	b := append(slices.Clone(a), 0)
	var s, own optim.State
	grad := make([]float32, dim)
	for step := range steps {
		if !r.Warm(&own) {
			t.Fatalf("step %d of %d is not of the warm-up", step, steps)
		}
		for i := range grad {
			grad[i] = gradient(rng)
		}
		adam.Advance(&s)
		adam.Step(&s, 1).Update(a, grad)
		r.Advance(&own)
		r.Step(&own, 1).Update(b, grad)
		if !slices.Equal(a, b[:3*dim]) || s != own {
			t.Fatalf("step %d: %v, %+v, want %v, %+v", step, b, own, a, s)
		}
	}
	if r.Warm(&own) {
		t.Error("the warm-up does not end")
	}
}

// TestOneBitAdamByMomenta: with momenta of several workers that no code has changed, it is adam whose second moment stands still.
func TestOneBitAdamByMomenta(t *testing.T) {
	const dim, steps, freeze = 7, 60, 20
	c := optim.Config{Name: optim.OneBitAdam, Params: map[string]float64{"lr": 0.01, "weight_decay": 0.1, "freeze_step": freeze, "floor": 0.2}}
	r := momentumRule(t, c.Params)
	p := r.Config().Params
	rng := rand.New(rand.NewPCG(8, 9))
	row := newRow(rng, r, dim)
	want := widened(row)
	shares := []float64{0.5, 0.125, 0.375} // of 8 rows
	var s optim.State
	for step := 1; step <= steps; step++ {
		sum, given := make([]float64, dim), make([]float32, dim)
		warm := r.Warm(&s)
		for _, share := range shares {
			own := make([]float32, dim)
			for i := range own {
				own[i] = gradient(rng)
				sum[i] += float64(own[i]) / 8
			}
			if !warm {
				r.Momentum(row, own, share, 1.0/8)
			}
			for i, v := range own {
				given[i] += v
			}
		}
		for i := range sum {
			if warm {
				given[i] = float32(sum[i])
			} else { // the oracle is given momenta too
				sum[i] = p["beta1"]*want[dim+i] + (1-p["beta1"])*(sum[i]+p["weight_decay"]*want[i])
			}
		}
		r.Advance(&s)
		r.Step(&s, 1).Update(row, given)
		oracle(r.Config(), step, 1, want, sum)
		for i := range row {
			if math.Abs(float64(row[i])-want[i]) > 1e-5*max(1, math.Abs(want[i])) {
				t.Fatalf("step %d: float %d of the row is %v, want %v", step, i, row[i], want[i])
			}
		}
	}
}

// TestMomentumOfAShortRow: a gradient may be that of the first weights of a row.
func TestMomentumOfAShortRow(t *testing.T) {
	r := momentumRule(t, map[string]float64{"beta1": 0.5, "weight_decay": 1})
	grad := []float32{8, 16}
	r.Momentum([]float32{1, 2, 3, 10, 20, 30, 0, 0, 0, 0}, grad, 0.5, 0.25)
	if want := []float32{0.5*0.5*10 + 0.5*0.5*1 + 0.25*0.5*8, 0.5*0.5*20 + 0.5*0.5*2 + 0.25*0.5*16}; !slices.Equal(grad, want) {
		t.Errorf("%v, want %v", grad, want)
	}
}

// TestFloorOfFrozenMoments: moments that never saw a gradient are lifted once, and a row without any stays as it is.
func TestFloorOfFrozenMoments(t *testing.T) {
	r := momentumRule(t, map[string]float64{"freeze_step": 1, "floor": 0.25, "lr": 0})
	s := optim.State{Steps: 1, Pow: [2]float64{0.9, 0.999}}
	r.Advance(&s)
	u := r.Step(&s, 1)
	row := []float32{0, 0, 0, 0, 0, 0, 4, 2, 0, 0}
	u.Update(row, make([]float32, 3))
	if want := []float32{4, 2, 0.75, 1}; !slices.Equal(row[6:], want) {
		t.Errorf("%v, want %v", row[6:], want)
	}
	u.Update(row, make([]float32, 3))
	if want := []float32{4, 2, 0.75, 1}; !slices.Equal(row[6:], want) {
		t.Errorf("a step later: %v, want %v", row[6:], want)
	}
	still := make([]float32, 10)
	u.Update(still, make([]float32, 3))
	if !slices.Equal(still[:9], make([]float32, 9)) {
		t.Errorf("nothing at all: %v", still)
	}
}
