package optim

import "hcclps/internal/vec"

// adam is Kingma and Ba (ICLR 2015, algorithm 1), in the order of torch.optim.Adam (bias corrections outside, eps added after the corrected root):
//
//	g = g + weight_decay * w
//	m = beta1 * m + (1 - beta1) * g
//	v = beta2 * v + (1 - beta2) * (g * g)
//	w = w - (lr / (1 - beta1^t)) * m / (sqrt(v) * (1 / sqrt(1 - beta2^t)) + eps)
//
// t counts the steps of the table, not of the row.
type adam struct {
	moments
	zeroSlots
}

func newAdam(base config, p map[string]float64) Rule { return adam{newMoments(base, p), 2} }

func (r adam) Step(s *State, rate float32) Updater {
	k := r.corrected(s, r.lr*float64(rate))
	k.Decay = r.decay
	return &adamStep{k}
}

// adamw is Loshchilov and Hutter (ICLR 2019, algorithm 2), in the order of torch.optim.AdamW: the decay shrinks the weight and stays out of the moments.
//
//	m = beta1 * m + (1 - beta1) * g
//	v = beta2 * v + (1 - beta2) * (g * g)
//	w = (1 - lr * weight_decay) * w - (lr / (1 - beta1^t)) * m / (sqrt(v) * (1 / sqrt(1 - beta2^t)) + eps)
type adamw struct {
	moments
	zeroSlots
}

func newAdamW(base config, p map[string]float64) Rule { return adamw{newMoments(base, p), 2} }

func (r adamw) Step(s *State, rate float32) Updater {
	lr := r.lr * float64(rate)
	k := r.corrected(s, lr)
	k.Keep = 1 - float64(lr*r.decay)
	return &adamStep{k}
}

// amsgrad is Reddi, Kale and Kumar (ICLR 2018, algorithm 2), in the order of torch.optim.Adam with amsgrad:
//
//	g = g + weight_decay * w
//	m = beta1 * m + (1 - beta1) * g
//	v = beta2 * v + (1 - beta2) * (g * g)
//	x = max(x, v)
//	w = w - (lr / (1 - beta1^t)) * m / (sqrt(x) * (1 / sqrt(1 - beta2^t)) + eps)
type amsgrad struct {
	moments
	zeroSlots
}

func newAMSGrad(base config, p map[string]float64) Rule { return amsgrad{newMoments(base, p), 3} }

func (r amsgrad) Step(s *State, rate float32) Updater {
	k := r.corrected(s, r.lr*float64(rate))
	k.Decay = r.decay
	return &amsgradStep{vec.AMSGrad(k)}
}

type amsgradStep struct{ rule vec.AMSGrad }

func (u *amsgradStep) Update(row, grad []float32) {
	n := len(grad)
	u.rule.Update(row, row[n:], row[2*n:], row[3*n:], grad)
}
