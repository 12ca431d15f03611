package worker

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"hcclps/ps/wire"
)

// hybrid is a store of which embedding tables are on servers, and dense tensors in every worker. Both have the same clock: a step is applied
// here when the servers have taken it.
type hybrid struct {
	rows  *servers
	dense *replica

	first   uint64 // the servers want the steps of this session from here on
	changed error  // the workers are others, from a step on that is not there yet: replica.from
}

// of is where a table is.
func (h *hybrid) of(t *wire.Table) store {
	if t.Shape != nil {
		return h.dense
	}
	return h.rows
}

// agree implements store.
func (h *hybrid) agree(ctx context.Context, w wire.Table) (wire.Table, error) {
	return h.of(&w).agree(ctx, w)
}

// read implements store.
func (h *hybrid) read(reads []Read) (reader, error) {
	var parts [2][]Read
	for _, r := range reads {
		i := 0
		if dense(r.Table) {
			i = 1
		}
		parts[i] = append(parts[i], r)
	}
	rows, err := h.rows.read(parts[0])
	if err != nil {
		return nil, err
	}
	tensors, err := h.dense.read(parts[1])
	return both{rows, tensors}, err
}

// both is a read of two stores.
type both struct{ a, b reader }

// run implements reader.
func (r both) run(ctx context.Context, step uint64, until *latest) error {
	eg, ctx := errgroup.WithContext(ctx)
	eg.Go(func() error { return r.a.run(ctx, step, until) })
	eg.Go(func() error { return r.b.run(ctx, step, nil) })
	return eg.Wait()
}

// finish implements store.
func (h *hybrid) finish(ctx context.Context, steps uint64) error {
	return errors.Join(h.rows.finish(ctx, steps), h.dense.finish(ctx, steps))
}

// scan implements store.
func (h *hybrid) scan(ctx context.Context, t *wire.Table, visit func(wire.Row) error) error {
	return h.of(t).scan(ctx, t, visit)
}

// rule implements store.
func (h *hybrid) rule(ctx context.Context, t *wire.Table) (wire.RuleState, error) {
	return h.of(t).rule(ctx, t)
}

// load implements store.
func (h *hybrid) load(ctx context.Context, m *Manifest) error {
	rows, tensors := *m, *m
	rows.Tables, tensors.Tables = nil, nil
	for _, t := range m.Tables {
		if t.Table.Shape != nil {
			tensors.Tables = append(tensors.Tables, t)
		} else {
			rows.Tables = append(rows.Tables, t)
		}
	}
	if err := h.rows.load(ctx, &rows); err != nil {
		return err
	}
	return h.dense.load(ctx, &tensors)
}

// plan implements store: the servers say when.
func (h *hybrid) plan(ctx context.Context, what string, p wire.Plan) (uint64, error) {
	at, err := h.rows.plan(ctx, what, p)
	if err != nil || p.Kind == wire.PlanStop || p.Kind == wire.PlanCheckpoint { // the servers tell everybody
		return at, err
	}
	p.T = at
	return h.dense.plan(ctx, what, p)
}

// audit implements store. A step in which a worker was lost is not the same on all shards: then the workers' own count is the better one.
func (h *hybrid) audit(ctx context.Context) (Audit, error) {
	a, err := h.dense.audit(ctx)
	if a.Rebuilds > 0 || err != nil {
		return a, err
	}
	return h.rows.audit(ctx)
}

// close implements store.
func (h *hybrid) close(ctx context.Context, finished bool) error {
	return errors.Join(h.rows.close(ctx, finished), h.dense.close(ctx, finished))
}
