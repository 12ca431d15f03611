package optim

import (
	"math"

	"hcclps/internal/vec"
)

// lamb is You et al. (ICLR 2020, algorithm 2), with the bias corrections of its first version:
//
//	m = beta1 * m + (1 - beta1) * g
//	v = beta2 * v + (1 - beta2) * (g * g)
//	u = (1 / (1 - beta1^t)) * m / (sqrt(v) * (1 / sqrt(1 - beta2^t)) + eps) + weight_decay * w
//	trust = |w| / |u|, or 1 if either is 0
//	w = (1 - lr * trust * weight_decay) * w - (lr * trust) * (u without decay)
//
// The norms are Euclidean, in the order of vec.SumSquares, and of one row: of an embedding, or of a block of 1,024 elements of a dense tensor, where the
// paper takes a layer.
type lamb struct {
	moments
	zeroSlots
}

func newLAMB(base config, p map[string]float64) Rule { return lamb{newMoments(base, p), 2} }

func (r lamb) Step(s *State, rate float32) Updater {
	return &lambStep{rule: r.corrected(s, 1), lr: r.lr * float64(rate), decay: r.decay}
}

type lambStep struct {
	rule      vec.Adam // of size 1
	lr, decay float64
}

func (u *lambStep) Update(row, grad []float32) {
	n := len(grad)
	m, v := row[n:], row[2*n:]
	weights, update := u.rule.Norms(u.decay, row, m, v, grad)
	size := u.lr
	if weights > 0 && update > 0 {
		size *= math.Sqrt(weights) / math.Sqrt(update)
	}
	k := u.rule
	k.Size *= size
	k.Keep = 1 - float64(size*u.decay)
	k.Update(row, m, v, grad)
}
