package optim

// sgd is plain stochastic gradient descent, in the order of torch.optim.SGD without momentum:
//
//	g = g + weight_decay * w
//	w = w - lr * g
type sgd struct {
	config
	lr, decay float64
}

func (sgd) Slots() int          { return 0 }
func (sgd) SlotInit() []float32 { return nil }
func (sgd) Advance(s *State)    { s.Steps++ }

func (r sgd) Step(_ *State, rate float32) Updater {
	return &sgdStep{lr: r.lr * float64(rate), decay: r.decay}
}

type sgdStep struct{ lr, decay float64 }

func (u *sgdStep) Update(row, grad []float32) {
	w := row[:len(grad)]
	lr, decay := u.lr, u.decay
	for i, g32 := range grad {
		old := float64(w[i])
		g := float64(g32) + float64(decay*old)
		w[i] = rounded(old - float64(lr*g))
	}
}
