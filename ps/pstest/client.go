package pstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"hcclps/p2p/link"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
	"hcclps/worker"
)

// Deadlines of a client. Whatever they end is tried again until the run ends.
const (
	deadline   = 30 * time.Second // of a call of the SDK
	rawTry     = 2 * time.Second  // of one message by hand
	tryPause   = 100 * time.Millisecond
	zombieStep = 2 // steps a zombie tries after its end
)

// client plays one worker of a job.
type client struct {
	rec     *recorder
	log     func(format string, args ...any)
	network link.Network
	addrs   []string
	layout  layout.Layout
	seed    uint64
	job     *JobPlan
	plan    *WorkerPlan
	rank    int
	raw     *raw

	life   int // -1 before the first
	w      *worker.Client
	tables []worker.Embedding // by index in the job; as far as they exist
	pushed bool               // in this life
	acted  map[uint64]bool    // steps whose act was played
	away   bool               // for longer than a lease, before the next open
}

// who is the client's present life.
func (c *client) who() Who {
	return Who{Job: c.job.Name, Worker: c.plan.Name, Rank: uint32(c.rank), Life: c.life}
}

// play opens a session and takes all steps of the plan, then finishes, or
// leaves. It returns when ctx ends, too; w stays open unless the worker left.
func (c *client) play(ctx context.Context) error {
	c.life, c.acted = -1, map[uint64]bool{}
	if err := c.open(ctx); err != nil {
		return err
	}
	for stopped := false; !stopped && c.w.Clock() < uint64(len(c.plan.Steps)); {
		var err error
		if stopped, err = c.step(ctx, c.w.Clock()); err != nil {
			return fmt.Errorf("%v: step %d: %w", c.who(), c.w.Clock(), err)
		}
	}
	if c.plan.Leave {
		c.log("%v leaves after %d steps: %v", c.who(), c.w.Clock(), c.w.Close(ctx))
		c.w = nil
		return nil
	}
	return c.until(ctx, "finish", c.w.Finish)
}

// until tries again what a deadline or a lost connection ended; a refusal is
// final.
func (c *client) until(ctx context.Context, what string, try func(context.Context) error) error {
	for {
		err := try(ctx)
		var refused *worker.RefusedError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &refused) && final(refused.Status):
			return fmt.Errorf("%s: %w", what, err)
		case ctx.Err() != nil:
			return fmt.Errorf("%s until the end of the run: %w", what, err)
		}
		c.log("%v: %s again after: %v", c.who(), what, err)
		sleep(ctx, tryPause)
	}
}

// final says whether a status ends an operation for good. A RouteError wraps
// all attempts, those that were told to be patient too.
func final(s wire.Status) bool { return !passing(s) && s != wire.Late }

// open connects, fencing off the life before, and finds the tables.
func (c *client) open(ctx context.Context) error {
	next := c.who()
	next.Life++
	cfg := worker.Config{
		Servers: c.addrs, Cluster: clusterName, Job: c.job.Name, Worker: c.plan.Name, Rank: c.rank,
		World: int(c.job.Params.World), Sync: c.job.Params.Sync, Staleness: int(c.job.Params.Staleness),
		Parts: int(c.job.Params.Parts), Sum: c.job.Params.Sum, Seed: c.job.Params.Seed,
		Network: c.network, Deadline: deadline,
	}
	o := Open{Who: next, Call: c.rec.tick()}
	var w *worker.Client
	err := c.until(ctx, "connect", func(ctx context.Context) (err error) {
		w, err = worker.Connect(ctx, cfg)
		return err
	})
	if err != nil {
		return err
	}
	o.Return, o.Clock, o.Cursor, o.Absent = c.rec.tick(), w.Clock(), w.Cursor(), c.away
	c.away = false
	c.rec.add(func(h *History) { h.Opens = append(h.Opens, o) })
	c.log("%v open at step %d", next, o.Clock)
	c.life, c.w, c.pushed, c.tables = next.Life, w, false, nil
	return nil
}

// embed creates the tables that exist from a step on, or finds them.
func (c *client) embed(ctx context.Context, step uint64) error {
	for len(c.tables) < len(c.job.Tables) && c.job.Tables[len(c.tables)].From <= step {
		t := c.job.Tables[len(c.tables)]
		err := c.until(ctx, "create table "+t.Name, func(ctx context.Context) error {
			e, err := c.w.Embedding(ctx, t.Name, t.Spec)
			if err == nil {
				c.tables = append(c.tables, e)
				c.rec.table(c.job, e.Table)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// step takes one step, with what goes wrong in it. It says whether the job has
// been stopped.
func (c *client) step(ctx context.Context, step uint64) (stopped bool, err error) {
	p := c.plan.Steps[step]
	if c.acted[step] {
		p.Act = ActNone // it dies of each cause once
	}
	c.acted[step] = true
	if !sleep(ctx, p.Think) {
		return false, context.Cause(ctx)
	}
	if err := c.embed(ctx, step); err != nil {
		return false, err
	}
	c.change(ctx, step)
	if err := c.until(ctx, "pull", func(ctx context.Context) error { return c.pull(ctx, p.Reads) }); err != nil {
		return false, err
	}
	switch p.Act {
	case ActRestart:
		c.w.Abandon()
		return false, c.open(ctx)
	case ActKill:
		return false, c.kill(ctx, p)
	case ActZombie:
		return false, c.zombie(ctx, p)
	case ActAbsent:
		return false, c.absent(ctx, p)
	case ActAhead:
		var err error
		ahead := make(chan struct{})
		go func() {
			defer close(ahead)
			c.readRaw(ctx, p.Reads, Pull{Who: c.who(), Step: step + 1})
		}()
		stopped, err = c.commit(ctx, p)
		<-ahead
		return stopped, err
	default:
		c.misbehave(ctx, p)
		return c.commit(ctx, p)
	}
}

// misbehave sends messages by hand before the push.
func (c *client) misbehave(ctx context.Context, p StepPlan) {
	step := c.w.Clock()
	switch p.Act {
	case ActResend:
		if old := step - min(step, 1+p.Back); c.tried(old) {
			c.resend(ctx, c.who(), c.w.Incarnation(), old, p, WantDuplicate)
		}
	case ActEarly:
		c.resend(ctx, c.who(), c.w.Incarnation(), step, p, WantApplied)
	case ActPoison:
		c.resend(ctx, c.who(), c.w.Incarnation(), step, p, WantNonFinite)
	case ActFresh:
		c.readRaw(ctx, p.Reads, Pull{Who: c.who(), Step: step, Fresh: true, First: !c.pushed})
	case ActHurry:
		_ = c.push(ctx, c.w, c.who(), p, p.Wait) // commit tries again
	default:
	}
}

// tried says whether this life has sent a step, so that it has its bytes.
func (c *client) tried(step uint64) (yes bool) {
	c.rec.add(func(h *History) {
		yes = slices.ContainsFunc(h.Pushes, func(p Push) bool { return p.Who == c.who() && p.Step == step && p.Outcome == Acked })
	})
	return yes
}

// commit pushes until the step is acknowledged or the job stops.
func (c *client) commit(ctx context.Context, p StepPlan) (stopped bool, err error) {
	step := c.w.Clock()
	err = c.until(ctx, "push", func(ctx context.Context) error {
		if c.w.Clock() > step {
			return nil // the hurried try was fast enough
		}
		return c.push(ctx, c.w, c.who(), p, 0)
	})
	if errors.Is(err, worker.ErrStopped) {
		c.log("%v: stopped at step %d", c.who(), step)
		return true, nil
	}
	return false, err
}

// push is one call of Push, recorded. limit 0 is the SDK's own deadline.
func (c *client) push(ctx context.Context, w *worker.Client, who Who, p StepPlan, limit time.Duration) error {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	step := w.Clock()
	rec := Push{Who: who, Step: step, Rows: p.Rows, Grads: c.gradients(who, step, p), Outcome: Unknown}
	grads := make([]worker.Gradient, len(rec.Grads))
	for i, g := range rec.Grads {
		grads[i] = worker.Gradient{Table: c.tables[p.Grads[i].Table], Keys: g.Keys, Values: g.Values}
	}
	at := -1
	rec.Call = c.rec.tick()
	c.rec.add(func(h *History) { // before it is sent: the client may die meanwhile
		at = len(h.Pushes)
		h.Pushes = append(h.Pushes, rec)
	})
	c.pushed = true
	err := w.Push(ctx, int(p.Rows), cursor(step+1), grads...)
	rec.Return = c.rec.tick()
	var refused *worker.RefusedError
	switch {
	case err == nil:
		rec.Outcome = Acked
	case errors.As(err, &refused) && final(refused.Status):
		rec.Outcome, rec.Status, rec.Detail = Refused, refused.Status, err.Error()
	}
	c.rec.add(func(h *History) { h.Pushes[at] = rec })
	return err
}

// gradients are what a life pushes in a step.
func (c *client) gradients(who Who, step uint64, p StepPlan) []Gradient {
	var out []Gradient
	for _, set := range p.Grads {
		t := c.job.Tables[set.Table]
		g := Gradient{Table: c.tables[set.Table].ID, Keys: set.Keys}
		for _, k := range set.Keys {
			for d := range t.Spec.Dim {
				g.Values = append(g.Values, value(who, c.seed, step, t.Name, k, d))
			}
		}
		out = append(out, g)
	}
	return out
}

// pull is one call of Pull, recorded when it was answered.
func (c *client) pull(ctx context.Context, sets []KeySet) error {
	p := Pull{Who: c.who(), Step: c.w.Clock(), First: !c.pushed}
	var reads []worker.Read
	for _, set := range sets {
		e := c.tables[set.Table]
		g := Gradient{Table: e.ID, Keys: set.Keys, Values: make([]float32, len(set.Keys)*int(e.Dim))}
		p.Rows = append(p.Rows, g)
		reads = append(reads, worker.Read{Table: e, Keys: g.Keys, Out: g.Values})
	}
	p.Call = c.rec.tick()
	if err := c.w.Pull(ctx, reads...); err != nil {
		return err
	}
	p.Return = c.rec.tick()
	c.rec.add(func(h *History) { h.Pulls = append(h.Pulls, p) })
	return nil
}

// change asks for the plans that belong before a step, once.
func (c *client) change(ctx context.Context, step uint64) {
	for _, p := range c.job.Changes {
		if c.rank != 0 || p.Before != step || c.asked(p.Kind) {
			continue
		}
		ch := Change{Who: c.who(), Plan: wire.Plan{Kind: p.Kind, Rate: p.Rate}, Call: c.rec.tick()}
		ref := wire.SessionRef{Job: c.job.Name, Worker: c.plan.Name, Incarnation: c.w.Incarnation()}
		limited, cancel := context.WithTimeout(ctx, deadline)
		var made wire.Plan
		a, err := c.raw.control(limited, wire.KindPlan, wire.PlanRequest{SessionRef: ref, Plan: ch.Plan}, &made)
		cancel()
		ch.Return = c.rec.tick()
		switch {
		case err == nil && a.Status == wire.OK:
			ch.Known, ch.Plan = true, made
		case err == nil:
			c.rec.fail("%v: plan %+v was refused: %v: %s", c.who(), ch.Plan, a.Status, a.Detail)
		}
		c.log("%v: plan %+v, known %v: %v", c.who(), ch.Plan, ch.Known, err)
		c.rec.add(func(h *History) { h.Changes = append(h.Changes, ch) })
	}
}

func (c *client) asked(kind wire.PlanKind) (yes bool) {
	c.rec.add(func(h *History) {
		yes = slices.ContainsFunc(h.Changes, func(ch Change) bool { return ch.Job == c.job.Name && ch.Plan.Kind == kind })
	})
	return yes
}
