package shard

import (
	"fmt"

	"hcclps/ps/wire"
)

// pushRef names one part of one worker's step.
type pushRef struct {
	job, worker string
	incarnation uint64
	step        uint64
	part        uint32
}

func (p pushRef) String() string {
	return fmt.Sprintf("part %d of step %d of worker %q, job %q", p.part, p.step, p.worker, p.job)
}

// admission is what a state says of a push.
type admission struct {
	job     *job
	worker  *worker
	blocked bool        // it is the next one, but must wait for more workers, a plan's release or the clock
	wait    need        // blocked: for what
	answer  wire.Answer // final, unless Status is OK and Duplicate is false
}

// ok says that the push is the next one of its worker.
func (a *admission) ok() bool { return a.answer.Status == wire.OK && !a.answer.Duplicate }

// admit decides what becomes of a push. The leader asks before it takes the
// bytes; apply asks again, since only there the order of things is known.
func (s *State) admit(p pushRef) admission {
	a := s.session(p.job, p.worker, p.incarnation)
	if a.answer.Status != wire.OK {
		return a
	}
	j, w := a.job, a.worker
	refuse := func(st wire.Status, format string, args ...any) admission {
		a.answer = w.answer(j, st, fmt.Sprintf(format, args...))
		return a
	}
	switch {
	case p.part >= j.Params.Parts:
		return refuse(wire.Refused, "%v: the job has %d parts a step", p, j.Params.Parts)
	case s.isDuplicate(j, w, p):
		a.answer = w.stored(j)
		return a
	case w.Done == forgotten:
	case p.step > w.Done:
		return refuse(wire.Gap, "%v: the next step is %d", p, w.Done)
	case j.Params.Sync == wire.BSP && p.step < j.Clock && !s.cfg.Bugs.DedupeOff:
		return refuse(wire.Past, "%v: the shard's clock is %d", p, j.Clock)
	}
	switch {
	case w.Session == finished:
		return refuse(wire.Refused, "%v: the worker has finished", p)
	case p.step >= j.Stop:
		return refuse(wire.Stopped, "%v: the job stops at step %d", p, j.Stop)
	}
	a.answer = w.answer(j, wire.OK, "")
	a.block(p)
	return a
}

// block says whether, and for what, the next push of a worker must wait.
func (a *admission) block(p pushRef) {
	j, w := a.job, a.worker
	switch {
	case !j.Begun:
		a.wait = need{what: "step 0 waits for workers:", n: uint64(j.Params.World)}
	case j.Held != nil && j.Held.T <= p.step:
		a.wait = need{what: "a plan is not in force yet:", n: j.Held.ID}
	case j.stopsAt(w, p.step):
		a.wait = need{what: "its state is being captured for checkpoint", n: j.Cut.ID}
	case j.Params.Sync == wire.BSP && p.step > j.Clock:
		a.wait = need{what: "the clock is", n: j.Clock}
	case j.Params.Sync == wire.BSP && j.Parts != 0 && !w.InStep && p.step == j.Clock:
		a.wait = need{what: "the step in progress has other contributors:", n: j.Clock}
	default:
		return
	}
	a.blocked = true
}

// session finds a session and checks its fence.
func (s *State) session(jobName, name string, incarnation uint64) admission {
	a := admission{job: s.jobs[jobName]}
	if a.job == nil {
		a.answer = wire.Answer{Status: wire.Unknown, Detail: fmt.Sprintf("job %q is unknown here: open it first", jobName)}
		return a
	}
	j := a.job
	a.worker = j.byName[name]
	w := a.worker
	if w == nil {
		a.answer = wire.Answer{Status: wire.Unknown, Detail: fmt.Sprintf("worker %q is unknown in job %q here: open it first", name, jobName), Clock: j.Clock}
		return a
	}
	switch {
	case incarnation < w.Incarnation && !s.cfg.Bugs.NoFence:
		a.answer = w.answer(j, wire.Fenced, fmt.Sprintf("incarnation %d of worker %q: now open as %v", incarnation, name, w))
	case incarnation > w.Incarnation:
		a.answer = w.answer(j, wire.Unknown, fmt.Sprintf("incarnation %d of worker %q is not open here: fence it first", incarnation, name))
	case w.Session == expelled:
		a.answer = w.answer(j, wire.Unknown, fmt.Sprintf("worker %q was expelled: %s: open it again", name, w.Why))
	case j.Held != nil && j.Held.Kind == wire.PlanExpel && j.Held.Worker == name && j.Held.Incarnation == w.Incarnation:
		a.answer = w.answer(j, wire.Unknown, fmt.Sprintf("worker %q is being expelled: %s: open it again", name, j.Held.Why))
	}
	return a
}

// isDuplicate says whether a part was applied before.
func (s *State) isDuplicate(j *job, w *worker, p pushRef) bool {
	if w.Done == forgotten || s.cfg.Bugs.DedupeOff {
		return false
	}
	if p.step != w.Done {
		return p.step < w.Done
	}
	if s.cfg.Bugs.NoPartsBitmap {
		return false
	}
	if j.Params.Sync == wire.BSP {
		return w.InStep && p.step == j.Clock && j.Parts&(1<<p.part) != 0
	}
	return w.Parts&(1<<p.part) != 0
}

// answer is an answer to w.
func (w *worker) answer(j *job, st wire.Status, detail string) wire.Answer {
	a := wire.Answer{Status: st, Detail: detail, Clock: j.Clock, Done: w.Done}
	a.Checkpoint, a.Cut = j.cutOf(w)
	return a
}

// stored is the answer to a part that was applied before.
func (w *worker) stored(j *job) wire.Answer {
	a := w.answer(j, wire.OK, "")
	a.Duplicate, a.Term, a.Index = true, w.Term, w.Index
	return a
}
