package meta

import (
	"fmt"
	"slices"

	"hcclps/ps/wire"
)

// open gives a worker its next incarnation. The first opener of a job fixes
// its parameters; a rank belongs to one worker name for the life of the job.
func (s *state) open(r wire.OpenRequest) result {
	if a := s.checkOpen(r); a.Status != wire.OK {
		return result{Answer: a}
	}
	j := s.Jobs[r.Job]
	if j == nil {
		j = &job{Params: r.Params}
		s.Jobs[r.Job] = j
	}
	if j.Params.World == 0 {
		j.Params = r.Params
	}
	w := j.worker(r.Worker)
	if w == nil {
		i, _ := slices.BinarySearchFunc(j.Workers, worker{Rank: r.Rank}, byRank)
		j.Workers = slices.Insert(j.Workers, i, worker{Name: r.Worker, Rank: r.Rank, State: sessionOpen})
		w = &j.Workers[i]
	}
	w.Incarnation++
	w.Uploads, j.Mode = r.State, r.Mode
	w.Owner = fmt.Sprintf("%s, opening %d", r.Owner, w.Incarnation)
	if w.State == sessionFinished || w.State == sessionRestored {
		w.State = sessionOpen
	}
	return result{Reply: wire.OpenReply{
		Incarnation: w.Incarnation, Params: j.Params, Tables: slices.Clone(j.Tables), Owner: w.Owner,
		Restored: j.Restored.said(),
	}}
}

func (s *state) checkOpen(r wire.OpenRequest) wire.Answer {
	for _, name := range []string{r.Job, r.Worker} {
		if !wire.ValidName(name) {
			return refuse(wire.Refused, "open worker %.300q of job %.300q: a name is UTF-8 of 1 to %d bytes", r.Worker, r.Job, wire.MaxName)
		}
	}
	if len(r.Owner) > wire.MaxName {
		return refuse(wire.Refused, "open worker %q: its owner is described in %d bytes, at most %d", r.Worker, len(r.Owner), wire.MaxName)
	}
	if len(r.Mode) > wire.MaxName {
		return refuse(wire.Refused, "open worker %q: its mode is told in %d bytes, at most %d", r.Worker, len(r.Mode), wire.MaxName)
	}
	if err := checkParams(r.Params); err != nil {
		return refuse(wire.Refused, "open job %q: %v", r.Job, err)
	}
	if r.Rank >= r.Params.World {
		return refuse(wire.Refused, "open worker %q: rank %d is not below the world of %d", r.Worker, r.Rank, r.Params.World)
	}
	if now := s.Restores[r.Job]; now != nil {
		return refuse(wire.Pending, "job %q is being restored from checkpoint %d in %s: again soon; if that has failed, restore it again", r.Job, now.Checkpoint, now.Dir)
	}
	j := s.Jobs[r.Job]
	if j == nil {
		return wire.Answer{}
	}
	if j.Params.World != 0 && j.Params != r.Params {
		return refuse(wire.Refused, "job %q runs with %s; worker %q (%s) asks for %s", r.Job, j.Params.String(), r.Worker, r.Owner, r.Params.String())
	}
	for _, w := range j.Workers {
		if (w.Name == r.Worker) != (w.Rank == r.Rank) {
			return refuse(wire.Refused, "rank %d of job %q belongs to worker %q (%s); worker %q (%s) asks for rank %d", w.Rank, r.Job, w.Name, w.Owner, r.Worker, r.Owner, r.Rank)
		}
	}
	if f := j.Plan; f != nil && f.concerns(r.Worker) {
		return refuse(wire.Pending, "worker %q is the subject of plan %d, which is in flight: again soon", r.Worker, f.Plan.ID)
	}
	return wire.Answer{}
}

// concerns says whether the plan in flight lets this worker out or in.
func (f *flight) concerns(worker string) bool {
	switch f.Plan.Kind {
	case wire.PlanExpel:
		return f.Plan.Worker == worker
	case wire.PlanJoin:
		return f.Plan.Join.Worker == worker
	default:
		return false
	}
}

// finish closes a session whose worker has said Finish to the shards.
func (s *state) finish(ref wire.SessionRef) result {
	j, w, a := s.session(ref)
	if w == nil {
		return result{Answer: a}
	}
	w.State = sessionFinished
	j.Claims.forget(w.Name)
	return result{}
}

// claim gives a worker its next range of batches.
func (s *state) claim(r wire.ClaimRequest) result {
	j, w, a := s.session(r.SessionRef)
	if w == nil {
		return result{Answer: a}
	}
	if j.Params.Sync == wire.BSP {
		return result{Answer: refuse(wire.Refused, "job %q is bsp: its batches are fixed by rank, none can be claimed", r.Job)}
	}
	if r.End > 0 {
		if err := j.Claims.setEnd(r.EndOf, r.End); err != nil {
			return result{Answer: refuse(wire.Refused, "claim of worker %q of job %q: %v", w.Name, r.Job, err)}
		}
	}
	return result{Reply: j.Claims.next(w.Name, r.Have, r.Epochs)}
}
