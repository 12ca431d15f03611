package model

import (
	"context"
	"slices"

	"hcclps/worker"
	"hcclps/worker/dataset"
)

// MF is biased matrix factorisation of ratings (Koren, Bell and Volinsky, IEEE
// Computer 2009): the score of a row is
//
//	mean + b of the user + b of the item + <v of the user, v of the item>
//
// and its loss the square of the error. Of a user or item that was never seen
// the score leaves out nearly all: its b and v are the small numbers that rows
// begin with. It takes two sparse features; data with more is for fm.
type MF struct {
	sides *pooled // the user's, then the item's
	mean  worker.Dense
	dim   int
	head  head
	score []float32
	pairs []float32 // [rows, 2, dim]
	grad  []float32
}

// NewMF makes the model for data of the given schema.
func NewMF(ctx context.Context, c *worker.Client, schema *dataset.Schema, o Options) (*MF, error) {
	return newMF(ctx, newStore(c, o.withDefaults(NameMF)), schema)
}

func newMF(ctx context.Context, st *store, schema *dataset.Schema) (*MF, error) {
	sides := st.sides(schema)
	fields := slices.Concat(sides[0].fields, sides[1].fields)
	if len(fields) != 2 || len(sides[0].fields) != 1 || len(numeric(schema)) > 0 {
		st.fail("the schema has sparse features %q and numeric ones %q: want one sparse feature of the user and one of the item: for more there is %s", names(fields), numeric(schema), NameFM)
		return nil, st.err
	}
	m := &MF{dim: st.sameDim(fields)}
	for i := range fields {
		fields[i].dim = m.dim
	}
	m.sides = newPooled(ctx, st, fields, true, 0.01)
	m.mean = st.zeros(ctx, "mf.mean", 1)
	return m, st.err
}

// Regression says that the scores are ratings: it implements worker.Regressor.
func (*MF) Regression() bool { return true }

// Step implements worker.Model.
func (m *MF) Step(s *worker.Step) error {
	n := s.Rows()
	m.score, m.pairs = zeroed(m.score, n), sized(m.pairs, n*2*m.dim)
	if err := m.sides.forward(s, m.score, m.pairs, 2*m.dim); err != nil {
		return err
	}
	mean, err := s.Value(m.mean)
	if err != nil {
		return err
	}
	dots(m.score, m.pairs, m.dim)
	grad := m.head.numbers(s, m.score, mean.Data[0])
	if !s.Training() {
		return nil
	}
	sumInto(s.GradOf(mean), grad)
	s.Ready(mean)
	m.grad = sized(m.grad, n*2*m.dim)
	dotsBack(m.grad, m.pairs, grad, m.dim)
	m.sides.backward(grad, m.grad, 2*m.dim)
	return nil
}
