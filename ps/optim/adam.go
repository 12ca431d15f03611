package optim

import "math"

// adam is Kingma and Ba (ICLR 2015, algorithm 1), in the order of torch.optim.Adam (bias corrections outside, eps added after the corrected root):
//
//	g = g + weight_decay * w
//	m = beta1 * m + (1 - beta1) * g
//	v = beta2 * v + (1 - beta2) * (g * g)
//	w = w - (lr / (1 - beta1^t)) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
//
// t counts the steps of the table, not of the row.
type adam struct {
	config
	lr, beta1, beta2, eps, decay float64
}

func (adam) Slots() int          { return 2 }
func (adam) SlotInit() []float32 { return []float32{0, 0} }

func (r adam) Advance(s *State) {
	if s.Steps == 0 {
		s.Pow = [2]float64{1, 1}
	}
	s.Steps++
	s.Pow[0] *= r.beta1
	s.Pow[1] *= r.beta2
}

func (r adam) Step(s *State, rate float32) Updater {
	now := *s
	if now.Steps == 0 {
		r.Advance(&now)
	}
	return &adamStep{
		size:  float64(r.lr*float64(rate)) / (1 - now.Pow[0]),
		root:  math.Sqrt(1 - now.Pow[1]),
		beta1: r.beta1, rest1: 1 - r.beta1,
		beta2: r.beta2, rest2: 1 - r.beta2,
		eps: r.eps, decay: r.decay,
	}
}

type adamStep struct{ size, root, beta1, rest1, beta2, rest2, eps, decay float64 }

func (u *adamStep) Update(row, grad []float32) {
	n := len(grad)
	w, first, second := row[:n], row[n:][:n], row[2*n:][:n]
	c := *u
	for i, g32 := range grad {
		old := float64(w[i])
		g := float64(g32) + float64(c.decay*old)
		m := float64(c.beta1*float64(first[i])) + float64(c.rest1*g)
		square := float64(g * g)
		v := float64(c.beta2*float64(second[i])) + float64(c.rest2*square)
		first[i], second[i] = rounded(m), rounded(v)
		w[i] = rounded(old - float64(c.size*m)/(math.Sqrt(v)/c.root+c.eps))
	}
}
