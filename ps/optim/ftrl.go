package optim

import (
	"slices"

	"hcclps/internal/vec"
)

// ftrl is FTRL-Proximal, McMahan et al. (KDD 2013, algorithm 1), with the accumulator n begun at initial_accumulator:
//
//	z = z + rate * g - ((sqrt(n + g * g) - sqrt(n)) * (1 / lr)) * w
//	n = n + g * g
//	w = 0 if |z| <= l1, else -(z - sign(z) * l1) / ((beta + sqrt(n)) * (1 / lr) + l2)
//
// w is a function of z and n, so what a row began with is forgotten at its first update: begin with zeros. rate is the schedule's (1 without one) and
// weighs the gradient alone, so that the thresholds stay and a rate of 0 leaves the row as it is; lr above is the parameter.
type ftrl struct {
	config
	counted
	lr, beta, l1, l2, first float64
}

func newFTRL(base config, p map[string]float64) Rule {
	return ftrl{config: base, lr: p["lr"], beta: p["beta"], l1: p["l1"], l2: p["l2"], first: p["initial_accumulator"]}
}

func (ftrl) Slots(dim int) int { return 2 * dim }

func (r ftrl) SlotInit(dim int) []float32 {
	return slices.Concat(make([]float32, dim), slices.Repeat([]float32{float32(r.first)}, dim))
}

func (r ftrl) Step(_ *State, rate float32) Updater {
	if rate == 0 {
		return &ftrlStep{resting: true}
	}
	return &ftrlStep{rule: vec.FTRL{Rate: float64(rate), Inv: 1 / r.lr, Beta: r.beta, L1: r.l1, L2: r.l2}}
}

type ftrlStep struct {
	rule    vec.FTRL
	resting bool
}

func (u *ftrlStep) Update(row, grad []float32) {
	if u.resting {
		return
	}
	n := len(grad)
	u.rule.Update(row, row[n:], row[2*n:], grad)
}
