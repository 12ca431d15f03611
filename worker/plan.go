package worker

import (
	"context"
	"fmt"

	"hcclps/ps/wire"
)

// ScaleRate multiplies every table's learning rate by rate from one step on,
// the same on every shard and for every worker, and returns that step.
func (c *Client) ScaleRate(ctx context.Context, rate float32) (uint64, error) {
	return c.plan(ctx, fmt.Sprintf("scale learning rates by %v", rate), wire.Plan{Kind: wire.PlanRate, Rate: rate})
}

// Stop ends the job at one step for all workers, and returns that step: pushes
// of it or a later one get ErrStopped.
func (c *Client) Stop(ctx context.Context) (uint64, error) {
	return c.plan(ctx, "stop the job", wire.Plan{Kind: wire.PlanStop})
}

func (c *Client) plan(ctx context.Context, what string, p wire.Plan) (uint64, error) {
	at, err := c.store.plan(ctx, what, p)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	return at, nil
}

// plan implements store.
func (s *servers) plan(ctx context.Context, what string, p wire.Plan) (uint64, error) {
	var made wire.Plan
	err := s.control(ctx, what, wire.KindPlan, wire.PlanRequest{SessionRef: s.ref(), Plan: p}, &made)
	return made.T, err
}
