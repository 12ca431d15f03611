package worker

import (
	"context"
	"fmt"

	"hcclps/ps/wire"
	"hcclps/worker/dataset"
	"hcclps/worker/metric"
)

// Evaluate runs the model forward over one epoch of the source, after every
// worker of the job has finished, and returns the metrics of its scores. It
// creates no rows and changes nothing.
func (c *Client) Evaluate(ctx context.Context, m Model, src dataset.Source) (*metric.Binary, error) {
	s := Step{c: c, ctx: ctx, final: true}
	out := &metric.Binary{}
	var b dataset.Batch
	for {
		ok, err := src.Next(&b)
		if err != nil {
			return nil, fmt.Errorf("evaluate: %w", err)
		}
		if !ok {
			return out, nil
		}
		s.begin(&b, nil)
		if err := s.forward(m); err != nil {
			return nil, fmt.Errorf("evaluate: %w", err)
		}
		if len(s.scores) != b.Rows {
			return nil, fmt.Errorf("evaluate: model gave %d scores for %d rows", len(s.scores), b.Rows)
		}
		for i, score := range s.scores {
			out.Add(score, b.Label[i])
		}
		s.end()
	}
}

// at is the step that reads see: this worker's clock, or the end.
func (s *Step) at() uint64 {
	if s.final {
		return wire.Infinity
	}
	return s.c.Clock()
}
