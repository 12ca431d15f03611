package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"hcclps/ps/wire"
)

// A step of hybrid has two halves, which travel at once: rows to the servers, and dense gradients to the other workers.
// When a worker is lost in the midst of it, the servers wait for that worker's rows, and the others miss its dense
// gradients. Then
//
//  1. the workers that are left meet in another epoch, also those that have all of their dense half: they apply it first, so that whoever has not gets it;
//  2. the lowest of them has the lost one expelled, so that the servers go on without its rows;
//  3. where nobody has the dense half, it is summed again, of those that are left;
//  4. the step that somebody has begun is ended by all in the shares they had. From the next one on, replica.from, the data is dealt anew.
//
// A worker that comes in has no share before that step: it takes part without data, and at the servers from the step on that these want it in.

// halfway is a step of hybrid on its way.
type halfway struct {
	h      *hybrid
	dense  commit
	taken  chan pushed // the end of the push to the servers
	came   bool        // it is there
	fault  error       // of that
	out    outcome
	round  *round     // the dense half, when all of it is there
	in     bool       // it is applied
	others []Gradient // that had left before the step was done
}

// pushed is how the push of rows has ended.
type pushed struct {
	outcome
	err error
}

// push implements store.
func (h *hybrid) push(ctx context.Context, c *commit) (outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	rows, s := *c, &halfway{h: h, dense: *c, taken: make(chan pushed, 1), out: outcome{loss: c.loss}}
	rows.grads, s.dense.grads = nil, nil
	for _, g := range c.grads {
		if dense(g.Table) {
			s.dense.grads = append(s.dense.grads, g)
		} else {
			rows.grads = append(rows.grads, g)
		}
	}
	s.others = h.dense.left()
	h.dense.open = c.step + 1
	go func() {
		var end pushed
		if c.step >= h.first {
			end.outcome, end.err = h.rows.push(ctx, &rows)
		}
		s.taken <- end
	}()
	err := s.run(ctx)
	if err != nil && !s.came {
		cancel(err)
		<-s.taken
	}
	if err == nil {
		err = s.end(ctx)
	}
	if err != nil {
		return outcome{}, err
	}
	if h.changed != nil && h.dense.now() >= h.dense.from {
		err, h.changed = h.changed, nil
	}
	return s.out, err
}

// run brings both halves to where they are to be.
func (s *halfway) run(ctx context.Context) error {
	for {
		err := s.attempt(ctx)
		if err == nil {
			return nil
		}
		if again := s.mend(ctx, err); again != nil {
			return again
		}
	}
}

// attempt waits for both halves, or until something is wrong.
func (s *halfway) attempt(ctx context.Context) (err error) {
	r := s.h.dense
	if !s.in && s.round == nil {
		if s.round, err = r.collect(ctx, &s.dense); err != nil {
			s.round = nil
			return err
		}
	}
	if s.came {
		return nil
	}
	var failed <-chan struct{}
	if r.peers != nil {
		failed = r.peers.world.Failed()
	}
	select {
	case end := <-s.taken:
		s.came, s.fault, s.out.checkpoint = true, end.err, end.checkpoint
		s.out.later = end.later
		s.meanwhile(end.others)
		return end.err
	case <-failed:
		return r.peers.world.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// mend goes on with other workers after one is lost; nil: try again.
func (s *halfway) mend(ctx context.Context, err error) error {
	r := s.h.dense
	if r.peers == nil || !r.peers.lost(ctx, err) {
		return err
	}
	if s.round != nil {
		if aerr := r.apply(ctx, s.round); aerr != nil {
			return aerr
		}
		s.see()
	}
	before := r.now()
	if err = r.rebuild(ctx, err); !errors.Is(err, ErrRebuilt) {
		return err
	}
	s.h.changed = err
	if s.fault != nil {
		return s.fault
	}
	r.log.Info("a step is ended with other workers", "step", s.dense.step, "rank", r.rank(), "dense", before, "now", r.now(), "dealt_anew_from", r.from)
	if s.in = r.now() > s.dense.step; !s.in {
		s.dense.grads = joined(s.dense.grads, s.others)
		s.others = nil
	}
	return nil
}

// see notes what a round that was applied says.
func (s *halfway) see() {
	s.out.loss = s.round.loss()
	s.meanwhile(s.round.there)
	s.in, s.round = true, nil
}

// meanwhile notes until when others were waited for.
func (s *halfway) meanwhile(there time.Time) {
	if there.After(s.out.others) {
		s.out.others = there
	}
}

// end applies the dense half when the servers have taken the other, and lets in who waits.
func (s *halfway) end(ctx context.Context) error {
	if s.round == nil { // it was applied before, or came from another
		return nil
	}
	r, waiting := s.h.dense, s.round.waiting()
	if err := r.apply(ctx, s.round); err != nil {
		return err
	}
	s.see()
	if waiting && s.h.changed == nil {
		err := r.rebuild(ctx, nil)
		if !errors.Is(err, ErrRebuilt) {
			return err
		}
		s.h.changed = err
	}
	return nil
}

// joined adds gradients of dense tensors to others.
func joined(grads, more []Gradient) []Gradient {
	for _, m := range more {
		i := slices.IndexFunc(grads, func(g Gradient) bool { return same(g.Table, m.Table) })
		if i < 0 {
			grads = append(grads, m)
			continue
		}
		sum := slices.Clone(grads[i].Values)
		for k, v := range m.Values {
			sum[k] += v
		}
		grads[i].Values = sum
	}
	return grads
}

// enter brings a worker that has come in to the step from which on it has a share of the data.
func (h *hybrid) enter(ctx context.Context) error {
	r := h.dense
	for step := h.first; step < r.now(); step++ { // the servers have waited for these from the worker that was here before
		if _, err := h.rows.push(ctx, &commit{step: step, cursor: r.cursor}); err != nil {
			return fmt.Errorf("end step %d of the worker before: %w", step, err)
		}
	}
	for r.now() < r.from {
		if _, err := h.push(ctx, &commit{step: r.now(), cursor: r.cursor}); err != nil && !errors.Is(err, ErrRebuilt) {
			return fmt.Errorf("step %d without data: %w", r.now(), err)
		}
	}
	h.changed = nil
	return nil
}

// expel has the servers wait no more for a worker.
func (s *servers) expel(ctx context.Context, worker string, incarnation uint64, why string) error {
	p := wire.Plan{Kind: wire.PlanExpel, Worker: worker, Incarnation: incarnation, Why: why[:min(len(why), wire.MaxName)]}
	if _, err := s.plan(ctx, "expel worker "+worker, p); err != nil {
		return fmt.Errorf("have worker %s expelled: %w", worker, err)
	}
	return nil
}
