package worker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"hcclps/internal/vec"
	"hcclps/ps/table"
	"hcclps/ps/wire"
)

// round is one step of all workers, by rank.
type round struct {
	heads  []head
	bodies [][]wire.Section
	sums   []wire.Section // of dense tensors that were summed already
	there  time.Time      // when all workers were

	momenta []wire.Section // of those that want them
}

// loss is that of all workers.
func (o *round) loss() loss {
	var all loss
	for i := range o.heads {
		all.sum += o.heads[i].loss.sum
		all.rows += o.heads[i].loss.rows
	}
	return all
}

// withSums joins what was summed in two ways. What is in both came late, after its tensor had left.
func (o *round) withSums(merged []wire.Section) []wire.Section {
	all := slices.Clone(o.sums)
	for _, s := range merged {
		i := slices.IndexFunc(o.sums, func(t wire.Section) bool { return t.Table == s.Table })
		if i < 0 {
			all = append(all, s)
			continue
		}
		vec.Add(all[i].Values, s.Values)
	}
	return all
}

// waiting says whether somebody has seen that a worker waits to come in.
func (o *round) waiting() bool {
	return slices.ContainsFunc(o.heads, func(h head) bool { return h.waiting })
}

// rows is the number of rows of data behind a step.
func (o *round) rows() uint64 {
	n := uint64(0)
	for i := range o.heads {
		n += o.heads[i].rows
	}
	return n
}

// apply does to the tables what a shard of a server would do.
func (r *replica) apply(ctx context.Context, o *round) error {
	step := o.heads[0].step
	r.reducer.Reset()
	merged, err := r.reducer.Merge(o.bodies)
	if err != nil {
		return &RefusedError{wire.Refused, err.Error()}
	}
	all := o.withSums(merged)
	slices.SortFunc(all, func(a, b wire.Section) int { return cmp.Compare(a.Table, b.Table) })
	if divisor := r.divisor(o); divisor > 0 {
		q, err := r.reducer.Divided(all, divisor, false)
		if err != nil {
			return &RefusedError{wire.Refused, err.Error()}
		}
		for i, s := range q.Sections {
			if err := refused(r.table(s.Table).Takes(s, q.Bad(i))); err != nil {
				return err
			}
		}
		sections, err := r.momenta(o, q.Sections)
		if err != nil {
			return err
		}
		if err := r.update(ctx, step, sections); err != nil {
			return err
		}
	}
	r.sweep(step+1, o.heads[0].seconds)
	r.plans(o)
	r.applied += uint64(len(o.heads))
	r.cursor = o.heads[0].cursor
	r.counters.pushes.Add(1)
	r.moveTo(step + 1)
	r.lay()
	return nil
}

// divisor is what sums over the rows of a step are divided by; 0: there are none.
func (r *replica) divisor(o *round) uint64 {
	if r.cfg.Sum {
		return 1
	}
	return o.rows()
}

// update touches the tables: all of a step, since it has been checked.
func (r *replica) update(ctx context.Context, step uint64, sections []wire.Section) error {
	for _, s := range sections {
		for _, t := range r.table(s.Table).stores() {
			if err := t.rows.Reserve(ctx, len(s.Keys)); err != nil {
				return fmt.Errorf("wait for a checkpoint to be written: %w", err)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tables {
		t.Advance()
	}
	rates := r.ratesAt(step)
	for _, s := range sections {
		t := r.table(s.Table)
		if err := t.Apply(s, table.Stamp{Step: uint32(step + 1)}, t.Step(rates.RateOf(s.Table))); err != nil {
			return err
		}
	}
	r.settleOrder()
	return nil
}

// ratesAt is what learning rates are multiplied by at a step.
func (r *replica) ratesAt(step uint64) wire.Item {
	it := wire.Item{Rate: 1}
	for _, f := range r.rates {
		if f.From <= step {
			it.Rate = f.Rate
		}
	}
	for _, t := range r.tables {
		if s := t.Spec.Schedule; !s.Constant() {
			it.Rates = append(it.Rates, wire.TableRate{Table: t.Spec.ID, Rate: s.At(step)})
		}
	}
	return it
}

// plans takes note of what workers want for a later step.
func (r *replica) plans(o *round) {
	if o.heads[r.rank()].plan.Kind != 0 {
		r.wish, r.later = r.later, wire.Plan{}
	}
	for i := range o.heads {
		switch p := o.heads[i].plan; p.Kind {
		case wire.PlanStop:
			r.stop = min(r.stop, p.T)
		case wire.PlanRate:
			i, there := slices.BinarySearchFunc(r.rates, p.T, func(f wire.RateFrom, t uint64) int { return cmp.Compare(f.From, t) })
			if !there {
				r.rates = slices.Insert(r.rates, i, wire.RateFrom{From: p.T})
			}
			r.rates[i].Rate = p.Rate
		case wire.PlanCheckpoint:
			if !slices.Contains(r.cuts, p.T) {
				r.cuts = append(r.cuts, p.T)
			}
		default:
		}
	}
}

// planAhead is how many steps after the one that tells of it a plan is in force, as on servers.
const planAhead = 2
