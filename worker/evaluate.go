package worker

import (
	"context"
	"fmt"

	"hcclps/ps/wire"
	"hcclps/worker/dataset"
)

// Regressor is a Model that may say that its scores are values, a rating for
// instance, not probabilities: they are judged by their errors.
type Regressor interface {
	Regression() bool
}

func regression(m Model) bool {
	r, ok := m.(Regressor)
	return ok && r.Regression()
}

// Evaluate runs the model forward over one epoch of the source, from where it
// stands, and judges its scores; names are those of metrics by group (see
// Metrics). It reads the parameters as of this worker's clock; once this worker
// has finished, those at the end, when every worker of the job has finished. It
// creates no rows and changes nothing.
func (c *Client) Evaluate(ctx context.Context, m Model, src dataset.Source, names ...string) (*Metrics, error) {
	out, err := newMetrics(names)
	if err != nil {
		return nil, fmt.Errorf("evaluate: %w", err)
	}
	values := regression(m)
	err = c.score(ctx, m, src, func(scores []float32, b *dataset.Batch) error { return out.add(scores, b, values) })
	if err != nil {
		return nil, fmt.Errorf("evaluate: %w", err)
	}
	return out, nil
}

// Predict runs the model forward like Evaluate, and gives sink the scores batch
// by batch, one a row in the order of the source; they are valid until sink
// returns. Labels are not looked at.
func (c *Client) Predict(ctx context.Context, m Model, src dataset.Source, sink func(scores []float32) error) error {
	err := c.score(ctx, m, src, func(scores []float32, _ *dataset.Batch) error { return sink(scores) })
	if err != nil {
		return fmt.Errorf("predict: %w", err)
	}
	return nil
}

// score runs the model forward over one epoch. The next batch and its rows are
// read while one is computed.
func (c *Client) score(ctx context.Context, m Model, src dataset.Source, each func(scores []float32, b *dataset.Batch) error) error {
	ctx, cancel := context.WithCancel(ctx)
	s := Step{c: c, ctx: ctx, final: c.finished}
	var batches [2]dataset.Batch
	cur, next := &batches[0], &batches[1]
	more, err := src.Next(cur)
	var pre *ahead
	defer func() {
		cancel()
		pre.settle(c.cfg.Logger)
	}()
	fill := func() (bool, error) {
		var err error
		more, err = src.Next(next)
		return more, err
	}
	for ; more && err == nil; cur, next = next, cur {
		now := pre
		pre = nil
		if err := now.wait(ctx); err != nil {
			return err
		}
		s.begin(cur, now)
		first := len(s.habits) == 0 // what a batch uses is not known
		if !first {
			pre = s.fetch(ctx, next, fill)
			pre.send(s.at())
		}
		if err := s.forward(m); err != nil {
			return err
		}
		if first {
			pre = s.fetch(ctx, next, fill)
			pre.send(s.at())
		}
		if err := <-pre.filled; err != nil {
			return err
		}
		if len(s.scores) != cur.Rows {
			return fmt.Errorf("the model gave %d scores for %d rows", len(s.scores), cur.Rows)
		}
		if err := each(s.scores, cur); err != nil {
			return err
		}
		s.end()
	}
	return err
}

// at is the step that reads see: this worker's clock, or the end.
func (s *Step) at() uint64 {
	if s.final {
		return wire.Infinity
	}
	return s.c.Clock()
}
