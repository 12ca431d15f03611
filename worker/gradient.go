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

// gradientSum adds up the gradients of the uses of one table. Its memory serves
// step after step.
type gradientSum struct {
	of     []Gradient
	keys   []uint64
	values []float32
}

// total is the sum, each row's share of an earlier use added first.
func (t *gradientSum) total() Gradient {
	if len(t.of) == 1 {
		return t.of[0]
	}
	out := Gradient{Table: t.of[0].Table}
	dim := int(out.Table.spec().Dim)
	if dense(out.Table) {
		t.values = zeroed(t.values, len(t.of[0].Values))
		for _, g := range t.of {
			vec.Add(t.values, g.Values)
		}
		out.Values = t.values
		return out
	}
	t.keys = t.keys[:0]
	for _, g := range t.of {
		t.keys = append(t.keys, g.Keys...)
	}
	slices.Sort(t.keys)
	t.keys = slices.Compact(t.keys)
	t.values = zeroed(t.values, len(t.keys)*dim)
	for _, g := range t.of {
		at := 0
		for i, k := range g.Keys {
			for t.keys[at] != k {
				at++
			}
			vec.Add(t.values[at*dim:][:dim], g.Values[i*dim:][:dim])
		}
	}
	out.Keys, out.Values = t.keys, t.values
	return out
}
