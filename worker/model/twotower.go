package model

import (
	"context"
	"slices"

	"hcclps/worker"
	"hcclps/worker/dataset"
)

// TwoTower has a network for the user's features and one for the item's, each
// of which ends in a vector of Dim floats: the score of a row is sigmoid(bias +
// <user's vector, item's vector>), and its loss the log loss of the label
// (pointwise: the negatives are those of the data, none are sampled). The input
// of a tower is the pooled vector of each sparse feature, and the numeric
// features, of its side (Covington, Adams and Sargin, RecSys 2016; Yi et al.,
// RecSys 2019).
type TwoTower struct {
	towers [2]*tower // the user's, the item's
	bias   worker.Dense
	dim    int
	head   head
	logits []float32
	pairs  []float32 // [rows, 2, dim]
	grad   []float32
}

// tower is one of them.
type tower struct {
	fields *pooled
	names  []string // of the numeric features
	mlp    *mlp
	width  int // of the input
	input  []float32
	grad   []float32 // by the tower's vector
}

// NewTwoTower makes the model for data of the given schema.
func NewTwoTower(ctx context.Context, c *worker.Client, schema *dataset.Schema, o Options) (*TwoTower, error) {
	return newTwoTower(ctx, newStore(c, o.withDefaults(NameTwoTower)), schema)
}

func newTwoTower(ctx context.Context, st *store, schema *dataset.Schema) (*TwoTower, error) {
	m := &TwoTower{dim: st.o.Dim}
	sides := st.sides(schema)
	for i, name := range []string{"user", "item"} {
		if len(sides[i].fields)+len(sides[i].numbers) == 0 {
			st.fail("the schema has sparse features %q and numeric ones %q, which leaves none for the %s's tower: "+
				"want one or more of the user (the first sparse one, if none is named) and one or more of the item, as data of columns has", names(st.fields(schema)), numeric(schema), name)
		}
	}
	m.towers[0] = newTower(ctx, st, "user", sides[0])
	m.towers[1] = newTower(ctx, st, "item", sides[1])
	m.bias = st.zeros(ctx, "twotower.bias", 1)
	return m, st.err
}

func newTower(ctx context.Context, st *store, name string, of side) *tower {
	t := &tower{fields: newPooled(ctx, st, of.fields, false, 0.1), names: of.numbers}
	t.width = t.fields.width + len(t.names)
	t.mlp = newMLP(ctx, st, name, t.width, append(slices.Clone(st.o.Hidden), st.o.Dim), false)
	return t
}

// Step implements worker.Model.
func (m *TwoTower) Step(s *worker.Step) error {
	n := s.Rows()
	m.logits, m.pairs = zeroed(m.logits, n), sized(m.pairs, n*2*m.dim)
	for side, t := range m.towers {
		out, err := t.forward(s)
		if err != nil {
			return err
		}
		for i := range n {
			copy(m.pairs[(2*i+side)*m.dim:], out[i*m.dim:][:m.dim])
		}
	}
	bias, err := s.Value(m.bias)
	if err != nil {
		return err
	}
	dots(m.logits, m.pairs, m.dim)
	grad := m.head.clicks(s, m.logits, bias.Data[0])
	if !s.Training() {
		return nil
	}
	sumInto(s.GradOf(bias), grad)
	s.Ready(bias)
	m.grad = sized(m.grad, n*2*m.dim)
	dotsBack(m.grad, m.pairs, grad, m.dim)
	for side, t := range m.towers {
		t.grad = sized(t.grad, n*m.dim)
		for i := range n {
			copy(t.grad[i*m.dim:][:m.dim], m.grad[(2*i+side)*m.dim:])
		}
		t.backward(s)
	}
	return nil
}

func (t *tower) forward(s *worker.Step) ([]float32, error) {
	t.input = sized(t.input, s.Rows()*t.width)
	if err := t.fields.forward(s, nil, t.input, t.width); err != nil {
		return nil, err
	}
	for f, name := range t.names {
		for i, v := range s.Numeric(name) {
			t.input[i*t.width+t.fields.width+f] = v
		}
	}
	return t.mlp.forward(s, t.input)
}

func (t *tower) backward(s *worker.Step) {
	t.fields.backward(nil, t.mlp.backward(s, t.grad), t.width)
}
