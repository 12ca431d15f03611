package model

import (
	"context"
	"fmt"

	"hcclps/worker"
)

// store makes a model's tables. The first error is kept, and ends the making.
type store struct {
	c          *worker.Client
	o          Options
	embeddings []worker.Embedding
	dense      []worker.Dense
	err        error
}

func newStore(c *worker.Client, o Options) *store { return &store{c: c, o: o} }

// vectors makes, or finds, an embedding table of rows of dim floats around zero.
func (st *store) vectors(ctx context.Context, name string, dim int, deviation float64) worker.Embedding {
	spec := worker.EmbeddingSpec{Dim: dim, Optimizer: st.o.Optimizer, Admit: st.o.Admit, Evict: st.o.Evict}
	if deviation > 0 {
		spec.Init = worker.Init{Name: "normal", Params: map[string]float64{"std": deviation}}
	}
	if st.err != nil {
		return worker.Embedding{}
	}
	var e worker.Embedding
	e, st.err = st.c.Embedding(ctx, name, spec)
	st.embeddings = append(st.embeddings, e)
	return e
}

// zeros makes, or finds, a dense tensor that begins with zeros.
func (st *store) zeros(ctx context.Context, name string, shape ...int) worker.Dense {
	return st.tensor(ctx, name, shape, worker.Init{})
}

func (st *store) tensor(ctx context.Context, name string, shape []int, init worker.Init) worker.Dense {
	if st.err != nil {
		return worker.Dense{}
	}
	var d worker.Dense
	d, st.err = st.c.Dense(ctx, name, shape, worker.DenseSpec{Init: init, Optimizer: st.o.Dense})
	st.dense = append(st.dense, d)
	return d
}

// fail keeps an error of a constructor's own, which says what is wrong with the
// schema or the options.
func (st *store) fail(format string, args ...any) {
	if st.err == nil {
		st.err = fmt.Errorf("make model %s: %w", st.o.Model, fmt.Errorf(format, args...))
	}
}

// sized returns a slice of n floats, in b's memory if that suffices; what it
// holds is left over from before.
func sized(b []float32, n int) []float32 {
	if cap(b) < n {
		return make([]float32, n)
	}
	return b[:n]
}

// zeroed is sized, cleared.
func zeroed(b []float32, n int) []float32 {
	b = sized(b, n)
	clear(b)
	return b
}
