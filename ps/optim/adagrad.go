package optim

import "math"

// adagrad is Duchi, Hazan and Singer (JMLR 12, 2011), in the order of torch.optim.Adagrad without lr_decay (eps is added outside of the root);
// the accumulator begins at initial_accumulator, 0.1 as in TensorFlow:
//
//	g = g + weight_decay * w
//	s = s + g * g
//	w = w - (lr * g) / (sqrt(s) + eps)
type adagrad struct {
	config
	lr, eps, first, decay float64
}

func (adagrad) Slots() int            { return 1 }
func (r adagrad) SlotInit() []float32 { return []float32{float32(r.first)} }
func (adagrad) Advance(s *State)      { s.Steps++ }

func (r adagrad) Step(_ *State, rate float32) Updater {
	return &adagradStep{lr: r.lr * float64(rate), eps: r.eps, decay: r.decay}
}

type adagradStep struct{ lr, eps, decay float64 }

func (u *adagradStep) Update(row, grad []float32) {
	n := len(grad)
	w, sum := row[:n], row[n:][:n]
	lr, eps, decay := u.lr, u.eps, u.decay
	for i, g32 := range grad {
		old := float64(w[i])
		g := float64(g32) + float64(decay*old)
		s := float64(sum[i]) + float64(g*g)
		sum[i] = rounded(s)
		w[i] = rounded(old - float64(lr*g)/(math.Sqrt(s)+eps))
	}
}
