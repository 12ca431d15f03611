package shard

import (
	"slices"

	"hcclps/ps/wire"
)

// cut is a checkpoint plan in force: the state after the steps before it is to
// be captured. Under bsp these are the steps before T. Under ssp and asp they are each
// worker's own, and it is stopped there until all shards have captured.
type cut struct {
	ID      uint64 // of the checkpoint
	Base    uint64 // the checkpoint it is a delta to, 0: full
	T       uint64
	Workers []wire.Cut `json:",omitzero"`
}

// anyStep says whether a plan is a checkpoint that each worker has at a step of
// its own.
func (j *job) anyStep(p *wire.Plan) bool {
	return p.Kind == wire.PlanCheckpoint && j.Params.Sync != wire.BSP
}

// positions are the steps that each worker has begun here.
func (j *job) positions() []wire.Cut {
	var at []wire.Cut
	for _, w := range j.Workers {
		if w.Session != open {
			continue
		}
		done := w.Done
		if w.Parts != 0 {
			done++
		}
		at = append(at, wire.Cut{Worker: w.Name, Step: done})
	}
	return at
}

// of is up to where a worker goes (ssp, asp). One that was not there when the
// cut was agreed on goes nowhere.
func (c *cut) of(worker string) uint64 {
	i := slices.IndexFunc(c.Workers, func(w wire.Cut) bool { return w.Worker == worker })
	if i < 0 {
		return 0
	}
	return c.Workers[i].Step
}

// stopsAt says whether a worker must not begin a step before the capture (ssp, asp).
func (j *job) stopsAt(w *worker, step uint64) bool {
	return j.Cut != nil && j.Params.Sync != wire.BSP && step >= j.Cut.of(w.Name)
}

// cutOf is the checkpoint that waits, and its place in the worker's steps.
func (j *job) cutOf(w *worker) (id, step uint64) {
	switch {
	case j.Cut != nil && j.Params.Sync != wire.BSP:
		return j.Cut.ID, j.Cut.of(w.Name)
	case j.Cut != nil:
		return j.Cut.ID, j.Cut.T
	case j.Held != nil && j.Held.Kind == wire.PlanCheckpoint:
		return j.Held.Checkpoint, j.Held.T
	default:
		return 0, 0
	}
}

// atCut says whether all steps before the cut are applied, also when some after it may be.
func (j *job) atCut() bool {
	switch {
	case j.Cut == nil || !j.Begun:
		return false
	case j.Params.Sync == wire.BSP:
		return j.Clock >= j.Cut.T || j.over()
	}
	return !slices.ContainsFunc(j.Workers, func(w *worker) bool {
		return w.Session == open && (w.Done < j.Cut.of(w.Name) || w.Parts != 0)
	})
}

// beyond says that steps after the cut are applied: it is too late for a capture.
func (j *job) beyond() bool {
	return j.Params.Sync == wire.BSP && (j.Clock > j.Cut.T || j.Clock == j.Cut.T && j.Parts != 0)
}

// goOn ends a cut: all shards have captured, or nobody will.
func (s *State) goOn(m *wire.Checkpoint) wire.Answer {
	j := s.jobs[m.Job]
	if j == nil {
		return wire.Answer{Status: wire.Unknown, Detail: clean("job " + m.Job + " is unknown here")}
	}
	if j.Cut != nil && j.Cut.ID == m.ID {
		j.Cut = nil
	}
	return j.answer(wire.OK, "")
}
