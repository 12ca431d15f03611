package model

import (
	"context"

	"hcclps/internal/vec"
	"hcclps/worker"
	"hcclps/worker/dataset"
)

// FM is a factorisation machine of order two (Rendle, ICDM 2010): the score of
// a row is
//
//	sigmoid(bias + sum of x w over all ids + sum of x x' <v, v'> over all pairs)
//
// where an id has a weight w and a vector v, and counts x: its weight in the
// data, scaled by the pooling of its bag. Ids of one bag are pairs too, so that a
// libsvm file, which has one bag a row, works like any other.
type FM struct {
	factors *factors
	linear  *linear
	head    head
	logits  []float32
}

// NewFM makes the model for data of the given schema.
func NewFM(ctx context.Context, c *worker.Client, schema *dataset.Schema, o Options) (*FM, error) {
	return newFM(ctx, newStore(c, o.withDefaults(NameFM)), schema)
}

func newFM(ctx context.Context, st *store, schema *dataset.Schema) (*FM, error) {
	m := &FM{factors: newFactors(ctx, st, schema), linear: newLinear(ctx, st, NameFM, numeric(schema))}
	return m, st.err
}

// Step implements worker.Model.
func (m *FM) Step(s *worker.Step) error {
	m.logits = zeroed(m.logits, s.Rows())
	if err := m.factors.forward(s, m.logits, nil, 0); err != nil {
		return err
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
	m.factors.backward(grad, nil, 0)
	return nil
}

// factors is the part of a factorisation machine that reads tables. Row i of
// all it keeps is [w, v]: first order, then second.
type factors struct {
	fields []field
	dim    int // of v

	rows   []worker.Rows // of this step, by field
	bags   []worker.Ragged
	values [][]float32 // what each id counts
	sums   []float32   // [rows, 1+dim]: sum of x [w, v]
	same   []float32   // sum of x x <v, v>: what an id is a pair with itself
	norms  []float32   // <v, v> of each row of a field
}

func newFactors(ctx context.Context, st *store, schema *dataset.Schema) *factors {
	f := &factors{fields: st.fields(schema)}
	f.dim = st.sameDim(f.fields)
	for i := range f.fields {
		f.fields[i].rows = st.vectors(ctx, f.fields[i].table, 1+f.dim, 0.01)
	}
	f.values = make([][]float32, len(f.fields))
	return f
}

// forward adds to the logits. A deep input gets the pooled vector of each field,
// at field x dim of each of its rows of width floats; what follows is zero.
func (f *factors) forward(s *worker.Step, logits, deep []float32, width int) error {
	clear(deep)
	k := 1 + f.dim
	f.sums, f.same = zeroed(f.sums, s.Rows()*k), zeroed(f.same, s.Rows())
	f.rows, f.bags = f.rows[:0], f.bags[:0]
	for at := range f.fields {
		bags := s.Ragged(f.fields[at].name)
		rows, err := s.RowsOf(f.fields[at].rows, bags)
		if err != nil {
			return err
		}
		f.rows, f.bags = append(f.rows, rows), append(f.bags, bags)
		f.values[at] = counts(f.values[at], bags, f.fields[at].pool)
		f.add(at, deep, width)
	}
	for i := range logits {
		sum := f.sums[i*k:][:k]
		logits[i] += sum[0] + 0.5*(vec.Dot(sum[1:], sum[1:])-f.same[i])
	}
	return nil
}

// add adds a field to the sums of each row.
func (f *factors) add(at int, deep []float32, width int) {
	k := 1 + f.dim
	rows, bags, values := f.rows[at], f.bags[at], f.values[at]
	f.norms = sized(f.norms, rows.Len())
	for n := range f.norms {
		v := rows.Row(int32(n))[1:]
		f.norms[n] = vec.Dot(v, v)
	}
	for i := range len(bags.Offsets) - 1 {
		sum := f.sums[i*k:][:k]
		for j := bags.Offsets[i]; j < bags.Offsets[i+1]; j++ {
			n, x := rows.Index[j], values[j]
			row := rows.Row(n)
			vec.Axpy(sum, x, row)
			f.same[i] += x * x * f.norms[n]
			if deep != nil {
				vec.Axpy(deep[i*width+at*f.dim:][:f.dim], x, row[1:])
			}
		}
	}
}

// backward takes the gradients of the loss by each logit, and by the deep input
// if there is one, which it changes.
func (f *factors) backward(grad, deep []float32, width int) {
	k := 1 + f.dim
	for at := range f.fields {
		rows, bags, values := f.rows[at], f.bags[at], f.values[at]
		out := rows.Grad()
		for i := range len(bags.Offsets) - 1 {
			g, others, scale := grad[i], f.sums[i*k+1:][:f.dim], grad[i]
			if deep != nil {
				d := deep[i*width+at*f.dim:][:f.dim]
				vec.Axpy(d, g, others)
				others, scale = d, 1
			}
			for j := bags.Offsets[i]; j < bags.Offsets[i+1]; j++ {
				n, x := rows.Index[j], values[j]
				to := out[int(n)*k:][:k]
				to[0] += g * x
				vec.Axpby(to[1:], scale*x, others, -g*x*x, rows.Row(n)[1:])
			}
		}
	}
}
