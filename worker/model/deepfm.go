package model

import (
	"context"

	"hcclps/internal/vec"
	"hcclps/worker"
	"hcclps/worker/dataset"
)

// DeepFM is a factorisation machine beside a deep network over the same vectors
// (Guo et al., IJCAI 2017): the score of a row is sigmoid(fm + deep), where fm is
// as in FM, and the input of the network is the pooled vector of each field, and
// the numeric features.
type DeepFM struct {
	factors *factors
	linear  *linear
	deep    *mlp
	width   int // of the deep input
	head    head
	logits  []float32
	input   []float32
	grad    []float32
}

// NewDeepFM makes the model for data of the given schema.
func NewDeepFM(ctx context.Context, c *worker.Client, schema *dataset.Schema, o Options) (*DeepFM, error) {
	return newDeepFM(ctx, newStore(c, o.withDefaults(NameDeepFM)), schema)
}

func newDeepFM(ctx context.Context, st *store, schema *dataset.Schema) (*DeepFM, error) {
	m := &DeepFM{factors: newFactors(ctx, st, schema), linear: newLinear(ctx, st, NameDeepFM, numeric(schema))}
	m.width = len(m.factors.fields)*m.factors.dim + len(m.linear.names)
	m.deep = newMLP(ctx, st, "deep", m.width, tapered(st.o.Hidden), false)
	return m, st.err
}

// tapered is the units of a network that ends in one logit.
func tapered(hidden []int) []int { return append(append([]int(nil), hidden...), 1) }

// Step implements worker.Model.
func (m *DeepFM) Step(s *worker.Step) error {
	n := s.Rows()
	m.logits, m.input = zeroed(m.logits, n), zeroed(m.input, n*m.width)
	if err := m.factors.forward(s, m.logits, m.input, m.width); err != nil {
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
	m.factors.backward(grad, m.deep.backward(s, m.grad), m.width)
	return nil
}
