package worker

import (
	"fmt"
	"slices"

	"hcclps/internal/vec"
)

// Grad gives the gradient of a Lookup's or Value's result, summed over the
// batch's rows; the SDK spreads a pooled one over the rows behind it. Given
// twice, gradients add up, and so they do over the batches of a step.
func (s *Step) Grad(of Tensor, grad []float32) error {
	o := of.of
	if o == nil || len(grad) != len(of.Data) {
		return fmt.Errorf("gradient of %d floats for a tensor of shape %v", len(grad), of.Shape)
	}
	o.collect()
	if dense(o.table) {
		vec.Add(o.grad, grad)
		return nil
	}
	dim := int(o.table.spec().Dim)
	if o.pool == None {
		for j, at := range o.index {
			vec.Add(o.grad[int(at)*dim:][:dim], grad[j*dim:][:dim])
		}
		return nil
	}
	for i := range len(o.bags.Offsets) - 1 {
		g := grad[i*dim:][:dim]
		for j := o.bags.Offsets[i]; j < o.bags.Offsets[i+1]; j++ {
			w, row := float32(o.bags.Weights[j]*o.scale[i]), o.grad[int(o.index[j])*dim:][:dim]
			for d := range row {
				row[d] += float32(w * g[d])
			}
		}
	}
	return nil
}

// GradOf is where the gradient of a dense tensor is summed up: a model that adds
// to it row by row, instead of giving a batch's sum to Grad, gets the same bits
// however a step's rows are cut into batches.
func (s *Step) GradOf(d Tensor) []float32 {
	d.of.collect()
	return d.of.grad
}

// collect makes room for the gradient: zeros, or what earlier batches of the step
// have summed up.
func (o *operand) collect() {
	if !o.used {
		o.grad, o.used = zeroed(o.grad, len(o.rows)), true
		if o.tally != nil {
			o.tally.into(o)
		}
	}
}

// addGradients merges two gradients of one table: a's share of a row first.
func addGradients(a, b Gradient) Gradient {
	dim := int(a.Table.spec().Dim)
	if dense(a.Table) {
		sum := slices.Clone(a.Values)
		vec.Add(sum, b.Values)
		return Gradient{Table: a.Table, Values: sum}
	}
	out := Gradient{Table: a.Table}
	i, j := 0, 0
	for i < len(a.Keys) || j < len(b.Keys) {
		fromA := i < len(a.Keys) && (j == len(b.Keys) || a.Keys[i] <= b.Keys[j])
		fromB := j < len(b.Keys) && (i == len(a.Keys) || b.Keys[j] <= a.Keys[i])
		n := len(out.Values)
		out.Values = append(out.Values, make([]float32, dim)...)
		if fromA {
			out.Keys = append(out.Keys, a.Keys[i])
			copy(out.Values[n:], a.Values[i*dim:][:dim])
			i++
		} else {
			out.Keys = append(out.Keys, b.Keys[j])
		}
		if fromB {
			vec.Add(out.Values[n:], b.Values[j*dim:][:dim])
			j++
		}
	}
	return out
}
