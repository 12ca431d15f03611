package model

import (
	"context"

	"hcclps/worker"
	"hcclps/worker/dataset"
)

// WideDeep is logistic regression beside a deep network (Cheng et al., DLRS
// 2016): the score of a row is sigmoid(wide + deep). Wide is as in LR, over all
// features; the input of the network is the pooled vector of each sparse feature
// but the crosses, which are wide only, and the numeric features. The dims of
// the features may differ.
type WideDeep struct {
	fields *pooled
	beside
}

// NewWideDeep makes the model for data of the given schema.
func NewWideDeep(ctx context.Context, c *worker.Client, schema *dataset.Schema, o Options) (*WideDeep, error) {
	return newWideDeep(ctx, newStore(c, o.withDefaults(NameWideDeep)), schema)
}

func newWideDeep(ctx context.Context, st *store, schema *dataset.Schema) (*WideDeep, error) {
	p := newPooled(ctx, st, st.fields(schema), true, 0.01)
	m := &WideDeep{p, newBeside(ctx, st, NameWideDeep, schema, p.width)}
	return m, st.err
}

// Step implements worker.Model.
func (m *WideDeep) Step(s *worker.Step) error { return m.step(s, m.fields) }
