// Package model holds the built-in models, one readable file each.
//
// A constructor (NewLR) creates the model's tables in a client's job, or finds
// them; Client.Train and Client.Evaluate call its Step. A model keeps memory from
// step to step and belongs, like its client, to one goroutine at a time. It
// starts none.
package model

import (
	"context"
	"math"

	"hcclps/worker"
	"hcclps/worker/dataset"
)

// LR is logistic regression over ragged features: the score of a row is
// sigmoid(bias + sum of value x weight over its features).
type LR struct {
	weight worker.Embedding // one float a feature
	bias   worker.Dense
	scores []float32
	grad   []float32
}

// NewLR creates the model's tables in the client's job.
func NewLR(ctx context.Context, c *worker.Client, opt worker.Optimizer) (*LR, error) {
	w, err := c.Embedding(ctx, "lr.weight", worker.EmbeddingSpec{Dim: 1, Optimizer: opt})
	if err != nil {
		return nil, err
	}
	b, err := c.Dense(ctx, "lr.bias", []int{1}, worker.DenseSpec{Optimizer: opt})
	return &LR{weight: w, bias: b}, err
}

// Step implements worker.Model. The gradient of the log loss of a row by its
// logit is score - label.
func (m *LR) Step(s *worker.Step) error {
	sum, err := s.Lookup(m.weight, s.Ragged(dataset.Features), worker.Sum)
	if err != nil {
		return err
	}
	bias, err := s.Value(m.bias)
	if err != nil {
		return err
	}
	m.scores, m.grad = m.scores[:0], m.grad[:0]
	var loss float64
	for i, label := range s.Label() {
		logit := float64(sum.Data[i]) + float64(bias.Data[0])
		score := 1 / (1 + math.Exp(-logit))
		loss += logLoss(logit, label > 0.5)
		g := float32(score) - label
		m.scores = append(m.scores, float32(score))
		m.grad = append(m.grad, g)
	}
	s.Loss(loss, s.Rows())
	s.Score(m.scores)
	if !s.Training() {
		return nil
	}
	biasGrad := s.GradOf(bias)
	for _, g := range m.grad {
		biasGrad[0] += g
	}
	return s.Grad(sum, m.grad)
}

// logLoss is -log(probability of the label), from the logit so that it never
// overflows.
func logLoss(logit float64, positive bool) float64 {
	if positive {
		logit = -logit
	}
	return max(logit, 0) + math.Log1p(math.Exp(-math.Abs(logit)))
}
