package model

import (
	"math"

	"hcclps/worker"
)

// head is the end of a model: it turns what the model says of each row into
// scores, loss and gradient.
type head struct {
	scores, grad []float32
}

// clicks takes logits to be those of a label of 0 or 1. The score of a row is
// sigmoid(logit + bias), its loss the log loss, in nats. It returns the gradient
// of the loss by each logit: weight x (score - label).
func (h *head) clicks(s *worker.Step, logits []float32, bias float32) []float32 {
	h.scores, h.grad = sized(h.scores, len(logits)), sized(h.grad, len(logits))
	label := s.Label()
	var loss float64
	for i, v := range logits {
		logit := float64(v) + float64(bias)
		score := float32(1 / (1 + math.Exp(-logit)))
		w := weight(s, i)
		loss += float64(w) * logLoss(logit, label[i] > 0.5)
		h.scores[i] = score
		h.grad[i] = w * (score - label[i])
	}
	s.Loss(loss, s.Rows())
	s.Score(h.scores)
	return h.grad
}

// weight is that of a row: 1 where the source gives none.
func weight(s *worker.Step, i int) float32 {
	if w := s.Weight(); len(w) > 0 {
		return w[i]
	}
	return 1
}

// logLoss is -log(probability of the label), from the logit so that it never
// overflows.
func logLoss(logit float64, positive bool) float64 {
	if positive {
		logit = -logit
	}
	return max(logit, 0) + math.Log1p(math.Exp(-math.Abs(logit)))
}

// numbers takes values to be predictions of a number. The score of a row is
// value + bias, its loss the square of the error. It returns the gradient of the
// loss by each value: weight x 2 x (score - label).
func (h *head) numbers(s *worker.Step, values []float32, bias float32) []float32 {
	h.scores, h.grad = sized(h.scores, len(values)), sized(h.grad, len(values))
	label := s.Label()
	var loss float64
	for i, v := range values {
		score := v + bias
		e := score - label[i]
		w := weight(s, i)
		loss += float64(w) * float64(e) * float64(e)
		h.scores[i] = score
		h.grad[i] = w * 2 * e
	}
	s.Loss(loss, s.Rows())
	s.Score(h.scores)
	return h.grad
}

// sumInto adds the gradients of all rows to that of a bias, row by row: the same
// bits however a step's rows are cut into batches.
func sumInto(bias, grad []float32) {
	for _, g := range grad {
		bias[0] += g
	}
}
