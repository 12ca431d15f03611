package shard

import (
	"fmt"

	"hcclps/ps/wire"
)

// forgotten stands for the steps of a worker whose record a planted bug left
// out of the snapshot: whatever comes next is taken for the next step.
const forgotten = wire.Infinity

// fence opens an incarnation of a worker.
func (s *State) fence(m *wire.Fence) wire.Answer {
	if refusal := s.badFence(m); refusal != "" {
		return wire.Answer{Status: wire.Refused, Detail: refusal}
	}
	j := s.jobOf(m.Job)
	w := j.byName[m.Worker]
	if w == nil {
		if j.Begun {
			return wire.Answer{Status: wire.Refused, Detail: fmt.Sprintf("worker %q is new in job %q, which has begun: it joins by a plan", m.Worker, m.Job), Clock: j.Clock}
		}
		return s.enter(j, m).fenced(j)
	}
	switch {
	case m.Incarnation == w.Incarnation && w.Session != expelled:
		return w.fenced(j) // again
	case m.Incarnation < w.Incarnation && !s.cfg.Bugs.NoFence:
		return w.answer(j, wire.Fenced, fmt.Sprintf("incarnation %d of worker %q (%s): now open as %v", m.Incarnation, m.Worker, clean(m.Owner), w))
	case w.Session == expelled:
		return w.answer(j, wire.Unknown, fmt.Sprintf("worker %q was expelled: %s: open it again", m.Worker, w.Why))
	}
	w.Incarnation, w.Owner, w.Session = m.Incarnation, clean(m.Owner), open
	return w.fenced(j)
}

// fenced is the answer to a fence that holds.
func (w *worker) fenced(j *job) wire.Answer {
	a := w.answer(j, wire.OK, "")
	a.Cursor = w.Cursor
	return a
}

// badFence says what is wrong with a fence, or nothing. It changes nothing.
func (s *State) badFence(m *wire.Fence) string {
	if !wire.ValidName(m.Job) || !wire.ValidName(m.Worker) || m.Incarnation == 0 {
		return "a fence needs a job, a worker (UTF-8, 1 to 255 bytes) and an incarnation"
	}
	if m.Rank >= m.Params.World {
		return fmt.Sprintf("rank %d of worker %q: the world is %d", m.Rank, m.Worker, m.Params.World)
	}
	j := s.jobs[m.Job]
	if j == nil {
		return ""
	}
	if j.Params.World != 0 && j.Params != m.Params {
		return fmt.Sprintf("job %q was opened with %v, worker %q asks for %v", m.Job, j.Params, m.Worker, m.Params)
	}
	for _, w := range j.Workers {
		switch {
		case w.Name == m.Worker && w.Rank != m.Rank:
			return fmt.Sprintf("rank %d of job %q for %v", m.Rank, m.Job, w)
		case w.Name != m.Worker && w.Rank == m.Rank && w.Session == open:
			return fmt.Sprintf("rank %d of job %q for worker %q (%s): it belongs to %v", m.Rank, m.Job, m.Worker, clean(m.Owner), w)
		}
	}
	return ""
}

// enter makes a worker.
func (s *State) enter(j *job, m *wire.Fence) *worker {
	j.Params = m.Params
	w := &worker{Name: m.Worker, Rank: m.Rank, Incarnation: m.Incarnation, Owner: clean(m.Owner)}
	if len(s.writers) < 1<<16-1 {
		s.writers = append(s.writers, m.Job+"/"+m.Worker)
		w.Writer = uint16(len(s.writers))
	}
	j.add(w)
	ranks := uint32(0)
	for i, w := range j.Workers {
		if i == 0 || j.Workers[i-1].Rank != w.Rank {
			ranks++
		}
	}
	j.Begun = ranks == j.Params.World
	return w
}

// finish lifts a worker's clock: no steps will follow.
func (s *State) finish(m *wire.Finish) wire.Answer {
	a := s.session(m.Job, m.Worker, m.Incarnation)
	if a.answer.Status != wire.OK {
		return a.answer
	}
	j, w := a.job, a.worker
	switch {
	case m.Step > w.Done:
		return w.answer(j, wire.Gap, fmt.Sprintf("finish worker %q at step %d: the next step is %d", m.Worker, m.Step, w.Done))
	case m.Step < w.Done:
		return w.answer(j, wire.Refused, fmt.Sprintf("finish worker %q at step %d: it has completed %d steps", m.Worker, m.Step, w.Done))
	case w.InStep || w.Parts != 0:
		return w.answer(j, wire.Refused, fmt.Sprintf("finish worker %q at step %d: parts of that step are in", m.Worker, m.Step))
	}
	w.Session = finished
	j.settle()
	return w.answer(j, wire.OK, "")
}
