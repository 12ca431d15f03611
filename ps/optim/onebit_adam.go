package optim

// OneBitAdam is the name of 1-bit Adam.
const OneBitAdam = "onebit_adam"

// MomentumRule is a rule that after its warm-up is given momenta in the place of gradients: whoever brings gradients
// together makes momenta of them, which may be coded with few bits, since the rule takes no squares of them.
type MomentumRule interface {
	Rule
	// Warm says whether the step after s is of a gradient still.
	Warm(s *State) bool
	// Momentum makes of a gradient a part of the momentum of a step: grad becomes
	//
	//	share * (beta1 * m + (1 - beta1) * weight_decay * w) + scale * (1 - beta1) * grad
	//
	// with w and m of the row, which stays; grad may be shorter than a row. Parts whose shares are 1 in all add up to
	// the momentum of their scaled gradients' sum.
	Momentum(row, grad []float32, share, scale float64)
}

// oneBitAdam is Tang et al. (ICML 2021, algorithm 1) with the bias corrections of adam, in names of DeepSpeed's
// OnebitAdam. The first freeze_step steps are those of adam, to the bit; then v stands still, and grad is the mean of
// what workers have made by Momentum:
//
//	v = max(v, floor * mean of the row's v above 0), once
//	m = grad
//	w = w - (lr / (1 - beta1^t)) * m / (sqrt(v) * (1 / sqrt(1 - beta2^freeze_step)) + eps)
//
// A code of few bits moves all elements of a row by one size, also those whose gradient was always near zero, and the
// root of a v near zero would throw these far off: hence the floor. The paper leaves such elements out by a mask that
// its user makes. 0.1 has lost less AUC than 0.01 where the warm-up was short (coupon: 0.005 in the mean of five, and
// 0.008). The row of a dense tensor is a block of 1,024 elements, as the scales of onebit are.
type oneBitAdam struct {
	moments
	freeze uint64
	floor  float64
}

func newOneBitAdam(base config, p map[string]float64) Rule {
	return oneBitAdam{newMoments(base, p), uint64(p["freeze_step"]), p["floor"]}
}

// Slots are both moments, and one float32 a row that is 1 when v stands.
func (oneBitAdam) Slots(dim int) int          { return 2*dim + 1 }
func (oneBitAdam) SlotInit(dim int) []float32 { return make([]float32, 2*dim+1) }

// Advance keeps the power of beta2 as it was when v was frozen.
func (r oneBitAdam) Advance(s *State) {
	second, warm := s.Pow[1], r.Warm(s)
	if r.moments.Advance(s); !warm {
		s.Pow[1] = second
	}
}

// Warm implements MomentumRule.
func (r oneBitAdam) Warm(s *State) bool { return s.Steps < r.freeze }

func (r oneBitAdam) Step(s *State, rate float32) Updater {
	k := r.corrected(s, r.lr*float64(rate))
	if s.Steps <= r.freeze {
		k.Decay = r.decay
		return &adamStep{k}
	}
	k.Beta1, k.Rest1, k.Beta2, k.Rest2 = 0, 1, 1, 0
	return &frozenStep{adamStep{k}, r.floor}
}

// frozenStep is a step of momentum.
type frozenStep struct {
	adamStep
	floor float64
}

func (u *frozenStep) Update(row, grad []float32) {
	n := len(grad)
	if row[3*n] != 1 {
		row[3*n] = 1
		lift(row[2*n:3*n], u.floor)
	}
	u.adamStep.Update(row, grad)
}

// lift raises v to the floor.
func lift(v []float32, floor float64) {
	sum, count := 0.0, 0
	for _, x := range v {
		if x > 0 {
			sum += float64(x)
			count++
		}
	}
	least := rounded(floor * (sum / float64(max(count, 1))))
	for i, x := range v {
		if x < least {
			v[i] = least
		}
	}
}

// Momentum implements MomentumRule.
func (r oneBitAdam) Momentum(row, grad []float32, share, scale float64) {
	dim := (len(row) - 1) / 3
	w, m := row[:len(grad)], row[dim:][:len(grad)]
	keep, shrink, gain := float64(share*r.beta1), float64(share*float64((1-r.beta1)*r.decay)), float64(scale*(1-r.beta1))
	for i, g := range grad {
		before := float64(keep*float64(m[i])) + float64(shrink*float64(w[i]))
		grad[i] = rounded(before + float64(gain*float64(g)))
	}
}
