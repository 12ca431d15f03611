package optim

import "hcclps/internal/vec"

// rmsprop is Tieleman and Hinton (Coursera lecture 6.5, 2012), in the order of torch.optim.RMSprop, not centered and without momentum:
//
//	g = g + weight_decay * w
//	s = alpha * s + (1 - alpha) * (g * g)
//	w = w - (lr * g) / (sqrt(s) + eps)
type rmsprop struct {
	config
	counted
	zeroSlots
	lr, alpha, eps, decay float64
}

func newRMSprop(base config, p map[string]float64) Rule {
	return rmsprop{config: base, zeroSlots: 1, lr: p["lr"], alpha: p["alpha"], eps: p["eps"], decay: p["weight_decay"]}
}

func (r rmsprop) Step(_ *State, rate float32) Updater {
	return &rmsStep{vec.RMS{LR: r.lr * float64(rate), Keep: r.alpha, Gain: 1 - r.alpha, Eps: r.eps, Decay: r.decay}}
}
