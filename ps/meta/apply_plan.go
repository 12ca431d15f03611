package meta

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"hcclps/ps/wire"
)

// plan lets a plan take off: at most one a job is in flight. Its id and, for a
// table, the table's id are given here. A plan that would change nothing (the
// table is there, the worker is out) answers OK with id 0 and the step T = 0.
func (s *state) plan(e planEntry) result {
	j := s.Jobs[e.Job]
	if j == nil && e.Plan.Kind == wire.PlanFork {
		return s.planFirst(e)
	}
	if j == nil {
		return result{Answer: refuse(wire.Unknown, "job %q is unknown here: the jobs are %q", e.Job, slices.Sorted(maps.Keys(s.Jobs)))}
	}
	if j.Plan != nil {
		return result{Answer: refuse(wire.Pending, "plan %d of job %q is in flight", j.Plan.Plan.ID, e.Job)}
	}
	p := e.Plan
	p.ID = 0
	needed, a := j.admit(&p)
	if a.Status != wire.OK || !needed {
		return result{Answer: a, Reply: p}
	}
	j.LastPlan++
	p.ID = j.LastPlan
	if p.Kind == wire.PlanCheckpoint {
		if a := s.beginSave(e.Job, &p, e.Above); a.Status != wire.OK {
			return result{Answer: a}
		}
	}
	j.Plan = &flight{Plan: p, Stage: holding}
	return result{Reply: p}
}

// planFirst is plan of a job that nobody has opened, and that a table comes to.
func (s *state) planFirst(e planEntry) result {
	if now := s.Restores[e.Job]; now != nil || !wire.ValidName(e.Job) {
		return result{Answer: refuse(wire.Refused, "fork into job %.300q: want a name (UTF-8, 1 to %d bytes), of a job that is not being restored", e.Job, wire.MaxName)}
	}
	s.Jobs[e.Job] = &job{}
	r := s.plan(e)
	if s.Jobs[e.Job].Plan == nil {
		delete(s.Jobs, e.Job)
	}
	return r
}

// admit says whether a plan is allowed, and whether it is needed at all.
func (j *job) admit(p *wire.Plan) (needed bool, a wire.Answer) {
	switch p.Kind {
	case wire.PlanTable, wire.PlanFork:
		return j.admitTable(&p.Table)
	case wire.PlanExpel:
		w := j.worker(p.Worker)
		return w != nil && w.Incarnation == p.Incarnation && w.State == sessionOpen, wire.Answer{}
	case wire.PlanJoin:
		w := j.worker(p.Join.Worker)
		return w != nil && w.Incarnation == p.Join.Incarnation && w.State == sessionExpelled, wire.Answer{}
	case wire.PlanRate:
		if r := float64(p.Rate); !(r >= 0) || math.IsInf(r, 0) {
			return false, refuse(wire.Refused, "rate %v: want a finite number of at least 0", p.Rate)
		}
		return true, wire.Answer{}
	case wire.PlanStop, wire.PlanCheckpoint:
		return true, wire.Answer{}
	default:
		return false, refuse(wire.Refused, "plan kind %d is unknown to this version", p.Kind)
	}
}

func (j *job) admitTable(t *wire.Table) (needed bool, a wire.Answer) {
	if !wire.ValidName(t.Name) || t.Dim < 1 {
		return false, refuse(wire.Refused, "table %.300q of %d values a row: want a name (UTF-8, 1 to %d bytes) and at least one value", t.Name, t.Dim, wire.MaxName)
	}
	for _, have := range j.Tables {
		if have.Name != t.Name {
			continue
		}
		t.ID = have.ID
		if was, is := differences(have, *t); was != is {
			return false, refuse(wire.Refused, "table %q of the job has %s, and was asked for with %s: a job and the model loaded into it keep the model, size and optimizer they began with", t.Name, was, is)
		}
		return false, wire.Answer{}
	}
	t.ID = uint32(len(j.Tables) + 1)
	return true, wire.Answer{}
}

// differences is what the descriptions of two tables do not have in common, as
// each of them has it; both are empty for equal ones.
func differences(a, b wire.Table) (ofA, ofB string) {
	fieldsA, fieldsB := fields(a), fields(b)
	both := maps.Clone(fieldsA)
	maps.Copy(both, fieldsB)
	plain := strings.NewReplacer(`"`, "", "{", "(", "}", ")", ":", "=", ",", ", ")
	var inA, inB []string
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if fieldsA[name] != fieldsB[name] {
			inA = append(inA, name+" "+plain.Replace(cmp.Or(fieldsA[name], "none")))
			inB = append(inB, name+" "+plain.Replace(cmp.Or(fieldsB[name], "none")))
		}
	}
	return strings.Join(inA, ", "), strings.Join(inB, ", ")
}

// fields are the values of a table's description by their names, as text;
// encoding/json sorts maps, so that equal values have equal text.
func fields(t wire.Table) map[string]string {
	b, err := json.Marshal(t)
	var raw map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(b, &raw)
	}
	out := map[string]string{}
	if err != nil { // a number JSON has no word for
		out["fault"] = err.Error()
	}
	for name, value := range raw {
		out[name] = string(value)
	}
	return out
}

// stage moves the plan in flight on. A stage that is behind, or of a plan that is
// over, answers OK and does nothing: a new leader repeats what it is not sure of.
func (s *state) stage(e stageEntry) result {
	j := s.Jobs[e.Job]
	if j == nil || j.Plan == nil || j.Plan.Plan.ID != e.ID {
		return result{}
	}
	switch {
	case j.Plan.Stage == holding && e.Stage == releasing:
		j.Plan.Stage, j.Plan.Plan.Cuts = releasing, e.Cuts
		j.force(j.Plan.Plan, e.Cursor)
		s.planSaved(e.Job, e.ID, e.Stage)
	case j.Plan.Stage == holding && e.Stage == dropping:
		j.Plan.Stage = dropping
		s.planSaved(e.Job, e.ID, e.Stage)
	case j.Plan.Stage != holding && e.Stage == done:
		j.Plan = nil // of a job that this plan made, the number of plans is kept: shards remember it too
	}
	return result{}
}

// force is what a plan does to the meta group's own state. The cursor is that of
// a worker to be expelled.
func (j *job) force(p wire.Plan, cursor []byte) {
	switch p.Kind {
	case wire.PlanTable, wire.PlanFork:
		j.Tables = append(j.Tables, p.Table)
	case wire.PlanExpel:
		if w := j.worker(p.Worker); w != nil && w.Incarnation == p.Incarnation {
			w.State, w.Why = sessionExpelled, p.Why
			j.Claims.giveBack(w.Name, cursor)
		}
	case wire.PlanJoin:
		if w := j.worker(p.Join.Worker); w != nil && w.State == sessionExpelled {
			w.State, w.Why = sessionOpen, ""
		}
	case wire.PlanRate, wire.PlanStop, wire.PlanCheckpoint: // known to the shards alone
	}
}
