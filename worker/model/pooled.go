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

	rows   []worker.Rows // of this step, by field
	bags   []worker.Ragged
	values [][]float32 // what each id counts
}

// newPooled makes the tables of the fields. A field without a dim gets that of
// the options; one of kind cross gets no vector where rows have weights.
func newPooled(ctx context.Context, st *store, fields []field, weights bool, deviation float64) *pooled {
	p := &pooled{fields: fields, weights: weights, values: make([][]float32, len(fields))}
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
	p.rows, p.bags = p.rows[:0], p.bags[:0]
	from := 0
	for f := range p.fields {
		bags := s.Ragged(p.fields[f].name)
		rows, err := s.RowsOf(p.fields[f].rows, bags)
		if err != nil {
			return err
		}
		p.rows, p.bags = append(p.rows, rows), append(p.bags, bags)
		p.values[f] = counts(p.values[f], bags, p.fields[f].pool)
		p.add(f, logits, out[from:], width)
		from += p.dims[f]
	}
	return nil
}

// add pools a field: out begins with its vector of the first row.
func (p *pooled) add(f int, logits, out []float32, width int) {
	rows, bags, values, dim := p.rows[f], p.bags[f], p.values[f], p.dims[f]
	for i := range len(bags.Offsets) - 1 {
		to, weight := out[i*width:][:dim], float32(0)
		clear(to)
		for j := bags.Offsets[i]; j < bags.Offsets[i+1]; j++ {
			row := rows.Row(rows.Index[j])
			weight += values[j] * row[0]
			vec.Axpy(to, values[j], row[rows.Dim-dim:])
		}
		if p.weights {
			logits[i] += weight
		}
	}
}

// backward takes the gradients of the loss by the logits, which are not looked
// at without weights, and by what forward wrote.
func (p *pooled) backward(logits, out []float32, width int) {
	from := 0
	for f, dim := range p.dims {
		rows, bags, values := p.rows[f], p.bags[f], p.values[f]
		grad := rows.Grad()
		for i := range len(bags.Offsets) - 1 {
			g := out[i*width+from:][:dim]
			for j := bags.Offsets[i]; j < bags.Offsets[i+1]; j++ {
				to := grad[int(rows.Index[j])*rows.Dim:][:rows.Dim]
				if p.weights {
					to[0] += values[j] * logits[i]
				}
				vec.Axpy(to[rows.Dim-dim:], values[j], g)
			}
		}
		from += dim
	}
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
