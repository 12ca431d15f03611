package optim

import "hcclps/internal/vec"

// sgd is plain stochastic gradient descent, in the order of torch.optim.SGD without momentum:
//
//	g = g + weight_decay * w
//	w = w - lr * g
type sgd struct {
	config
	stateless
	lr, decay float64
}

func newSGD(base config, p map[string]float64) Rule {
	return sgd{config: base, lr: p["lr"], decay: p["weight_decay"]}
}

func (r sgd) Step(_ *State, rate float32) Updater {
	return &sgdStep{vec.SGD{LR: r.lr * float64(rate), Decay: r.decay}}
}

type sgdStep struct{ rule vec.SGD }

func (u *sgdStep) Update(row, grad []float32) { u.rule.Update(row, grad) }

// stateless is the part of a rule without slots.
type stateless struct{ counted }

func (stateless) Slots(int) int          { return 0 }
func (stateless) SlotInit(int) []float32 { return nil }

// counted is the part of a rule whose State is the number of steps alone.
type counted struct{}

func (counted) Advance(s *State) { s.Steps++ }
