package optim

import "hcclps/internal/vec"

// momentum is the heavy ball of Polyak (1964), in the order of torch.optim.SGD with momentum and without dampening:
//
//	g = g + weight_decay * w
//	m = momentum * m + g
//	w = w - lr * m
type momentum struct {
	config
	counted
	zeroSlots
	lr, mu, decay float64
}

func newMomentum(base config, p map[string]float64) Rule {
	return momentum{config: base, zeroSlots: 1, lr: p["lr"], mu: p["momentum"], decay: p["weight_decay"]}
}

func (r momentum) Step(_ *State, rate float32) Updater {
	return &momentumStep{vec.Momentum{LR: r.lr * float64(rate), Mu: r.mu, Decay: r.decay}}
}

type momentumStep struct{ rule vec.Momentum }

func (u *momentumStep) Update(row, grad []float32) { u.rule.Update(row, row[len(grad):], grad) }

// nesterov is the accelerated gradient in the form of Sutskever et al. (ICML 2013), in the order of torch.optim.SGD with nesterov:
//
//	g = g + weight_decay * w
//	m = momentum * m + g
//	w = w - lr * (g + momentum * m)
type nesterov momentum

func newNesterov(base config, p map[string]float64) Rule {
	return nesterov{config: base, zeroSlots: 1, lr: p["lr"], mu: p["momentum"], decay: p["weight_decay"]}
}

func (r nesterov) Step(_ *State, rate float32) Updater {
	return &nesterovStep{vec.Nesterov{LR: r.lr * float64(rate), Mu: r.mu, Decay: r.decay}}
}

type nesterovStep struct{ rule vec.Nesterov }

func (u *nesterovStep) Update(row, grad []float32) { u.rule.Update(row, row[len(grad):], grad) }

// zeroSlots is the part of a rule with so many slots, a float32 per weight each, that begin at zero.
type zeroSlots int

func (n zeroSlots) Slots(dim int) int          { return int(n) * dim }
func (n zeroSlots) SlotInit(dim int) []float32 { return make([]float32, int(n)*dim) }
