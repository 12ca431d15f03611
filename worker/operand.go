package worker

import (
	"fmt"
	"math"
	"slices"

	"hcclps/internal/vec"
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
	reading *reading
	bags    Ragged
	pool    Pool
	index   []int32   // of each of bags.Keys: its place in at
	at      []int32   // of each distinct key: its place in reading.keys, ascending
	scale   []float32 // of each bag
	out     []float32 // pooled
	grad    []float32 // [len(at), dim], or like the tensor
	used    bool      // grad was given
	tally   *tally    // where grad goes on; nil: a step is one batch
}

func (o *operand) dim() int { return int(o.reading.table.spec().Dim) }

// row is that of key j of the bags.
func (o *operand) row(j int32, dim int) []float32 {
	return o.reading.rows[int(o.at[o.index[j]])*dim:][:dim]
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
	n, dim := len(r.Offsets)-1, o.dim()
	switch {
	case pool == None:
		n = len(r.Keys)
		o.out = sized(o.out, n*dim)
		for j := range n {
			copy(o.out[j*dim:][:dim], o.row(int32(j), dim))
		}
	case dim == 1:
		o.poolFloats()
	default:
		o.poolRows(dim)
	}
	return Tensor{Shape: []int{n, dim}, Data: o.out, of: o}, nil
}

// poolRows pools the rows of each bag.
func (o *operand) poolRows(dim int) {
	offsets, weights := o.bags.Offsets, o.bags.Weights
	n := len(offsets) - 1
	o.scale, o.out = sized(o.scale, n), zeroed(o.out, n*dim)
	for i := range n {
		o.scale[i] = o.pool.scale(weights[offsets[i]:offsets[i+1]])
		bag := o.out[i*dim:][:dim]
		for j := offsets[i]; j < offsets[i+1]; j++ {
			vec.Axpy(bag, weights[j]*o.scale[i], o.row(j, dim))
		}
	}
}

// poolFloats is poolRows of rows of one float.
func (o *operand) poolFloats() {
	offsets, weights, rows := o.bags.Offsets, o.bags.Weights, o.reading.rows
	n := len(offsets) - 1
	o.scale, o.out = sized(o.scale, n), sized(o.out, n)
	for i := range n {
		from, to := offsets[i], offsets[i+1]
		scale, sum := o.pool.scale(weights[from:to]), float32(0)
		for j := from; j < to; j++ {
			sum += float32(float32(weights[j]*scale) * rows[o.at[o.index[j]]])
		}
		o.scale[i], o.out[i] = scale, sum
	}
}

// scale is what a bag's sum is multiplied by.
func (p Pool) scale(weights []float32) float32 {
	if p == Sum {
		return 1
	}
	var sum float64
	for _, w := range weights {
		if p == Mean {
			sum += float64(w)
		} else {
			sum += float64(w) * float64(w)
		}
	}
	switch {
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
	return Tensor{Shape: d.Shape, Data: o.reading.rows, of: o}, nil
}

// operand finds what was read ahead for this use, or reads it now.
func (s *Step) operand(t Table, bags Ragged) (*operand, error) {
	i := slices.IndexFunc(s.ready, func(o *operand) bool { return same(o.reading.table, t) && sameKeys(o.bags, bags) })
	if i >= 0 {
		o := s.ready[i]
		s.ready = slices.Delete(s.ready, i, i+1)
		s.use(o)
		return o, nil
	}
	r := s.reading(t)
	s.readings = append(s.readings, r)
	o := r.use(bags)
	s.use(o)
	return o, s.read(s.ctx, r)
}

func (s *Step) use(o *operand) {
	if o.tally = nil; s.accumulates {
		o.tally = s.tallyOf(o.reading.table)
	}
	s.operands = append(s.operands, o)
}

func sameKeys(a, b Ragged) bool {
	return a.feature == b.feature && len(a.Keys) == len(b.Keys) && (len(a.Keys) == 0 || &a.Keys[0] == &b.Keys[0])
}
