package pstest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"hcclps/ps/wire"
)

// maxSteps is more than any history has.
const maxSteps = 1 << 16

// maxFaults bounds how many violations a verdict lists.
const maxFaults = 20

// Judge says what a history shows that the promises forbid: nil, or an error
// that joins the violations found. It is a pure function of the history.
func Judge(h *History) error {
	v := verdict{h: h}
	for _, f := range h.Failures {
		v.fault("a client failed: %s", f)
	}
	for _, job := range h.Jobs {
		v.job(job)
	}
	v.replicas()
	if v.more > 0 {
		v.errs = append(v.errs, fmt.Errorf("and %d more", v.more))
	}
	if err := errors.Join(v.errs...); err != nil {
		return fmt.Errorf("judge history of seed %d: %w", h.Seed, err)
	}
	return nil
}

// verdict collects violations.
type verdict struct {
	h    *History
	errs []error
	more int
}

func (v *verdict) fault(format string, args ...any) {
	if len(v.errs) == maxFaults {
		v.more++
		return
	}
	v.errs = append(v.errs, fmt.Errorf(format, args...))
}

// job judges one job: its sessions, then every lane's rows and reads.
func (v *verdict) job(j Job) {
	c, err := newCase(v.h, j)
	if err != nil {
		v.fault("%w", err)
		return
	}
	defer c.close()
	if last := c.last(); last > maxSteps {
		v.fault("job %s: a worker is said to have completed %d steps", j.Name, last)
		return
	}
	v.sessions(c)
	v.resends(c)
	v.counters(c)
	for _, l := range c.lanes() {
		var err error
		if j.Params.Sync == wire.BSP {
			err = c.judgeBSP(l)
		} else {
			err = c.judgeAsync(l)
		}
		if err != nil {
			v.fault("job %s, %v: %w", j.Name, l, err)
		}
	}
}

// sessions checks where sessions resumed, and that no earlier life was heard
// after a later one had opened.
func (v *verdict) sessions(c *jobCase) {
	for _, name := range c.workers {
		for _, o := range c.opens[name] {
			v.resumed(c, o)
		}
		for _, p := range c.pushes[name] {
			if fence := c.fenced(p.Who); p.Outcome == Acked && p.Call > fence {
				v.fault("%v: step %d was acknowledged although a later life had opened before it was sent", p.Who, p.Step)
			}
			if stop, ok := c.stopsAt(); ok && p.Outcome == Acked && p.Step >= stop {
				v.fault("%v: step %d was acknowledged although the job stops at %d", p.Who, p.Step, stop)
			}
			v.refusal(c, p)
		}
	}
}

// resumed checks where a session went on: after what was acknowledged, and not
// after what was never begun, unless the worker had been expelled and joins at
// a later step.
func (v *verdict) resumed(c *jobCase, o Open) {
	acked, begun := c.progress(o.Worker, o.Call, o.Life)
	joined := o.Absent && o.Clock > begun
	if o.Clock < acked || o.Clock > begun && !joined {
		v.fault("%v resumed at step %d: %d steps were acknowledged before, %d begun", o.Who, o.Clock, acked, begun)
	}
	want := c.cursors(o)
	if !slices.ContainsFunc(want, func(w []byte) bool { return bytes.Equal(w, o.Cursor) }) {
		v.fault("%v resumed at step %d with cursor %x, want one of %x", o.Who, o.Clock, o.Cursor, want)
	}
}

// refusal checks that a push was refused for a reason.
func (v *verdict) refusal(c *jobCase, p Push) {
	if p.Outcome != Refused {
		return
	}
	switch p.Status {
	case wire.Fenced:
		if c.nextCall(p.Who) < p.Return {
			return
		}
	case wire.Stopped:
		if slices.ContainsFunc(c.changes, func(ch Change) bool { return ch.Plan.Kind == wire.PlanStop && ch.Call < p.Return }) {
			return
		}
	default:
	}
	v.fault("%v: step %d was refused without a cause: %v: %s", p.Who, p.Step, p.Status, p.Detail)
}

// resends checks the answers to parts that were sent by hand.
func (v *verdict) resends(c *jobCase) {
	for _, r := range c.resends {
		if !r.Known {
			continue
		}
		a := r.Answer
		if fence := c.fenced(r.Who); r.Call > fence {
			if a.Status == wire.OK {
				v.fault("%v: part %d of step %d at shard %d was answered although a later life had opened before it was sent", r.Who, r.Part, r.Step, r.Shard)
			}
			continue
		}
		if a.Status == wire.Fenced && c.nextCall(r.Who) < r.Return || a.Status == wire.Stopped && r.Want != WantDuplicate {
			continue
		}
		ok := false
		switch r.Want {
		case WantDuplicate:
			ok = a.Status == wire.OK && a.Duplicate
		case WantApplied:
			ok = a.Status == wire.OK || passing(a.Status)
		case WantNonFinite:
			ok = a.Status == wire.NonFinite || passing(a.Status)
		}
		if !ok {
			v.fault("%v: part %d of step %d at shard %d (%s): answer %v, duplicate %v, %q; want %s", r.Who, r.Part, r.Step, r.Shard, r.Why, a.Status, a.Duplicate, a.Detail, r.Want)
		}
	}
}

// passing says whether a status asks for another try.
func passing(s wire.Status) bool { return s == wire.Busy || s == wire.Pending || s == wire.NotLeader }

// counters checks what every replica has on record of each worker.
func (v *verdict) counters(c *jobCase) {
	for _, s := range v.h.Servers {
		for _, g := range s.Groups {
			i := slices.IndexFunc(g.Jobs, func(j wire.JobStatus) bool { return j.Job == c.job.Name })
			if g.Group == 0 || i < 0 {
				continue
			}
			low, high := uint64(0), uint64(0)
			for _, w := range g.Jobs[i].Workers {
				acked, begun := c.progress(w.Worker, never, 0)
				never, maybe := c.skipped(w.Worker)
				low, high = low+w.Done-never-maybe, high+w.Done-never
				if w.Done < acked || w.Done > begun {
					v.fault("server %s, group %d: worker %s has completed %d steps; %d were acknowledged, %d begun", s.Name, g.Group, w.Worker, w.Done, acked, begun)
				}
			}
			if n := g.Jobs[i].Applied; n < low || n > high {
				v.fault("server %s, group %d, job %s: %d pushes applied, but workers have pushed %d to %d steps", s.Name, g.Group, c.job.Name, n, low, high)
			}
		}
	}
}

// replicas checks that all replicas of a shard are equal at the end.
func (v *verdict) replicas() {
	first := map[uint32]wire.ServerStatus{}
	digest := map[uint32]string{}
	for _, s := range v.h.Servers {
		for _, g := range s.Groups {
			if _, ok := first[g.Group]; !ok {
				first[g.Group], digest[g.Group] = s, g.Digest
			}
			if d := digest[g.Group]; d != g.Digest {
				v.fault("group %d: the state of server %s is %s, of server %s %s", g.Group, first[g.Group].Name, d, s.Name, g.Digest)
			}
		}
	}
}
