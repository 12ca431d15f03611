package optim

import (
	"math"
	"slices"

	"hcclps/internal/vec"
)

// adagrad is Duchi, Hazan and Singer (JMLR 12, 2011), in the order of torch.optim.Adagrad without lr_decay (eps is added outside of the root);
// the accumulator begins at initial_accumulator, 0.1 as in TensorFlow:
//
//	g = g + weight_decay * w
//	s = s + g * g
//	w = w - (lr * g) / (sqrt(s) + eps)
type adagrad struct {
	config
	counted
	lr, eps, first, decay float64
}

func newAdagrad(base config, p map[string]float64) Rule {
	return adagrad{config: base, lr: p["lr"], eps: p["eps"], first: p["initial_accumulator"], decay: p["weight_decay"]}
}

func (adagrad) Slots(dim int) int { return dim }

func (r adagrad) SlotInit(dim int) []float32 {
	return slices.Repeat([]float32{float32(r.first)}, dim)
}

func (r adagrad) Step(_ *State, rate float32) Updater {
	return &rmsStep{vec.RMS{LR: r.lr * float64(rate), Keep: 1, Gain: 1, Eps: r.eps, Decay: r.decay}}
}

type rmsStep struct{ rule vec.RMS }

func (u *rmsStep) Update(row, grad []float32) { u.rule.Update(row, row[len(grad):], grad) }

// rowwiseAdagrad keeps one sum a row, of the mean squares of its gradients, as the exact row-wise Adagrad of FBGEMM and torchrec does (Gupta et al.,
// "Training with low-precision embedding tables", 2018, section on row-wise Adagrad; Naumov et al., DLRM, arXiv 1906.00091):
//
//	g = g + weight_decay * w
//	s = s + sum(g * g) / dim
//	w = w - (lr / (sqrt(s) + eps)) * g
//
// The sum is taken in the order of vec.SumSquares.
type rowwiseAdagrad adagrad

func newRowwiseAdagrad(base config, p map[string]float64) Rule {
	return rowwiseAdagrad{config: base, lr: p["lr"], eps: p["eps"], first: p["initial_accumulator"], decay: p["weight_decay"]}
}

func (rowwiseAdagrad) Slots(int) int            { return 1 }
func (r rowwiseAdagrad) SlotInit(int) []float32 { return []float32{float32(r.first)} }

func (r rowwiseAdagrad) Step(_ *State, rate float32) Updater {
	return &rowwiseStep{lr: r.lr * float64(rate), eps: r.eps, decay: r.decay}
}

type rowwiseStep struct{ lr, eps, decay float64 }

func (u *rowwiseStep) Update(row, grad []float32) {
	n := len(grad)
	s := float64(row[n]) + vec.SumSquares(u.decay, row, grad)/float64(n)
	row[n] = rounded(s)
	step := vec.SGD{LR: u.lr / (math.Sqrt(s) + u.eps), Decay: u.decay}
	step.Update(row, grad)
}
