package model

import (
	"context"

	"hcclps/worker"
	"hcclps/worker/dataset"
)

// DeepFM is a factorisation machine beside a deep network over the same vectors
// (Guo et al., IJCAI 2017): the score of a row is sigmoid(fm + deep), where fm is
// as in FM, and the input of the network is the pooled vector of each field, and
// the numeric features.
type DeepFM struct {
	factors *factors
	beside
}

// NewDeepFM makes the model for data of the given schema.
func NewDeepFM(ctx context.Context, c *worker.Client, schema *dataset.Schema, o Options) (*DeepFM, error) {
	return newDeepFM(ctx, newStore(c, o.withDefaults(NameDeepFM)), schema)
}

func newDeepFM(ctx context.Context, st *store, schema *dataset.Schema) (*DeepFM, error) {
	f := newFactors(ctx, st, schema)
	m := &DeepFM{f, newBeside(ctx, st, NameDeepFM, schema, len(f.fields)*f.dim)}
	return m, st.err
}

// Step implements worker.Model.
func (m *DeepFM) Step(s *worker.Step) error { return m.step(s, m.factors) }
