package worker

import (
	"slices"
)

// tally is the gradient of one use of a table, over the batches of a step so
// far. Each batch's use goes on adding where the one before left off, row by
// row, so a step cut into batches has the bits of a step of one batch.
type tally struct {
	table  Table
	nth    int // among the uses of the table in a batch
	given  bool
	keys   []uint64 // ascending; none for a dense tensor
	values []float32

	mergedKeys []uint64 // memory of the next merge
	merged     []float32
}

// tallyOf finds the tally of a use that is about to be added to the step's.
func (s *Step) tallyOf(t Table) *tally {
	nth := 0
	for _, o := range s.operands {
		if same(o.reading.table, t) {
			nth++
		}
	}
	for _, y := range s.tallies {
		if same(y.table, t) && y.nth == nth {
			return y
		}
	}
	y := &tally{table: t, nth: nth}
	s.tallies = append(s.tallies, y)
	return y
}

// into copies what was summed up so far of o's rows into its gradient, which is
// zeros.
func (y *tally) into(o *operand) {
	if !y.given {
		return
	}
	if dense(y.table) {
		copy(o.grad, y.values)
		return
	}
	dim, at := int(y.table.spec().Dim), 0
	for i, n := range o.at {
		k := o.reading.keys[n]
		for at < len(y.keys) && y.keys[at] < k {
			at++
		}
		if at < len(y.keys) && y.keys[at] == k {
			copy(o.grad[i*dim:][:dim], y.values[at*dim:])
		}
	}
}

// take takes o's gradient over: o goes on with the tally's old memory.
func (y *tally) take(o *operand) {
	if !y.given || dense(y.table) {
		y.keys = y.keys[:0]
		for _, at := range o.at {
			y.keys = append(y.keys, o.reading.keys[at])
		}
		y.values, o.grad = o.grad, y.values
		y.given = true
		return
	}
	dim := int(y.table.spec().Dim)
	keys, values := y.mergedKeys[:0], y.merged[:0]
	i, j := 0, 0
	for i < len(y.keys) || j < len(o.at) {
		if j == len(o.at) || i < len(y.keys) && y.keys[i] < o.reading.keys[o.at[j]] {
			keys, values = append(keys, y.keys[i]), append(values, y.values[i*dim:][:dim]...)
			i++
			continue
		}
		k := o.reading.keys[o.at[j]]
		if i < len(y.keys) && y.keys[i] == k {
			i++ // o has all of it
		}
		keys, values = append(keys, k), append(values, o.grad[j*dim:][:dim]...)
		j++
	}
	y.mergedKeys, y.keys = y.keys, keys
	y.merged, y.values = y.values, values
}

// carry ends a batch whose step goes on.
func (s *Step) carry() {
	for _, o := range s.operands {
		if o.used {
			o.tally.take(o)
		}
	}
	s.end()
}

// gradients is what the step pushes, one Gradient a table.
func (s *Step) gradients() []Gradient {
	s.sums = s.sums[:0]
	if s.accumulates {
		s.carry()
		for _, y := range s.tallies {
			if y.given {
				s.collect(share{table: y.table, keys: y.keys, values: y.values})
			}
		}
	} else {
		for _, o := range s.operands {
			if o.used {
				s.collect(share{table: o.reading.table, keys: o.reading.keys, at: o.at, values: o.grad, reading: o.reading})
			}
		}
	}
	grads := make([]Gradient, len(s.sums))
	for i := range s.sums {
		grads[i] = s.sums[i].total()
	}
	return grads
}

// collect notes a use's gradient with the others of its table.
func (s *Step) collect(g share) {
	i := slices.IndexFunc(s.sums, func(t gradientSum) bool { return same(t.shares[0].table, g.table) })
	if i < 0 {
		i = len(s.sums)
		if i == cap(s.sums) {
			s.sums = append(s.sums, gradientSum{})
		} else {
			s.sums = s.sums[:i+1] // with the memory of an earlier step
		}
		s.sums[i].shares = s.sums[i].shares[:0]
	}
	s.sums[i].shares = append(s.sums[i].shares, g)
}

// pushed ends a step.
func (s *Step) pushed() {
	for _, y := range s.tallies {
		y.given = false
	}
	s.end()
}
