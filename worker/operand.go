package worker

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// Pool is how the rows of a bag become one. With the weights w of a bag's keys:
type Pool uint8

// Kinds of pooling. An empty bag is zeros.
const (
	Sum  Pool = iota // sum of w x row
	Mean             // that divided by the sum of w
	Sqrt             // that divided by the root of the sum of w x w
	None             // one row a key, without weights: for sequences
)

// operand is one use of a table in a step: what Lookup or Value read, and the
// gradient that comes back.
type operand struct {
	table Table
	bags  Ragged
	pool  Pool
	index []int32   // position of each of bags.Keys in keys
	keys  []uint64  // unique, ascending; none for a dense tensor
	rows  []float32 // [len(keys), dim], or the tensor
	scale []float32 // of each bag
	out   []float32 // pooled
	grad  []float32 // like rows
	used  bool      // grad was given
	tally *tally    // where grad goes on; nil: a step is one batch
}

// Lookup reads the rows of r's keys and pools each bag: [rows, dim], or
// [keys, dim] with None.
func (s *Step) Lookup(e Embedding, r Ragged, pool Pool) (Tensor, error) {
	if pool > None {
		return Tensor{}, fmt.Errorf("look up table %q: pooling %d is unknown", e.Name, pool)
	}
	o, err := s.operand(e, r)
	if err != nil {
		return Tensor{}, err
	}
	o.pool = pool
	dim := int(e.Dim)
	n := len(r.Offsets) - 1
	if pool == None {
		n = len(r.Keys)
		o.out = sized(o.out, n*dim)
		for j, at := range o.index {
			copy(o.out[j*dim:][:dim], o.rows[int(at)*dim:])
		}
		return Tensor{Shape: []int{n, dim}, Data: o.out, of: o}, nil
	}
	o.scale = sized(o.scale, n)
	o.out = zeroed(o.out, n*dim)
	for i := range n {
		o.scale[i] = pool.scale(r.Weights[r.Offsets[i]:r.Offsets[i+1]])
		bag := o.out[i*dim:][:dim]
		for j := r.Offsets[i]; j < r.Offsets[i+1]; j++ {
			w, row := float32(r.Weights[j]*o.scale[i]), o.rows[int(o.index[j])*dim:][:dim]
			for d := range bag {
				bag[d] += float32(w * row[d])
			}
		}
	}
	return Tensor{Shape: []int{n, dim}, Data: o.out, of: o}, nil
}

// scale is what a bag's sum is multiplied by.
func (p Pool) scale(weights []float32) float32 {
	var sum float64
	for _, w := range weights {
		if p == Mean {
			sum += float64(w)
		} else {
			sum += float64(w) * float64(w)
		}
	}
	switch {
	case p == Sum:
		return 1
	case sum == 0:
		return 0
	case p == Mean:
		return float32(1 / sum)
	default:
		return float32(1 / math.Sqrt(sum))
	}
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
		s.use(o)
		return o, nil
	}
	o := s.newOperand(t, r)
	s.use(o)
	return o, s.read(s.ctx, s.at(), []*operand{o})
}

func (s *Step) use(o *operand) {
	if o.tally = nil; s.accumulates {
		o.tally = s.tallyOf(o.table)
	}
	s.operands = append(s.operands, o)
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
// share a table are read together.
func (s *Step) read(ctx context.Context, step uint64, uses []*operand) error {
	var reads []Read
	var shared [][]*operand // uses of the table of each read
	for _, o := range uses {
		i := slices.IndexFunc(reads, func(r Read) bool { return same(r.Table, o.table) })
		if i < 0 {
			reads = append(reads, Read{Table: o.table, Keys: o.keys, Out: o.rows})
			shared = append(shared, []*operand{o})
			continue
		}
		shared[i] = append(shared[i], o)
	}
	for i, with := range shared {
		if len(with) > 1 {
			reads[i] = union(with)
		}
	}
	p, err := s.c.newPull(reads)
	if err != nil {
		return err
	}
	if err := p.run(ctx, step); err != nil {
		return err
	}
	for i, with := range shared {
		if len(with) > 1 {
			share(reads[i], with)
		}
	}
	return nil
}

// union is one read of all that several uses of a table need.
func union(uses []*operand) Read {
	r := Read{Table: uses[0].table}
	if dense(r.Table) {
		r.Out = make([]float32, len(uses[0].rows))
		return r
	}
	for _, o := range uses {
		r.Keys = append(r.Keys, o.keys...)
	}
	slices.Sort(r.Keys)
	r.Keys = slices.Compact(r.Keys)
	r.Out = make([]float32, len(r.Keys)*int(r.Table.spec().Dim))
	return r
}

// share gives each use its rows of a union. Both lists of keys ascend.
func share(r Read, uses []*operand) {
	dim := int(r.Table.spec().Dim)
	for _, o := range uses {
		if dense(o.table) {
			copy(o.rows, r.Out)
			continue
		}
		at := 0
		for i, k := range o.keys {
			for r.Keys[at] != k {
				at++
			}
			copy(o.rows[i*dim:][:dim], r.Out[at*dim:])
		}
	}
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
