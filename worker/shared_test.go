package worker_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"

	"hcclps/ps"
	"hcclps/ps/pstest"
	"hcclps/worker"
	"hcclps/worker/dataset"
)

// scratch runs one server without replication for one test.
func scratch(t *testing.T) *ps.Local {
	t.Helper()
	return pstest.Serve(t, ps.LocalConfig{Servers: 1, Scratch: true, Shards: 2})
}

// stream is a Source of rows that are functions of their number, in batches of
// any size: two sparse features, and a label that the first one decides.
type stream struct {
	rows, batch int
	epoch, at   int // row
	label       func(row int) float32
}

func (s *stream) Next(b *dataset.Batch) (bool, error) {
	if s.at >= s.rows {
		s.epoch, s.at = s.epoch+1, 0
		return false, nil
	}
	*b = dataset.Batch{}
	user, items := dataset.Ragged{Offsets: []int32{0}}, dataset.Ragged{Offsets: []int32{0}}
	for ; s.at < s.rows && b.Rows < s.batch; s.at++ {
		b.Rows++
		label := float32(s.at * 7 % 5 & 1)
		if s.label != nil {
			label = s.label(s.at)
		}
		b.Label, b.Weight = append(b.Label, label), append(b.Weight, 1)
		user.Keys, user.Weights = append(user.Keys, uint64(s.at*s.at%17)), append(user.Weights, 1)
		user.Offsets = append(user.Offsets, int32(len(user.Keys)))
		for j := range s.at % 4 {
			items.Keys = append(items.Keys, uint64((s.at*31+j*j)%23))
			items.Weights = append(items.Weights, 0.3+float32(j))
		}
		items.Offsets = append(items.Offsets, int32(len(items.Keys)))
	}
	b.Features = []dataset.Column{{Name: "user", Ragged: user}, {Name: "items", Ragged: items}}
	return true, nil
}

func (s *stream) Seek(epoch, batch int) error {
	s.epoch, s.at = epoch, min(batch*s.batch, s.rows)
	return nil
}

func (*stream) Close() error { return nil }

// shared is a model whose two features use one table in three ways, beside a
// dense vector: score = dense . (user + mean of items) + sum of items[0].
type shared struct {
	rows   worker.Embedding
	weight worker.Dense
	values bool // the score is a value, not a probability
}

const sharedDim = 3

func newShared(ctx context.Context, c *worker.Client, opt worker.Optimizer) (*shared, error) {
	e, err := c.Embedding(ctx, "rows", worker.EmbeddingSpec{Dim: sharedDim, Optimizer: opt, Init: worker.Init{Name: "uniform", Params: map[string]float64{"low": -0.5, "high": 0.5}}})
	if err != nil {
		return nil, err
	}
	d, err := c.Dense(ctx, "weight", []int{sharedDim}, worker.DenseSpec{Optimizer: opt, Init: worker.Init{Name: "constant", Params: map[string]float64{"value": 0.5}}})
	return &shared{rows: e, weight: d}, err
}

func (m *shared) Regression() bool { return m.values }

func (m *shared) Step(s *worker.Step) error {
	user, err := s.Lookup(m.rows, s.Ragged("user"), worker.Sum)
	if err != nil {
		return err
	}
	items, err := s.Lookup(m.rows, s.Ragged("items"), worker.Mean)
	if err != nil {
		return err
	}
	each, err := s.Lookup(m.rows, s.Ragged("items"), worker.None)
	if err != nil {
		return err
	}
	w, err := s.Value(m.weight)
	if err != nil {
		return err
	}
	var loss float64
	scores, grads := make([]float32, s.Rows()), make([]float32, s.Rows())
	offsets := s.Ragged("items").Offsets
	for i, label := range s.Label() {
		logit := 0.0
		for d := range sharedDim {
			logit += float64(w.Data[d]) * float64(user.Data[i*sharedDim+d]+items.Data[i*sharedDim+d])
		}
		for j := offsets[i]; j < offsets[i+1]; j++ {
			logit += float64(each.Data[j*sharedDim])
		}
		scores[i] = float32(1 / (1 + math.Exp(-logit)))
		if m.values {
			scores[i] = float32(logit)
		}
		grads[i] = scores[i] - label
		loss += float64(grads[i] * grads[i])
	}
	s.Score(scores)
	s.Loss(loss, s.Rows())
	if !s.Training() {
		return nil
	}
	dUser, dEach, dWeight := make([]float32, len(user.Data)), make([]float32, len(each.Data)), s.GradOf(w)
	for i, g := range grads {
		for d := range sharedDim {
			dUser[i*sharedDim+d] = g * w.Data[d]
			dWeight[d] += g * (user.Data[i*sharedDim+d] + items.Data[i*sharedDim+d])
		}
		for j := offsets[i]; j < offsets[i+1]; j++ {
			dEach[j*sharedDim] = g
		}
	}
	return errors.Join(s.Grad(user, dUser), s.Grad(items, dUser), s.Grad(each, dEach))
}

// errDied is what train returns for a worker that is to be started again.
var errDied = errors.New("died here")

// workers runs a job's ranks, each with a client and a model of its own, and
// returns the digest of the parameters.
func workers(t *testing.T, l *ps.Local, cfg worker.Config, opt worker.Optimizer, train func(rank int, c *worker.Client, m *shared) error) string {
	t.Helper()
	var wg sync.WaitGroup
	var digest string
	for rank := range max(cfg.World, 1) {
		wg.Go(func() {
			cfg := cfg
			cfg.Rank = rank
			live := func() error {
				c, err := dial(t.Context(), l, cfg)
				if err != nil {
					return err
				}
				defer c.Abandon()
				m, err := newShared(t.Context(), c, opt)
				if err != nil {
					return err
				}
				if err := train(rank, c, m); err != nil || rank != 0 {
					return err
				}
				digest, err = c.Digest(t.Context())
				return err
			}
			err := live()
			for errors.Is(err, errDied) {
				err = live()
			}
			if err != nil {
				t.Errorf("job %s, rank %d: %v", cfg.Job, rank, err)
			}
		})
	}
	wg.Wait()
	return digest
}

func sgd(lr float64) worker.Optimizer {
	return worker.Optimizer{Name: "sgd", Params: map[string]float64{"lr": lr}}
}
