package pstest

import (
	"fmt"
	"math"
	"slices"

	"hcclps/ps/layout"
	"hcclps/ps/table"
	"hcclps/ps/wire"
)

// cell is one row of a job: a table and a key.
type cell struct {
	table uint32
	key   uint64
}

// lane is the part of a job's rows that one part of a step at one shard
// touches: within a lane a step is applied whole or not at all.
type lane struct{ shard, part uint32 }

func (l lane) String() string { return fmt.Sprintf("shard %d, part %d", l.shard, l.part) }

// row is a row of the model: weights, then optimizer slots.
type row struct {
	values    []float32
	sightings uint16
	step      uint32 // last step that touched it, + 1
	waiting   uint32 // sightings of a key that has no row yet; 0: it has one
}

func (r row) clone() row {
	r.values = slices.Clone(r.values)
	return r
}

// rows are those of a lane that were touched.
type rows map[cell]row

func (r rows) clone() rows {
	out := make(rows, len(r))
	for c, v := range r {
		out[c] = v.clone()
	}
	return out
}

// model knows a job's tables, where their keys live, and how rows change.
type model struct {
	layout layout.Layout
	params wire.JobParams
	tables map[uint32]wire.Table
	first  map[uint32]*table.Table // empty tables, for initial weights
}

// newModel makes a model; close it.
func newModel(l layout.Layout, j Job) (*model, error) {
	m := &model{layout: l, params: j.Params, tables: map[uint32]wire.Table{}, first: map[uint32]*table.Table{}}
	for _, t := range j.Tables {
		spec := table.Spec{Dim: int(t.Dim), Seed: t.Seed, HashSeed: l.HashSeed, Init: table.Init{Kind: t.Init}}
		switch t.Init {
		case "constant":
			spec.Init.A = float32(t.InitParams["value"])
		case "uniform":
			spec.Init.A, spec.Init.B = float32(t.InitParams["low"]), float32(t.InitParams["high"])
		default:
			return nil, fmt.Errorf("model table %q: initializer %q is not modelled", t.Name, t.Init)
		}
		empty, err := table.New(spec)
		if err != nil {
			return nil, fmt.Errorf("model table %q: %w", t.Name, err)
		}
		m.tables[t.ID], m.first[t.ID] = t, empty
	}
	return m, nil
}

func (m *model) close() {
	for _, t := range m.first {
		_ = t.Close() // memory of our own
	}
}

// lanes lists all lanes of the job.
func (m *model) lanes() []lane {
	var out []lane
	for s := range uint32(len(m.layout.Shards)) {
		for p := range m.params.Parts {
			out = append(out, lane{s, p})
		}
	}
	return out
}

// laneOf is where a key travels.
func (m *model) laneOf(key uint64) lane { return laneOf(m.layout, m.params.Parts, key) }

func laneOf(l layout.Layout, parts uint32, key uint64) lane {
	p, n := l.Partition(key), len(l.Shards)
	return lane{layout.ShardOf(p, n), uint32(layout.PartOf(p, n, int(parts)))}
}

// in is the share of a gradient, or of what was read, that belongs to a lane.
func (m *model) in(l lane, grads []Gradient) []Gradient {
	var out []Gradient
	for _, g := range grads {
		dim := int(m.tables[g.Table].Dim)
		part := Gradient{Table: g.Table}
		for i, k := range g.Keys {
			if m.laneOf(k) == l {
				part.Keys = append(part.Keys, k)
				part.Values = append(part.Values, g.Values[i*dim:][:dim]...)
			}
		}
		if len(part.Keys) > 0 {
			out = append(out, part)
		}
	}
	return out
}

// initial is a row that was never touched.
func (m *model) initial(c cell) row {
	t := m.tables[c.table]
	dim := int(t.Dim)
	r := row{values: make([]float32, dim, 2*dim)}
	m.first[c.table].Gather([]uint64{c.key}, r.values)
	if t.Optimizer == "adagrad" {
		for range dim {
			r.values = append(r.values, float32(t.Params["initial_accumulator"]))
		}
	}
	return r
}

// get is a row as it is, touched or not.
func (m *model) get(rs rows, c cell) row {
	if r, ok := rs[c]; ok && r.waiting == 0 {
		return r
	}
	return m.initial(c)
}

// weights are the weights of a row.
func (m *model) weights(rs rows, c cell) []float32 {
	return m.get(rs, c).values[:m.tables[c.table].Dim]
}

// sum adds gradients in the order given, key by key.
func sum(parts [][]Gradient, dim func(table uint32) int) map[cell][]float32 {
	total := map[cell][]float32{}
	for _, grads := range parts {
		for _, g := range grads {
			d := dim(g.Table)
			for i, k := range g.Keys {
				c, v := cell{g.Table, k}, g.Values[i*d:][:d]
				if have, ok := total[c]; ok {
					for e := range have {
						have[e] += v[e]
					}
				} else {
					total[c] = slices.Clone(v)
				}
			}
		}
	}
	return total
}

// apply is one update of a lane: the sum of some gradients in ascending rank,
// over the rows of data behind all of them.
func (m *model) apply(rs rows, step uint64, divisor uint64, rate float32, parts [][]Gradient) {
	if divisor == 0 {
		return
	}
	for c, g := range sum(parts, func(t uint32) int { return int(m.tables[t].Dim) }) {
		r := m.get(rs, c)
		if have, ok := rs[c]; !ok || have.waiting > 0 {
			if seen := have.waiting + 1; seen < m.tables[c.table].Admit.Count {
				rs[c] = row{waiting: seen, step: uint32(step + 1)}
				continue
			}
		}
		if divisor > 1 {
			for i := range g {
				g[i] /= float32(divisor)
			}
		}
		update(m.tables[c.table], r.values, g, rate)
		if r.sightings < math.MaxUint16 {
			r.sightings++
		}
		r.step = uint32(step + 1)
		rs[c] = r
	}
}

// sweep evicts after a step, when so many are complete: of few steps of age all rows at once.
func (m *model) sweep(rs rows, now uint64) {
	for c, r := range rs {
		if most := m.tables[c.table].Evict.Age; most > 0 && now-uint64(r.step) >= most {
			delete(rs, c)
		}
	}
}

// update is one optimizer step on one row, in float64 rounded once a value:
// sgd w - lr g, adagrad s + g g and w - lr g / (sqrt(s) + eps).
func update(t wire.Table, values, g []float32, rate float32) {
	lr := t.Params["lr"] * float64(rate)
	dim := len(g)
	for i := range g {
		d, w := float64(g[i]), float64(values[i])
		switch t.Optimizer {
		case "adagrad":
			s := float64(values[dim+i]) + float64(d*d)
			values[dim+i] = float32(s)
			values[i] = float32(w - float64(lr*d)/(math.Sqrt(s)+t.Params["eps"]))
		default:
			values[i] = float32(w - float64(lr*d))
		}
	}
}

// divisor is what sums of gradients are divided by.
func (m *model) divisor(rows uint64) uint64 {
	if m.params.Sum && rows > 0 {
		return 1
	}
	return rows
}

// same compares values bit for bit.
func same(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}
