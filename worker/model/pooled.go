package model

import (
	"context"

	"hcclps/internal/vec"
	"hcclps/worker"
)

// pooled reads fields as one vector a row each, side by side.
type pooled struct {
	fields  []field
	weights bool  // a row of a table is [w, v], not v
	dims    []int // floats of v, by field
	width   int   // of all vectors

	rows []worker.Tensor // of this step, by field
	grad []float32
}

// newPooled makes the tables of the fields. A field without a dim gets that of
// the options; one of kind cross gets no vector where rows have weights.
func newPooled(ctx context.Context, st *store, fields []field, weights bool, deviation float64) *pooled {
	p := &pooled{fields: fields, weights: weights}
	for i := range fields {
		f := &fields[i]
		dim, row := f.dim, 0
		if dim == 0 {
			dim = st.o.Dim
		}
		if weights && f.crossed() {
			dim = 0
		}
		if weights {
			row = 1
		}
		f.rows = st.vectors(ctx, f.table, row+dim, deviation)
		p.dims = append(p.dims, dim)
		p.width += dim
	}
	return p
}

// forward writes the vectors of each row to the beginning of a row of width
// floats of out, and adds the weights, if there are any, to the logits.
func (p *pooled) forward(s *worker.Step, logits, out []float32, width int) error {
	p.rows = p.rows[:0]
	at := 0
	for f := range p.fields {
		rows, err := s.Lookup(p.fields[f].rows, s.Ragged(p.fields[f].name), p.fields[f].pool)
		if err != nil {
			return err
		}
		p.rows = append(p.rows, rows)
		dim := p.dims[f]
		k := len(rows.Data) / max(s.Rows(), 1)
		for i := range s.Rows() {
			row := rows.Data[i*k:][:k]
			if p.weights {
				logits[i] += row[0]
			}
			copy(out[i*width+at:][:dim], row[k-dim:])
		}
		at += dim
	}
	return nil
}

// backward takes the gradients of the loss by the logits, which are not looked
// at without weights, and by what forward wrote.
func (p *pooled) backward(s *worker.Step, logits, out []float32, width int) error {
	at := 0
	for f, rows := range p.rows {
		dim := p.dims[f]
		k := len(rows.Data) / max(s.Rows(), 1)
		p.grad = sized(p.grad, len(rows.Data))
		for i := range s.Rows() {
			row := p.grad[i*k:][:k]
			if p.weights {
				row[0] = logits[i]
			}
			copy(row[k-dim:], out[i*width+at:][:dim])
		}
		at += dim
		if err := s.Grad(rows, p.grad); err != nil {
			return err
		}
	}
	return nil
}

// dots is the dot product of the two halves of each row of 2 x dim floats.
func dots(out, pairs []float32, dim int) {
	for i := range out {
		row := pairs[i*2*dim:][:2*dim]
		out[i] += vec.Dot(row[:dim], row[dim:])
	}
}

// dotsBack writes the gradient of the loss by the pairs.
func dotsBack(grad, pairs, dout []float32, dim int) {
	for i, g := range dout {
		from, to := pairs[i*2*dim:][:2*dim], grad[i*2*dim:][:2*dim]
		for d := range dim {
			to[d], to[dim+d] = g*from[dim+d], g*from[d]
		}
	}
}
