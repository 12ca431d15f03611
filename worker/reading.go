package worker

import (
	"context"
	"slices"
)

// reading is the rows of a table that the uses of a batch read together. Its
// memory serves batch after batch.
type reading struct {
	table Table
	keys  []uint64  // of all uses, distinct, ascending; none for a dense tensor
	rows  []float32 // [len(keys), dim], or the tensor
	uses  []*operand
}

// reading is an empty one of a table.
func (s *Step) reading(t Table) *reading {
	i := slices.IndexFunc(s.free, func(r *reading) bool { return same(r.table, t) })
	if i < 0 {
		return &reading{table: t}
	}
	r := s.free[i]
	s.free = slices.Delete(s.free, i, i+1)
	r.table, r.uses = t, r.uses[:0]
	return r
}

// use adds a use of the rows of bags.
func (r *reading) use(bags Ragged) *operand {
	n := len(r.uses)
	if r.uses = slices.Grow(r.uses, 1)[:n+1]; r.uses[n] == nil {
		r.uses[n] = &operand{reading: r}
	}
	o := r.uses[n]
	o.bags, o.used = bags, false
	return o
}

// prepare finds the keys of all uses and makes room for their rows.
func (r *reading) prepare(u *uniquer) {
	t := r.table.spec()
	if dense(r.table) {
		r.rows = sized(r.rows, elements(t))
		return
	}
	u.unite(r)
	r.rows = sized(r.rows, len(r.keys)*int(t.Dim))
}

// pullOf is a pull of all rows of prepared readings.
func (c *Client) pullOf(readings []*reading) (reader, error) {
	reads := make([]Read, len(readings))
	for i, r := range readings {
		reads[i] = Read{Table: r.table, Keys: r.keys, Out: r.rows}
	}
	return c.store.read(reads)
}

// read reads the rows of a use that nobody has foreseen.
func (s *Step) read(ctx context.Context, r *reading) error {
	r.prepare(&s.uniq)
	p, err := s.c.pullOf([]*reading{r})
	if err != nil {
		return err
	}
	stage := s.clock.enter(pulling, s.c.Clock())
	var until latest
	err = p.run(ctx, s.at(), &until)
	stage.leave(until.time())
	return err
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
