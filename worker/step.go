package worker

import (
	"context"
	"fmt"
	"slices"

	"hcclps/worker/dataset"
)

// Model is what a user writes: Step runs the forward pass over the batch and,
// if s.Training(), the backward pass, giving gradients to s.Grad.
type Model interface {
	Step(s *Step) error
}

// Pool is how the rows of a bag become one.
type Pool uint8

// Sum adds weight x row over the keys of a bag; an empty bag is zeros.
const Sum Pool = 0

// Ragged is a multi-valued feature of a batch: row i holds the keys
// Keys[Offsets[i]:Offsets[i+1]], each with a weight. One that Step.Ragged gave
// is read ahead for the next batch; a model may also make its own.
type Ragged struct {
	Offsets []int32
	Keys    []uint64
	Weights []float32
	feature string // name of the feature; empty: of the model's making
}

// Tensor is a flat slice with a shape. It is reused between steps and valid
// until Step returns.
type Tensor struct {
	Shape []int
	Data  []float32
	of    *operand
}

// operand is one use of a table in a step: what Lookup or Value read, and the
// gradient that comes back.
type operand struct {
	table Table
	bags  Ragged
	index []int32   // position of each of bags.Keys in keys
	keys  []uint64  // unique, ascending; none for a dense tensor
	rows  []float32 // [len(keys), dim], or the tensor
	out   []float32 // pooled
	grad  []float32 // like rows
	used  bool      // grad was given
}

// Step is one batch on its way through a model.
type Step struct {
	c        *Client
	ctx      context.Context //nolint:containedctx // the one context in a struct: a model's Step takes no other
	batch    *dataset.Batch
	training bool
	final    bool // read after every worker has finished

	ready    []*operand // read ahead for this batch, in order of use
	operands []*operand // used so far
	free     []*operand
	uniq     uniquer

	lossSum  float64
	lossRows int
	scores   []float32
	fault    error // a request the batch could not answer
}

// Context ends when training is cancelled.
func (s *Step) Context() context.Context { return s.ctx }

// Training says whether gradients are wanted.
func (s *Step) Training() bool { return s.training }

// Rows is the number of rows in the batch.
func (s *Step) Rows() int { return s.batch.Rows }

// Label holds one label a row.
func (s *Step) Label() []float32 { return s.batch.Label }

// Weight holds one weight a row, 1 where the data has none.
func (s *Step) Weight() []float32 { return s.batch.Weight }

// Batch is the batch under way. It is read only and valid until Step returns.
func (s *Step) Batch() *dataset.Batch { return s.batch }

// Ragged is a sparse feature of the batch; that of a libsvm file is named
// dataset.Features. Asking for one that the data does not have fails the step
// after the model has returned.
func (s *Step) Ragged(feature string) Ragged {
	r, ok := ragged(s.batch, feature)
	if !ok {
		s.missed("sparse", feature)
		r = Ragged{Offsets: make([]int32, s.batch.Rows+1)}
	}
	return r
}

func ragged(b *dataset.Batch, feature string) (Ragged, bool) {
	c := b.Column(feature)
	if c == nil || c.Offsets == nil {
		return Ragged{}, false
	}
	return Ragged{Offsets: c.Offsets, Keys: c.Keys, Weights: c.Weights, feature: feature}, true
}

// Numeric is a numeric feature of the batch, one value a row. Asking for one
// that the data does not have fails the step after the model has returned.
func (s *Step) Numeric(feature string) []float32 {
	if c := s.batch.Column(feature); c != nil && c.Numeric != nil {
		return c.Numeric
	}
	s.missed("numeric", feature)
	return make([]float32, s.batch.Rows)
}

// missed keeps the first request for a feature that is not there.
func (s *Step) missed(kind, feature string) {
	if s.fault != nil {
		return
	}
	names := make([]string, len(s.batch.Features))
	for i, f := range s.batch.Features {
		names[i] = f.Name
	}
	s.fault = fmt.Errorf("the data has no %s feature %q: it has %q", kind, feature, names)
}

// forward runs the model over the batch.
func (s *Step) forward(m Model) error {
	if err := m.Step(s); err != nil {
		return err
	}
	return s.fault
}

// Lookup reads the rows of r's keys and pools each bag: [rows, dim].
func (s *Step) Lookup(e Embedding, r Ragged, _ Pool) (Tensor, error) {
	o, err := s.operand(e, r)
	if err != nil {
		return Tensor{}, err
	}
	dim := int(e.Dim)
	n := len(r.Offsets) - 1
	o.out = zeroed(o.out, n*dim)
	for i := range n {
		bag := o.out[i*dim:][:dim]
		for j := r.Offsets[i]; j < r.Offsets[i+1]; j++ {
			w, row := r.Weights[j], o.rows[int(o.index[j])*dim:][:dim]
			for d := range bag {
				bag[d] += float32(w * row[d])
			}
		}
	}
	return Tensor{Shape: []int{n, dim}, Data: o.out, of: o}, nil
}

// Value reads this step's weights of a dense tensor. They are read only.
func (s *Step) Value(d Dense) (Tensor, error) {
	o, err := s.operand(d, Ragged{})
	if err != nil {
		return Tensor{}, err
	}
	return Tensor{Shape: d.Shape, Data: o.rows, of: o}, nil
}

// operand finds what was read ahead for this use, or reads it now.
func (s *Step) operand(t Table, r Ragged) (*operand, error) {
	if i := slices.IndexFunc(s.ready, func(o *operand) bool { return same(o.table, t) && sameKeys(o.bags, r) }); i >= 0 {
		o := s.ready[i]
		s.ready = slices.Delete(s.ready, i, i+1)
		s.operands = append(s.operands, o)
		return o, nil
	}
	o := s.newOperand(t, r)
	s.operands = append(s.operands, o)
	return o, s.read(s.ctx, s.at(), []*operand{o})
}

func sameKeys(a, b Ragged) bool {
	return a.feature == b.feature && len(a.Keys) == len(b.Keys) && (len(a.Keys) == 0 || &a.Keys[0] == &b.Keys[0])
}

// newOperand finds the unique keys of a use and makes room for their rows.
func (s *Step) newOperand(t Table, r Ragged) *operand {
	o := &operand{}
	if n := len(s.free); n > 0 {
		o, s.free = s.free[n-1], s.free[:n-1]
	}
	o.table, o.bags, o.used = t, r, false
	w := t.spec()
	if dense(t) {
		o.keys = nil
		o.rows = sized(o.rows, elements(w))
		return o
	}
	o.keys, o.index = s.uniq.find(r.Keys, o.keys[:0], o.index[:0])
	o.rows = sized(o.rows, len(o.keys)*int(w.Dim))
	return o
}

// read pulls the rows of several uses with one message a shard. Uses that
// share a table are read once.
func (s *Step) read(ctx context.Context, step uint64, uses []*operand) error {
	rest := uses
	for len(rest) > 0 {
		var reads []Read
		var again []*operand
		for _, o := range rest {
			if slices.ContainsFunc(reads, func(r Read) bool { return same(r.Table, o.table) }) {
				again = append(again, o) // the same table twice: a round of its own
				continue
			}
			reads = append(reads, Read{Table: o.table, Keys: o.keys, Out: o.rows})
		}
		p, err := s.c.newPull(reads)
		if err != nil {
			return err
		}
		if err := p.run(ctx, step); err != nil {
			return err
		}
		rest = again
	}
	return nil
}

// Grad gives the gradient of a Lookup's or Value's result, summed over the
// batch's rows; the SDK spreads a pooled one over the rows behind it. Given
// twice, gradients add up.
func (s *Step) Grad(of Tensor, grad []float32) error {
	o := of.of
	if o == nil || len(grad) != len(of.Data) {
		return fmt.Errorf("gradient of %d floats for a tensor of shape %v", len(grad), of.Shape)
	}
	if !o.used {
		o.grad, o.used = zeroed(o.grad, len(o.rows)), true
	}
	if dense(o.table) {
		for i, g := range grad {
			o.grad[i] += g
		}
		return nil
	}
	dim := int(o.table.spec().Dim)
	for i := range len(o.bags.Offsets) - 1 {
		g := grad[i*dim:][:dim]
		for j := o.bags.Offsets[i]; j < o.bags.Offsets[i+1]; j++ {
			w, row := o.bags.Weights[j], o.grad[int(o.index[j])*dim:][:dim]
			for d := range row {
				row[d] += float32(w * g[d])
			}
		}
	}
	return nil
}

// Loss adds a batch's loss: its sum over rows.
func (s *Step) Loss(sum float64, rows int) {
	s.lossSum += sum
	s.lossRows += rows
}

// Score gives one score a row, for evaluation and prediction.
func (s *Step) Score(scores []float32) { s.scores = append(s.scores, scores...) }

// gradients is what the step pushes, one Gradient a table.
func (s *Step) gradients() []Gradient {
	var grads []Gradient
	for _, o := range s.operands {
		if !o.used {
			continue
		}
		g := Gradient{Table: o.table, Keys: o.keys, Values: o.grad}
		if i := slices.IndexFunc(grads, func(h Gradient) bool { return same(h.Table, g.Table) }); i >= 0 {
			grads[i] = addGradients(grads[i], g)
			continue
		}
		grads = append(grads, g)
	}
	return grads
}

// addGradients merges two gradients of one table: a's share of a row first.
func addGradients(a, b Gradient) Gradient {
	dim := int(a.Table.spec().Dim)
	if dense(a.Table) {
		sum := slices.Clone(a.Values)
		for i, v := range b.Values {
			sum[i] += v
		}
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
			for d, v := range b.Values[j*dim:][:dim] {
				out.Values[n+d] += v
			}
			j++
		}
	}
	return out
}

// begun sets the context of all reads of the steps to come.
func (s *Step) begun(ctx context.Context) { s.ctx = ctx }

// begin makes the step ready for a batch; ahead is what was read for it.
func (s *Step) begin(b *dataset.Batch, ahead []*operand) {
	s.batch, s.ready, s.fault = b, ahead, nil
	s.lossSum, s.lossRows, s.scores = 0, 0, s.scores[:0]
}

// end takes the memory of this step's reads back.
func (s *Step) end() {
	s.free = append(append(s.free, s.operands...), s.ready...)
	s.operands, s.ready = s.operands[:0], nil
}

func sized(b []float32, n int) []float32 {
	if cap(b) < n {
		return make([]float32, n)
	}
	return b[:n]
}

func zeroed(b []float32, n int) []float32 {
	b = sized(b, n)
	clear(b)
	return b
}
