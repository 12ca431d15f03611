package compress

import (
	"errors"
	"fmt"
	"math"

	"hcclps/internal/vec"
)

// OneBitAdamConfig says how 1-bit Adam goes. Zero fields mean the values named.
type OneBitAdamConfig struct {
	LR           float64 // 0.001
	Beta1, Beta2 float64 // 0.9, 0.999
	Eps          float64 // 1e-8
	// Warmup is the number of steps of Adam with whole gradients; there must be one at least.
	Warmup int
	// Floor is the least second moment, as a share of their mean, after the warm-up, 0.01. Signs move every element by the same size, also one whose gradient was always near zero, and
	// that divided by a moment near zero would throw the element far off.
	Floor float64
	// Codec is that of the momentum, onebit.
	Codec Codec
}

func (c *OneBitAdamConfig) fill() error {
	set := func(v *float64, otherwise float64) {
		if *v == 0 {
			*v = otherwise
		}
	}
	set(&c.LR, 0.001)
	set(&c.Beta1, 0.9)
	set(&c.Beta2, 0.999)
	set(&c.Eps, 1e-8)
	set(&c.Floor, 0.01)
	if c.Codec == nil {
		c.Codec = build("onebit", 0)
	}
	var faults []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	bad(!(c.LR > 0) || math.IsInf(c.LR, 0), "learning rate %v, want above 0", c.LR)
	bad(!(c.Beta1 > 0 && c.Beta1 < 1), "beta1 %v, want between 0 and 1", c.Beta1)
	bad(!(c.Beta2 > 0 && c.Beta2 < 1), "beta2 %v, want between 0 and 1", c.Beta2)
	bad(!(c.Eps > 0) || math.IsInf(c.Eps, 0), "eps %v, want above 0", c.Eps)
	bad(!(c.Floor > 0 && c.Floor <= 1), "floor %v, want above 0 and up to 1", c.Floor)
	bad(c.Warmup < 1, "warm-up of %d steps, want one at least", c.Warmup)
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("configure 1-bit adam: %w", err)
	}
	return nil
}

// OneBitAdam is the worker's part of 1-bit Adam for one tensor (Tang et al. 2021): Adam with whole gradients for some steps; then the second moment stands still, each worker sends
// its momentum compressed, and all apply the compressed mean that comes back, for which see Mean. So all workers have the same weights, to the bit. One goroutine uses it at a time.
//
// In the warm-up a step is Whole with the mean gradient; after it Append with the worker's own gradient and Apply with what the mean decodes to.
type OneBitAdam struct {
	cfg   OneBitAdamConfig
	step  int
	m, v  []float32
	own   []float32 // momentum with the worker's gradient
	local *Feedback
}

// NewOneBitAdam makes one for a tensor, with moments of zero.
func NewOneBitAdam(cfg OneBitAdamConfig, shape ...int) (*OneBitAdam, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	local, err := NewFeedback(cfg.Codec, shape...)
	if err != nil {
		return nil, err
	}
	n := elements(shape)
	return &OneBitAdam{cfg: cfg, m: make([]float32, n), v: make([]float32, n), own: make([]float32, n), local: local}, nil
}

// Warm says whether the next step is one with whole gradients.
func (a *OneBitAdam) Warm() bool { return a.step < a.cfg.Warmup }

// Whole is a step of the warm-up: w moves by the mean gradient.
func (a *OneBitAdam) Whole(w, gradient []float32) error {
	if err := a.fits(true, w, gradient); err != nil {
		return err
	}
	a.step++
	p := a.rule()
	p.Update(w, a.m, a.v, gradient)
	if !a.Warm() {
		a.freeze()
	}
	return nil
}

// Append appends the code of the momentum with the worker's gradient. Weights and moments do not change before Apply.
func (a *OneBitAdam) Append(dst []byte, gradient []float32, seed uint64) ([]byte, error) {
	if err := a.fits(false, gradient); err != nil {
		return dst, err
	}
	copy(a.own, a.m)
	vec.Scale(a.own, float32(a.cfg.Beta1))
	vec.Axpy(a.own, float32(1-a.cfg.Beta1), gradient)
	return a.local.Append(dst, a.own, seed)
}

// Apply is a step after the warm-up: momentum, the decoded mean of all workers', becomes the first moment, and w moves by it.
func (a *OneBitAdam) Apply(w, momentum []float32) error {
	if err := a.fits(false, w, momentum); err != nil {
		return err
	}
	a.step++
	copy(a.m, momentum)
	p := a.rule()
	p.Beta1, p.Rest1, p.Beta2, p.Rest2 = 1, 0, 1, 0 // moments stay
	p.Update(w, a.m, a.v, momentum)
	return nil
}

// fits wants the right part of the algorithm and vectors of the tensor.
func (a *OneBitAdam) fits(warm bool, vectors ...[]float32) error {
	if warm != a.Warm() {
		return fmt.Errorf("1-bit adam: step %d of a warm-up of %d: %w", a.step+1, a.cfg.Warmup, ErrMismatch)
	}
	for _, x := range vectors {
		if len(x) != len(a.m) {
			return fmt.Errorf("1-bit adam: %d elements, want %d: %w", len(x), len(a.m), ErrMismatch)
		}
	}
	return nil
}

// rule has the coefficients of the present step: both moments are corrected for having begun at zero, the second as it was when the warm-up ended.
func (a *OneBitAdam) rule() vec.Adam {
	c := a.cfg
	return vec.Adam{
		Size: c.LR / (1 - power(c.Beta1, a.step)), Corr: 1 / math.Sqrt(1-power(c.Beta2, min(a.step, c.Warmup))), Eps: c.Eps,
		Beta1: c.Beta1, Rest1: 1 - c.Beta1, Beta2: c.Beta2, Rest2: 1 - c.Beta2, Keep: 1,
	}
}

// power is b^n by squaring, with the same bits on every machine.
func power(b float64, n int) float64 {
	p := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			p = float64(p * b) // not fused with what follows
		}
		b = float64(b * b)
	}
	return p
}

// freeze lifts second moments to the floor.
func (a *OneBitAdam) freeze() {
	sum := 0.0
	for _, v := range a.v {
		sum += float64(v)
	}
	least := float32(a.cfg.Floor * sum / float64(max(len(a.v), 1)))
	for i, v := range a.v {
		a.v[i] = max(v, least)
	}
}

// OneBitAdamState is what goes on where it was: what a checkpoint keeps.
type OneBitAdamState struct {
	Step     int
	M, V     []float32 // the moments, the same on all workers
	Residual []float32 // the worker's own
}

// State shares its memory with a, until the next step.
func (a *OneBitAdam) State() OneBitAdamState {
	return OneBitAdamState{a.step, a.m, a.v, a.local.Residual()}
}

// Restore makes the state what State returned; without a Residual, which a worker that is new does not have, it is zero.
func (a *OneBitAdam) Restore(s OneBitAdamState) error {
	if s.Step < 0 || len(s.M) != len(a.m) || len(s.V) != len(a.v) {
		return fmt.Errorf("restore 1-bit adam: step %d, moments of %d and %d elements, want %d: %w", s.Step, len(s.M), len(s.V), len(a.m), ErrMismatch)
	}
	if s.Residual == nil {
		a.local.Reset()
	} else if err := a.local.Restore(s.Residual); err != nil {
		return fmt.Errorf("restore 1-bit adam: %w", err)
	}
	a.step = s.Step
	copy(a.m, s.M)
	copy(a.v, s.V)
	return nil
}
