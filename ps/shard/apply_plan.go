package shard

import (
	"fmt"

	"hcclps/ps/wire"
)

// hold logs a plan before step T; from here on no step T or later is applied
// until the plan is released.
func (s *State) hold(m *wire.Hold) wire.Answer {
	p := m.Plan
	if !wire.ValidName(m.Job) {
		return wire.Answer{Status: wire.Refused, Detail: "a plan needs a job's name (UTF-8, 1 to 255 bytes)"}
	}
	j := s.jobOf(m.Job)
	say := func(st wire.Status, format string, args ...any) wire.Answer {
		return j.answer(st, fmt.Sprintf("plan %d for step %d of job %q: ", p.ID, p.T, j.Name)+fmt.Sprintf(format, args...))
	}
	switch {
	case j.ended(p.ID, p.T):
		return j.answer(wire.OK, "") // it came late; how it ended is known
	case j.Held != nil && p.ID < j.Held.ID:
		return say(wire.Refused, "plan %d is held", j.Held.ID)
	case p.T <= j.Clock && !j.untouched() && !j.anyStep(&p):
		return say(wire.Late, "the clock is %d", j.Clock)
	}
	if why := s.badPlan(j, &p); why != "" {
		return say(wire.Refused, "%s", clean(why))
	}
	p.Why = clean(p.Why)
	j.Held = &p
	return j.held()
}

// held is the answer to a hold that stands. Of a worker to be expelled, who can
// do nothing more, it says how far it came.
func (j *job) held() wire.Answer {
	a := j.answer(wire.OK, "")
	if w := j.byName[j.Held.Worker]; j.Held.Kind == wire.PlanExpel && w != nil {
		a.Done, a.Cursor = w.Done, w.Cursor
	}
	if j.anyStep(j.Held) {
		a.Cursor = wire.AppendCuts(nil, j.positions())
	}
	return a
}

// ended says whether a plan has ended here. A dropped plan may be tried again
// under its id for a later step.
func (j *job) ended(id, t uint64) bool {
	return id < j.Last.ID || id == j.Last.ID && id != 0 && (!j.Last.Drop || t <= j.Last.T)
}

// badPlan says why a plan cannot be put in force here, or nothing.
func (s *State) badPlan(j *job, p *wire.Plan) string {
	switch p.Kind {
	case wire.PlanTable:
		if t := j.table(p.Table.ID); t != nil {
			return differs(t.Spec, p.Table)
		}
		_, err := newTab(p.Table, 0, s.cfg)
		if err != nil {
			return err.Error()
		}
	case wire.PlanFork:
		return j.badFork(p)
	case wire.PlanJoin:
		if p.Join.Job != j.Name {
			return fmt.Sprintf("it joins a worker of job %q", p.Join.Job)
		}
		return s.badFence(&p.Join)
	case wire.PlanRate:
		if !finite(p.Rate) || p.Rate < 0 {
			return fmt.Sprintf("rate %v: want a finite number, not negative", p.Rate)
		}
	case wire.PlanExpel:
		if !wire.ValidName(p.Worker) {
			return "it expels nobody"
		}
	case wire.PlanStop:
	case wire.PlanCheckpoint:
		if j.Params.World == 0 || p.Checkpoint == 0 {
			return "no worker has opened the job, or the checkpoint has no number"
		}
	}
	if p.ID == 0 {
		return "ids begin at 1"
	}
	return ""
}

// release ends a held plan: in force, or dropped. The error is a fault of this
// replica.
func (s *State) release(m *wire.Release) (wire.Answer, error) {
	j := s.jobs[m.Job]
	if j == nil {
		return wire.Answer{Status: wire.Unknown, Detail: clean(fmt.Sprintf("job %q is unknown here", m.Job))}, nil
	}
	switch {
	case m.Plan < j.Last.ID, m.Plan == j.Last.ID && m.Drop == j.Last.Drop:
		return j.answer(wire.OK, ""), nil
	case j.Held == nil || j.Held.ID != m.Plan:
		if m.Drop {
			return j.answer(wire.OK, ""), nil
		}
		return j.answer(wire.Refused, fmt.Sprintf("plan %d of job %q is not held here", m.Plan, j.Name)), nil
	}
	p := j.Held
	j.Held, j.Last = nil, planEnd{ID: p.ID, T: p.T, Drop: m.Drop}
	if !m.Drop {
		p.Cuts = m.Cuts
		if err := s.enforce(j, p); err != nil {
			return wire.Answer{}, err
		}
		j.settle()
	}
	return j.answer(wire.OK, ""), nil
}

// enforce carries a plan out.
func (s *State) enforce(j *job, p *wire.Plan) error {
	switch p.Kind {
	case wire.PlanTable:
		return s.create(j, p.Table)
	case wire.PlanFork:
		return j.adopt(p)
	case wire.PlanJoin:
		s.join(j, p)
	case wire.PlanExpel:
		if w := j.byName[p.Worker]; w != nil && w.Incarnation == p.Incarnation {
			w.Session, w.Why = expelled, p.Why
			w.InStep, w.Parts, w.Next = false, 0, nil
		}
	case wire.PlanRate:
		if n := len(j.Rates); n > 0 && j.Rates[n-1].From >= p.T {
			j.Rates = j.Rates[:n-1]
		}
		j.Rates = append(j.Rates, rateFrom{From: p.T, Rate: p.Rate})
	case wire.PlanStop:
		j.Stop = min(j.Stop, p.T)
	case wire.PlanCheckpoint:
		j.Cut = &cut{ID: p.Checkpoint, Base: p.Base, T: p.T, Workers: p.Cuts}
	}
	return nil
}

// join makes a worker required from step T on, as if it had completed the
// steps before.
func (s *State) join(j *job, p *wire.Plan) {
	m := &p.Join
	w := j.byName[m.Worker]
	switch {
	case w == nil:
		w = s.enter(j, m)
	case m.Incarnation < w.Incarnation:
		return // a newer one is open already
	}
	w.Incarnation, w.Owner, w.Session = m.Incarnation, clean(m.Owner), open
	w.Done, w.From = p.T, p.T
	w.Parts, w.InStep, w.Next = 0, false, nil
	if j.Params.Sync != wire.BSP {
		w.Cursor = nil // the batches it had claimed were handed on
		j.Clock = max(j.Clock, w.Done)
	}
}

// create makes a table.
func (s *State) create(j *job, spec wire.Table) error {
	if j.table(spec.ID) != nil {
		return nil
	}
	t, err := newTab(spec, s.slots+1, s.cfg)
	if err != nil {
		return fmt.Errorf("create table %q of job %q: %w", spec.Name, j.Name, err)
	}
	s.slots += t.slots()
	j.addTable(t)
	return j.dropForks(spec.Name) // its name is taken
}

func (j *job) answer(st wire.Status, detail string) wire.Answer {
	a := wire.Answer{Status: st, Detail: detail, Clock: j.Clock}
	if a.Done = j.slowest(); a.Done == wire.Infinity {
		a.Done = j.Clock
	}
	return a
}
