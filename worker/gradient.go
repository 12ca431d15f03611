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
	s.turn()
	o.collect()
	switch dim := o.dim(); {
	case dense(o.reading.table):
		vec.Add(o.grad, grad)
		s.Ready(of)
	case o.pool == None:
		vec.AddRows(o.grad, o.index, grad, dim)
	case dim == 1:
		o.spreadFloats(grad)
	default:
		o.spreadRows(grad, dim)
	}
	return nil
}

// spreadRows gives the rows of each bag their part of its gradient.
func (o *operand) spreadRows(grad []float32, dim int) {
	offsets := o.bags.Offsets
	for i := range len(offsets) - 1 {
		for j := offsets[i]; j < offsets[i+1]; j++ {
			vec.Axpy(o.grad[int(o.index[j])*dim:][:dim], o.bags.Weights[j]*o.scale[i], grad[i*dim:])
		}
	}
}

// spreadFloats is spreadRows of rows of one float.
func (o *operand) spreadFloats(grad []float32) {
	offsets := o.bags.Offsets
	for i, g := range grad {
		scale := o.scale[i]
		for j := offsets[i]; j < offsets[i+1]; j++ {
			o.grad[o.index[j]] += float32(float32(o.bags.Weights[j]*scale) * g)
		}
	}
}

// GradOf is where the gradient of a dense tensor is summed up: a model that adds
// to it row by row, instead of giving a batch's sum to Grad, gets the same bits
// however a step's rows are cut into batches.
func (s *Step) GradOf(d Tensor) []float32 {
	s.turn()
	d.of.collect()
	return d.of.grad
}

// collect makes room for the gradient: zeros, or what earlier batches of the step
// have summed up.
func (o *operand) collect() {
	if o.used {
		return
	}
	n := len(o.reading.rows)
	if !dense(o.reading.table) {
		n = len(o.at) * o.dim()
	}
	o.grad, o.used = zeroed(o.grad, n), true
	if o.tally != nil {
		o.tally.into(o)
	}
}

// share is the gradient of one use of a table, over a step.
type share struct {
	table   Table
	keys    []uint64  // ascending; none for a dense tensor
	at      []int32   // the keys it is of, by their place; nil: all
	values  []float32 // [len(at), dim], or the tensor
	reading *reading  // whose keys these are; nil: those of a tally
}

// gradientSum adds up the shares of one table. Its memory serves step after
// step.
type gradientSum struct {
	shares []share
	keys   []uint64
	values []float32
}

// total is the sum, each row's share of an earlier use added first.
func (t *gradientSum) total() Gradient {
	first := t.shares[0]
	if len(t.shares) == 1 && (first.reading == nil || len(first.reading.uses) == 1) {
		return Gradient{Table: first.table, Keys: first.keys, Values: first.values}
	}
	out := Gradient{Table: first.table}
	if dense(out.Table) {
		t.values = zeroed(t.values, len(first.values))
		for _, g := range t.shares {
			vec.Add(t.values, g.values)
		}
		out.Values = t.values
		return out
	}
	dim := int(out.Table.spec().Dim)
	if t.whole() {
		out.Keys = first.keys
		t.values = zeroed(t.values, len(out.Keys)*dim)
		for _, g := range t.shares {
			vec.AddRows(t.values, g.at, g.values, dim)
		}
	} else {
		out.Keys = t.union()
		t.values = zeroed(t.values, len(out.Keys)*dim)
		for _, g := range t.shares {
			g.merge(t.values, out.Keys, dim)
		}
	}
	out.Values = t.values
	return out
}

// whole says whether the shares are of all uses of one reading: then its keys
// are those of the sum.
func (t *gradientSum) whole() bool {
	r := t.shares[0].reading
	return r != nil && len(t.shares) == len(r.uses) && !slices.ContainsFunc(t.shares, func(g share) bool { return g.reading != r })
}

// union is the keys of all shares, ascending.
func (t *gradientSum) union() []uint64 {
	t.keys = t.keys[:0]
	for _, g := range t.shares {
		for i := range g.rows() {
			t.keys = append(t.keys, g.key(i))
		}
	}
	slices.Sort(t.keys)
	t.keys = slices.Compact(t.keys)
	return t.keys
}

// merge adds a share to rows of more keys.
func (g *share) merge(values []float32, keys []uint64, dim int) {
	at := 0
	for i := range g.rows() {
		for keys[at] != g.key(i) {
			at++
		}
		vec.Add(values[at*dim:][:dim], g.values[i*dim:])
	}
}

func (g *share) rows() int {
	if g.at == nil {
		return len(g.keys)
	}
	return len(g.at)
}

func (g *share) key(i int) uint64 {
	if g.at == nil {
		return g.keys[i]
	}
	return g.keys[g.at[i]]
}
