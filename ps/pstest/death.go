package pstest

import (
	"context"
	"math"
	"time"

	"hcclps/ps/wire"
)

// kill ends the process during its push, and starts the worker anew.
func (c *client) kill(ctx context.Context, p StepPlan) error {
	_ = c.push(ctx, c.w, c.who(), p, p.Wait) // the dead tell nothing
	c.w.Abandon()
	return c.open(ctx)
}

// absence is longer than a lease.
const absence = 40 * time.Second

// absent ends the process, sometimes during its push, and starts the worker
// anew when the others have gone on without it.
func (c *client) absent(ctx context.Context, p StepPlan) error {
	if p.Back%2 == 0 {
		_ = c.push(ctx, c.w, c.who(), p, p.Wait) // the dead tell nothing
	}
	c.w.Abandon()
	sleep(ctx, absence)
	c.away = true
	return c.open(ctx)
}

// zombie starts the worker anew while the old process still pushes; the old one
// goes on pushing after it was fenced off.
func (c *client) zombie(ctx context.Context, p StepPlan) error {
	old, who, incarnation := c.w, c.who(), c.w.Incarnation()
	tables := c.tables
	dead := *c // the old process has its own view of the tables
	pushed := make(chan struct{})
	go func() {
		defer close(pushed)
		_ = dead.push(ctx, old, who, p, 0)
	}()
	sleep(ctx, p.Wait)
	err := c.open(ctx)
	<-pushed
	if err == nil {
		for range zombieStep {
			step := old.Clock()
			if step >= uint64(len(c.plan.Steps)) || c.late(step, len(tables)) {
				break
			}
			_ = dead.push(ctx, old, who, c.plan.Steps[step], 0)
			dead.resend(ctx, who, incarnation, step, p, WantApplied)
		}
	}
	old.Abandon()
	return err
}

// late says whether a step needs a table that a process has not opened.
func (c *client) late(step uint64, tables int) bool {
	for _, g := range c.plan.Steps[step].Grads {
		if g.Table >= tables {
			return true
		}
	}
	return false
}

// resend sends one part of a step to every shard by hand, as a duplicated
// message would arrive; act says which part and why.
func (c *client) resend(ctx context.Context, who Who, incarnation, step uint64, act StepPlan, want Want) {
	p, part := c.plan.Steps[step], act.Part
	parts := c.job.Params.Parts
	grads := c.gradients(who, step, p)
	bodies := c.cut(grads, part, want == WantNonFinite)
	for shard, body := range bodies {
		if want == WantNonFinite && !body.poisoned {
			continue
		}
		m := wire.Push{
			Target: wire.Target{Group: uint32(shard + 1), Job: who.Job, Worker: who.Worker, Incarnation: incarnation},
			Step:   step, Part: part, Parts: parts, Rows: p.Rows,
		}
		if part == parts-1 {
			m.Cursor = cursor(step + 1)
		}
		r := Resend{Who: who, Step: step, Shard: uint32(shard), Part: part, Why: string(act.Act), Want: want}
		if want == WantApplied {
			c.mayApply(who, step, p.Rows, grads)
		}
		r.Call = c.rec.tick()
		limited, cancel := context.WithTimeout(ctx, rawTry)
		got, err := c.raw.ask(limited, m.Group, wire.Append(nil, &m), body.bytes, false)
		cancel()
		r.Return = c.rec.tick()
		if err == nil {
			r.Known, r.Answer = true, got.answer
		}
		c.rec.add(func(h *History) { h.Resends = append(h.Resends, r) })
	}
}

// mayApply notes that a step's contents are on their way, unless they were
// noted before.
func (c *client) mayApply(who Who, step uint64, rows uint32, grads []Gradient) {
	p := Push{Who: who, Step: step, Rows: rows, Grads: grads, Outcome: Unknown, Call: c.rec.tick()}
	c.rec.add(func(h *History) { h.Pushes = append(h.Pushes, p) })
	c.pushed = true
}

// partBody is one part of a step at one shard.
type partBody struct {
	bytes    []byte
	poisoned bool
}

// cut is a part of some gradients for each shard; poison makes the first value
// of each a NaN.
func (c *client) cut(grads []Gradient, part uint32, poison bool) []partBody {
	out := make([]partBody, len(c.layout.Shards))
	for i := range out {
		at := lane{uint32(i), part}
		for _, g := range grads {
			if len(g.Keys) == 0 {
				continue
			}
			dim := len(g.Values) / len(g.Keys)
			s := wire.Section{Table: g.Table, Dim: dim}
			for k, key := range g.Keys {
				if laneOf(c.layout, c.job.Params.Parts, key) == at {
					s.Keys = append(s.Keys, key)
					s.Values = append(s.Values, g.Values[k*dim:][:dim]...)
				}
			}
			if len(s.Keys) == 0 {
				continue
			}
			if poison && !out[i].poisoned {
				s.Values[0], out[i].poisoned = float32(math.NaN()), true
			}
			out[i].bytes = wire.AppendSection(out[i].bytes, s)
		}
	}
	return out
}

// readRaw reads by hand, shard by shard: each is a read of its own, like one.
func (c *client) readRaw(ctx context.Context, sets []KeySet, one Pull) {
	for shard := range c.layout.Shards {
		p := one
		var body []byte
		n := 0
		for _, set := range sets {
			e := c.tables[set.Table]
			g := Gradient{Table: e.ID}
			for _, k := range set.Keys {
				if c.layout.Group(k) == uint32(shard+1) {
					g.Keys = append(g.Keys, k)
				}
			}
			if len(g.Keys) > 0 {
				g.Values = make([]float32, len(g.Keys)*int(e.Dim))
				n += 4 * len(g.Values)
				body = wire.AppendSection(body, wire.Section{Table: e.ID, Keys: g.Keys})
				p.Rows = append(p.Rows, g)
			}
		}
		if len(p.Rows) == 0 {
			continue
		}
		m := wire.Pull{
			Target: wire.Target{Group: uint32(shard + 1), Job: c.job.Name, Worker: c.plan.Name, Incarnation: c.w.Incarnation()},
			Step:   p.Step, Own: p.Step, Fresh: p.Fresh,
		}
		p.Call = c.rec.tick()
		limited, cancel := context.WithTimeout(ctx, rawTry)
		got, err := c.raw.ask(limited, m.Group, wire.Append(nil, &m), body, false)
		cancel()
		p.Return = c.rec.tick()
		if err == nil && got.answer.Status == wire.OK && len(got.body) == n {
			fill(p.Rows, got.body)
			c.rec.add(func(h *History) { h.Pulls = append(h.Pulls, p) })
		} else {
			c.log("%v: read of step %d at shard %d by hand: %v %v %s", c.who(), p.Step, shard, err, got.answer.Status, got.answer.Detail)
		}
	}
}
