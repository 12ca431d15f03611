package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"hcclps/internal/vec"
	"hcclps/ps/update"
	"hcclps/ps/wire"
)

// push implements store.
func (r *replica) push(ctx context.Context, c *commit) (outcome, error) {
	if r.peers == nil {
		o, err := r.alone(c)
		if err == nil {
			err = r.apply(ctx, o)
		}
		if err == nil {
			err = r.cut(ctx)
		}
		if err != nil {
			return outcome{}, err
		}
		return outcome{loss: o.loss()}, nil
	}
	out := outcome{loss: c.loss}
	if r.pending != nil { // the step before: see TrainOptions.Delay
		o, err := r.land(ctx)
		if err != nil {
			return outcome{}, err
		}
		out.loss = o.loss()
	}
	f, err := r.begin(ctx, c)
	if err != nil {
		return outcome{}, err
	}
	if r.pending = f; r.delay > 0 {
		return out, nil
	}
	o, err := r.land(ctx)
	if o != nil {
		out.loss, out.others = o.loss(), o.there
	}
	return out, err
}

// flight is a step on its way to the others.
type flight struct {
	done  chan struct{}
	round *round
	err   error
}

// begin lets a step out.
func (r *replica) begin(ctx context.Context, c *commit) (*flight, error) {
	if c.step >= r.stop {
		return nil, fmt.Errorf("from step %d on: %w", r.stop, ErrStopped)
	}
	h, err := r.pack(c)
	if err != nil {
		return nil, err
	}
	f := &flight{done: make(chan struct{})}
	trade := func() {
		defer close(f.done)
		f.round, f.err = r.trade(ctx, h)
	}
	if r.delay > 0 {
		r.flights.Go(trade) // land waits for it
	} else {
		trade()
	}
	return f, nil
}

// land waits for the step that was let out, and applies it. The round is there if it was applied, also where the workers are others then.
func (r *replica) land(ctx context.Context) (*round, error) {
	f := r.pending
	r.pending = nil
	<-f.done // it is bounded by what bounds a collective
	if f.err != nil {
		return nil, r.rebuild(ctx, f.err)
	}
	if err := r.sort(f.round); err != nil {
		return nil, err
	}
	if err := r.apply(ctx, f.round); err != nil {
		return nil, err
	}
	if err := r.cut(ctx); err != nil {
		return f.round, r.rebuild(ctx, err)
	}
	if f.round.waiting() {
		return f.round, r.rebuild(ctx, nil)
	}
	return f.round, nil
}

// settle lands what is on its way.
func (r *replica) settle(ctx context.Context) error {
	if r.pending == nil {
		return nil
	}
	_, err := r.land(ctx)
	return err
}

// collect brings together what all workers give to a step, and touches nothing.
func (r *replica) collect(ctx context.Context, c *commit) (*round, error) {
	if r.peers == nil {
		return r.alone(c)
	}
	f, err := r.begin(ctx, c)
	if err != nil {
		return nil, err
	}
	if f.err != nil {
		return nil, f.err
	}
	return f.round, r.sort(f.round)
}

// alone is the step of the only worker.
func (r *replica) alone(c *commit) (*round, error) {
	if c.step >= r.stop {
		return nil, fmt.Errorf("from step %d on: %w", r.stop, ErrStopped)
	}
	own, err := r.gradients(c)
	return &round{heads: []head{r.head(c)}, bodies: [][]wire.Section{own}}, err
}

// head is what this worker says of a step.
func (r *replica) head(c *commit) head {
	h := head{
		step: c.step, schema: r.schema, rows: uint64(c.rows), loss: c.loss, cursor: c.cursor,
		plan: r.wish, seconds: uint32(time.Now().Unix()),
	}
	if r.peers != nil {
		h.waiting = r.peers.world.Waiting() > 0
	}
	return h
}

// gradients checks what this worker gives to a step: sections ascending by table, finite, or mended where a table's policy says so. Of dense
// tensors they are whole blocks.
func (r *replica) gradients(c *commit) ([]wire.Section, error) {
	grads, err := byTable(c.grads)
	if err != nil {
		return nil, err
	}
	var own []wire.Section
	for i := range grads {
		keys, err := grads[i].rowsOf()
		if err != nil {
			return nil, err
		}
		if len(keys) == 0 {
			continue
		}
		t := r.table(grads[i].Table.spec().ID)
		s := wire.Section{Table: t.Spec.ID, Dim: int(t.Spec.Dim), Keys: keys, Values: grads[i].Values}
		switch {
		case t.sum == nil || len(keys) != len(t.keys):
		case r.early.ready[t.Spec.ID]:
			s.Values = slices.Grow(slices.Clone(s.Values), len(t.sum))[:len(t.sum)] // more of what has left
		default:
			clear(t.sum[copy(t.sum, s.Values):])
			s.Values = t.sum
		}
		if err := t.check(s); err != nil {
			return nil, err
		}
		own = append(own, s)
		r.counters.pushedRows.Add(uint64(len(keys)))
	}
	return own, nil
}

// check looks for values that are not finite.
func (t *held) check(s wire.Section) error {
	return refused(t.Takes(s, vec.NonFinite(s.Values)))
}

// refused is the error of the package for one of update's.
func refused(err error) error {
	switch {
	case errors.Is(err, update.ErrNonFinite):
		return &RefusedError{wire.NonFinite, err.Error()}
	case err != nil:
		return &RefusedError{wire.Refused, err.Error()}
	}
	return nil
}
