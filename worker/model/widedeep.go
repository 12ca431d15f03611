package model

import (
	"context"

	"hcclps/internal/vec"
	"hcclps/worker"
	"hcclps/worker/dataset"
)

// WideDeep is logistic regression beside a deep network (Cheng et al., DLRS
// 2016): the score of a row is sigmoid(wide + deep). Wide is as in LR, over all
// features; the input of the network is the pooled vector of each sparse feature
// but the crosses, which are wide only, and the numeric features. The dims of
// the features may differ.
type WideDeep struct {
	fields *pooled
	linear *linear
	deep   *mlp
	width  int // of the deep input
	head   head
	logits []float32
	input  []float32
	grad   []float32
}

// NewWideDeep makes the model for data of the given schema.
func NewWideDeep(ctx context.Context, c *worker.Client, schema *dataset.Schema, o Options) (*WideDeep, error) {
	return newWideDeep(ctx, newStore(c, o.withDefaults(NameWideDeep)), schema)
}

func newWideDeep(ctx context.Context, st *store, schema *dataset.Schema) (*WideDeep, error) {
	m := &WideDeep{fields: newPooled(ctx, st, st.fields(schema), true, 0.01), linear: newLinear(ctx, st, NameWideDeep, numeric(schema))}
	m.width = m.fields.width + len(m.linear.names)
	m.deep = newMLP(ctx, st, "deep", m.width, tapered(st.o.Hidden), false)
	return m, st.err
}

// Step implements worker.Model.
func (m *WideDeep) Step(s *worker.Step) error {
	n := s.Rows()
	m.logits, m.input = zeroed(m.logits, n), sized(m.input, n*m.width)
	if err := m.fields.forward(s, m.logits, m.input, m.width); err != nil {
		return err
	}
	bias, err := m.linear.forward(s, m.logits)
	if err != nil {
		return err
	}
	m.linear.fill(m.input, m.width)
	deep, err := m.deep.forward(s, m.input)
	if err != nil {
		return err
	}
	vec.Add(m.logits, deep)
	grad := m.head.clicks(s, m.logits, bias)
	if !s.Training() {
		return nil
	}
	m.linear.backward(s, grad)
	m.grad = append(m.grad[:0], grad...)
	m.fields.backward(grad, m.deep.backward(s, m.grad), m.width)
	return nil
}
