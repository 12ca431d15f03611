package optim

import (
	"math"

	"hcclps/internal/vec"
)

// moments is what the rules of the Adam family share: the first two moments of the gradients, and their bias corrections by the number of steps.
type moments struct {
	config
	lr, beta1, beta2, eps, decay float64
}

func newMoments(base config, p map[string]float64) moments {
	return moments{config: base, lr: p["lr"], beta1: p["beta1"], beta2: p["beta2"], eps: p["eps"], decay: p["weight_decay"]}
}

// Advance keeps the powers of beta1 and beta2 by repeated products.
func (r moments) Advance(s *State) {
	if s.Steps == 0 {
		s.Pow = [2]float64{1, 1}
	}
	s.Steps++
	s.Pow[0] *= r.beta1
	s.Pow[1] *= r.beta2
}

// kernel has the coefficients of a step of size lr, not corrected for bias and without decay.
func (r moments) kernel(lr float64) vec.Adam {
	return vec.Adam{
		Size: lr, Corr: 1, Eps: r.eps, Keep: 1,
		Beta1: r.beta1, Rest1: 1 - r.beta1,
		Beta2: r.beta2, Rest2: 1 - r.beta2,
	}
}

// corrected is kernel with the bias corrections of the table's steps. Before the first Advance they are those of step one.
func (r moments) corrected(s *State, lr float64) vec.Adam {
	now := *s
	if now.Steps == 0 {
		r.Advance(&now)
	}
	k := r.kernel(lr)
	correct(&k, now.Pow[0], now.Pow[1])
	return k
}

// correct divides out the bias of the moments: pow1 and pow2 are beta1 and beta2 to the power of the steps they have seen.
func correct(k *vec.Adam, pow1, pow2 float64) {
	k.Size /= 1 - pow1
	k.Corr = 1 / math.Sqrt(1-pow2)
}

// adamStep is a step of a rule with two slots whose coefficients are the same for all rows.
type adamStep struct{ rule vec.Adam }

func (u *adamStep) Update(row, grad []float32) {
	n := len(grad)
	u.rule.Update(row, row[n:], row[2*n:], grad)
}
