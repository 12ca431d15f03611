package model

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hcclps/worker"
	"hcclps/worker/dataset"
)

// pairSchema is what mf takes, sharedSchema has all a schema can have: bags of
// several ids, of none, poolings, a table of two features, a cross, numbers.
func pairSchema() *dataset.Schema {
	return &dataset.Schema{Features: []dataset.Feature{
		{Name: "rating", Kind: dataset.KindLabel, Number: true},
		{Name: "user", Kind: dataset.KindID},
		{Name: "item", Kind: dataset.KindID},
	}}
}

func sharedSchema() *dataset.Schema {
	return &dataset.Schema{Features: []dataset.Feature{
		{Name: "click", Kind: dataset.KindLabel},
		{Name: "user", Kind: dataset.KindID},
		{Name: "age", Kind: dataset.KindNumeric, Transform: dataset.TransformStandard},
		{Name: "item", Kind: dataset.KindID},
		{Name: "seen", Kind: dataset.KindSequence, Table: "item"},
		{Name: "tags", Kind: dataset.KindIDs, Pooling: "sqrt"},
		{Name: "user-item", Kind: dataset.KindCross, Of: []string{"user", "item"}},
		{Name: "price", Kind: dataset.KindNumeric, Transform: dataset.TransformLog},
	}}
}

func smallBatch() dataset.Batch {
	return dataset.Batch{
		Rows:   5,
		Label:  []float32{1, 0, 0, 1, 1},
		Weight: []float32{1, 1, 2, 1, 0.5},
		Features: []dataset.Column{
			bags("user", []uint64{1}, []uint64{2}, []uint64{1}, []uint64{3}, []uint64{2}),
			{Name: "age", Numeric: []float32{0.5, -1, 0, 1.5, -0.25}},
			bags("item", []uint64{7}, []uint64{8}, []uint64{8}, []uint64{7}, []uint64{9}),
			bags("seen", []uint64{8, 9, 8}, nil, []uint64{7}, []uint64{9, 7}, []uint64{7}),
			bags("tags", []uint64{1, 2, 3}, []uint64{2}, nil, []uint64{3, 1}, []uint64{2, 4}),
			bags("user-item", []uint64{17}, []uint64{28}, []uint64{18}, []uint64{37}, []uint64{29}),
			{Name: "price", Numeric: []float32{-0.5, 0.75, 1, 0, 0.125}},
		},
	}
}

func libsvmBatch() dataset.Batch {
	return dataset.Batch{Rows: 4, Label: []float32{1, 0, 0, 1}, Features: []dataset.Column{
		bags(dataset.Features, []uint64{1, 4, 5}, []uint64{2, 4}, []uint64{3}, []uint64{1, 2, 3, 5}),
	}}
}

func TestGradientsAreThoseOfTheLoss(t *testing.T) {
	t.Parallel()
	l := cluster(t)
	for _, name := range Names() {
		for _, data := range []struct {
			name   string
			schema *dataset.Schema
			batch  dataset.Batch
		}{{"columns", sharedSchema(), smallBatch()}, {"pairs", pairSchema(), smallBatch()}, {"libsvm", nil, libsvmBatch()}} {
			if name == NameMF && data.name != "pairs" || data.schema == nil && (name == NameDLRM || name == NameTwoTower) {
				continue
			}
			t.Run(name+"/"+data.name, func(t *testing.T) {
				t.Parallel()
				c := connect(t, l, worker.Config{Job: name + data.name, Sum: true})
				sgd := worker.Optimizer{Name: "sgd", Params: map[string]float64{"lr": 1}}
				st := newStore(c, Options{Dim: 4, Hidden: []int{6, 5}, Optimizer: sgd}.withDefaults(name))
				m, err := build(t.Context(), st, data.schema)
				if err != nil {
					t.Fatal(err)
				}
				newProbe(t, st, data.schema, data.batch).run(m)
			})
		}
	}
}

// probe compares the gradients that a model pushes with finite differences of
// its loss: it moves the weights between the steps of Train over one batch.
type probe struct {
	t      *testing.T
	c      *worker.Client
	batch  dataset.Batch
	reads  []worker.Read // one a table, Out being the weights now
	names  []string
	losses []float64
	plan   []move
	base   [][]float32 // the weights around which is moved
	grad   [][]float32
}

// move is one step's place: base + step x direction, in one table.
type move struct {
	table     int
	step      float32
	direction []float32
}

// steps are the distances of the differences: where the larger one steps over
// the kink of a ReLU, the smaller one does not.
func steps() []float32 { return []float32{1.0 / 512, 1.0 / 4096} }

func newProbe(t *testing.T, st *store, schema *dataset.Schema, b dataset.Batch) *probe {
	t.Helper()
	p := &probe{t: t, c: st.c, batch: b}
	for _, f := range st.fields(schema) {
		e := st.embeddings[slices.IndexFunc(st.embeddings, func(e worker.Embedding) bool {
			return e.Name == f.table || e.Name == "lr.weight."+f.table || e.Name == "lr.weight"
		})]
		at := slices.Index(p.names, e.Name)
		if at < 0 {
			at = len(p.names)
			p.names = append(p.names, e.Name)
			p.reads = append(p.reads, worker.Read{Table: e})
		}
		r := &p.reads[at]
		r.Keys = append(r.Keys, b.Column(f.name).Keys...)
		slices.Sort(r.Keys)
		r.Keys = slices.Compact(r.Keys)
		r.Out = make([]float32, len(r.Keys)*int(e.Dim))
	}
	for _, d := range st.dense {
		n := 1
		for _, k := range d.Shape {
			n *= k
		}
		p.names = append(p.names, d.Name)
		p.reads = append(p.reads, worker.Read{Table: d, Out: make([]float32, n)})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i, r := range p.reads {
		var base []float32
		for range r.Out {
			base = append(base, float32(rng.NormFloat64())*0.4)
		}
		p.base = append(p.base, base)
		for range 3 {
			var direction []float32
			for range r.Out {
				direction = append(direction, float32(rng.NormFloat64()))
			}
			for _, step := range steps() {
				p.plan = append(p.plan, move{i, step, direction}, move{i, -step, direction})
			}
		}
	}
	return p
}

func (p *probe) run(m worker.Model) {
	ctx, stop := context.WithCancelCause(p.t.Context())
	enough := errors.New("enough")
	p.place(ctx, move{})
	step := 0
	_, err := p.c.Train(ctx, m, &batches{all: slices.Repeat([]dataset.Batch{p.batch}, len(p.plan)+2)}, worker.TrainOptions{
		NoPrefetch: true,
		OnStep: func(now worker.Progress) {
			if step == 0 {
				p.keepGradients(ctx)
			} else {
				p.losses = append(p.losses, now.Loss*float64(p.batch.Rows))
			}
			if step < len(p.plan) {
				p.place(ctx, p.plan[step])
			} else {
				stop(enough)
			}
			step++
		},
	})
	if !errors.Is(err, enough) {
		p.t.Fatal(err)
	}
	p.compare()
}

// place pushes what takes all weights to a move's place.
func (p *probe) place(ctx context.Context, to move) {
	p.pull(ctx)
	var grads []worker.Gradient
	for i, r := range p.reads {
		g := worker.Gradient{Table: r.Table, Keys: r.Keys, Values: slices.Clone(r.Out)}
		for j := range g.Values {
			g.Values[j] -= p.base[i][j]
			if i == to.table && to.direction != nil {
				g.Values[j] -= to.step * to.direction[j]
			}
		}
		grads = append(grads, g)
	}
	if err := p.c.Push(ctx, p.batch.Rows, p.c.Cursor(), grads...); err != nil {
		p.t.Fatal(err)
	}
}

func (p *probe) pull(ctx context.Context) {
	if err := p.c.Pull(ctx, p.reads...); err != nil {
		p.t.Fatal(err)
	}
}

// keepGradients takes the gradients of the first step, whose rate was 1.
func (p *probe) keepGradients(ctx context.Context) {
	p.pull(ctx)
	for i, r := range p.reads {
		g := slices.Clone(p.base[i])
		for j := range g {
			g[j] -= r.Out[j]
		}
		p.grad = append(p.grad, g)
	}
}

func (p *probe) compare() {
	for len(p.plan) > 0 {
		m := p.plan[0]
		got := 0.0
		for j, g := range p.grad[m.table] {
			got += float64(g) * float64(m.direction[j])
		}
		var want []float64
		for range steps() {
			want = append(want, (p.losses[0]-p.losses[1])/float64(2*p.plan[0].step))
			p.plan, p.losses = p.plan[2:], p.losses[2:]
		}
		near := func(w float64) bool { return math.Abs(got-w) < 2e-3+2e-3*math.Abs(w) }
		if !slices.ContainsFunc(want, near) {
			p.t.Errorf("%s: gradient along a direction %v, differences of the loss say %v", p.names[m.table], got, want)
		}
	}
}
