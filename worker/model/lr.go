package model

import (
	"context"

	"hcclps/internal/vec"
	"hcclps/worker"
	"hcclps/worker/dataset"
)

// LR is logistic regression: the score of a row is sigmoid(bias + sum of value x
// weight over its ids and numeric features).
type LR struct {
	fields []field
	linear *linear
	head   head

	sums   []worker.Tensor // of this step, by field
	logits []float32
}

// NewLR makes the model for a libsvm file, of which each index has a weight.
func NewLR(ctx context.Context, c *worker.Client, opt worker.Optimizer) (*LR, error) {
	return newLR(ctx, newStore(c, Options{Model: NameLR, Optimizer: opt, Dense: opt}), nil)
}

// newLR makes the tables "lr.weight.TABLE" and the tensors of newLinear.
func newLR(ctx context.Context, st *store, schema *dataset.Schema) (*LR, error) {
	m := &LR{fields: st.fields(schema)}
	for i := range m.fields {
		name := "lr.weight"
		if table := m.fields[i].table; table != dataset.Features {
			name += "." + table
		}
		m.fields[i].rows = st.vectors(ctx, name, 1, 0)
	}
	m.linear = newLinear(ctx, st, "lr", numeric(schema))
	return m, st.err
}

// Step implements worker.Model.
func (m *LR) Step(s *worker.Step) error {
	m.logits = zeroed(m.logits, s.Rows())
	m.sums = m.sums[:0]
	for _, f := range m.fields {
		sum, err := s.Lookup(f.rows, s.Ragged(f.name), f.pool)
		if err != nil {
			return err
		}
		m.sums = append(m.sums, sum)
		vec.Add(m.logits, sum.Data)
	}
	bias, err := m.linear.forward(s, m.logits)
	if err != nil {
		return err
	}
	grad := m.head.clicks(s, m.logits, bias)
	if !s.Training() {
		return nil
	}
	m.linear.backward(s, grad)
	for _, sum := range m.sums {
		if err := s.Grad(sum, grad); err != nil {
			return err
		}
	}
	return nil
}
