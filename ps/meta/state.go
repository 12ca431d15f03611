package meta

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// StateVersion is the format of a snapshot's head.
const StateVersion = 1

// State is everything the meta group agrees on. Apply is its only writer.
type State struct {
	Version int             `json:"version"`
	Layout  layout.Layout   `json:"layout"`
	Jobs    map[string]*Job `json:"jobs"`
}

// Job is one training job.
type Job struct {
	Params   wire.JobParams `json:"params"`  // of the first opener
	Workers  []Worker       `json:"workers"` // ascending rank
	Tables   []wire.Table   `json:"tables"`  // ids 1, 2, ... in this order
	LastPlan uint64         `json:"last_plan"`
	Plan     *Flight        `json:"plan,omitempty"` // the one in flight
	Claims   Claims         `json:"claims"`
}

// WorkerState is where a session is in its life.
type WorkerState string

// The states. An expelled worker that opens again stays expelled until its
// Join plan is in force.
const (
	Open     WorkerState = "open"
	Finished WorkerState = "finished"
	Expelled WorkerState = "expelled"
)

// Worker is one worker of a job.
type Worker struct {
	Name        string      `json:"name"`
	Rank        uint32      `json:"rank"`
	Incarnation uint64      `json:"incarnation"` // times it was opened
	Owner       string      `json:"owner"`       // host, pid, which opening
	State       WorkerState `json:"state"`
	Why         string      `json:"why,omitempty"` // it was expelled
}

// Stage is how far a plan in flight is.
type Stage string

// The stages: a plan is held by the shards one by one, then either released on
// all or dropped on all, then it is no longer in flight.
const (
	Holding   Stage = "holding"
	Releasing Stage = "releasing"
	Dropping  Stage = "dropping"
)

// Flight is a plan on its way to the shards.
type Flight struct {
	Plan  wire.Plan `json:"plan"`
	Stage Stage     `json:"stage"`
}

// NewState is the state before the first entry.
func NewState() *State {
	return &State{Version: StateVersion, Jobs: map[string]*Job{}}
}

// Encode writes the state as a snapshot's head: JSON, equal bytes for equal states.
func (s *State) Encode() ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode meta state: %w", err)
	}
	return b, nil
}

// DecodeState reads what Encode wrote and checks what Apply relies on.
func DecodeState(b []byte) (*State, error) {
	s := NewState()
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("decode meta state: %w", err)
	}
	if s.Version != StateVersion {
		return nil, fmt.Errorf("decode meta state: version %d, this program reads %d", s.Version, StateVersion)
	}
	if s.Jobs == nil {
		s.Jobs = map[string]*Job{}
	}
	for name, j := range s.Jobs {
		if j == nil {
			return nil, fmt.Errorf("decode meta state: job %q is null", name)
		}
		if err := checkParams(j.Params); err != nil {
			return nil, fmt.Errorf("decode meta state: job %q: %w", name, err)
		}
		if !slices.IsSortedFunc(j.Workers, byRank) {
			return nil, fmt.Errorf("decode meta state: job %q: workers are not in the order of their ranks", name)
		}
	}
	return s, nil
}

func byRank(a, b Worker) int { return int(a.Rank) - int(b.Rank) }

// worker finds a worker by name, nil if there is none.
func (j *Job) worker(name string) *Worker {
	i := slices.IndexFunc(j.Workers, func(w Worker) bool { return w.Name == name })
	if i < 0 {
		return nil
	}
	return &j.Workers[i]
}

// session finds the live session a request speaks for, or says why there is none.
func (s *State) session(ref wire.SessionRef) (*Job, *Worker, wire.Answer) {
	j := s.Jobs[ref.Job]
	if j == nil {
		return nil, nil, refuse(wire.Unknown, "job %q is not open at the meta group: open it first", ref.Job)
	}
	w := j.worker(ref.Worker)
	switch {
	case w == nil || ref.Incarnation > w.Incarnation:
		return nil, nil, refuse(wire.Unknown, "worker %q of job %q has no incarnation %d here: open it first", ref.Worker, ref.Job, ref.Incarnation)
	case ref.Incarnation < w.Incarnation:
		return nil, nil, refuse(wire.Fenced, "incarnation %d of worker %q was fenced off by incarnation %d (%s): only one may run", ref.Incarnation, w.Name, w.Incarnation, w.Owner)
	case w.State == Expelled:
		return nil, nil, refuse(wire.Unknown, "worker %q (%s) was expelled: %s; open it again", w.Name, w.Owner, w.Why)
	}
	return j, w, wire.Answer{}
}

func refuse(status wire.Status, format string, args ...any) wire.Answer {
	return wire.Answer{Status: status, Detail: fmt.Sprintf(format, args...)}
}

// checkParams reports every fault of a job's parameters.
func checkParams(p wire.JobParams) error {
	var errs []error
	if p.World < 1 || p.World > 1<<16 {
		errs = append(errs, fmt.Errorf("world %d: want 1 to 65536 workers", p.World))
	}
	if p.Sync > wire.ASP {
		errs = append(errs, fmt.Errorf("sync %d: want bsp, ssp or asp", p.Sync))
	}
	if p.Parts < 1 || p.Parts > wire.MaxParts || p.Parts&(p.Parts-1) != 0 {
		errs = append(errs, fmt.Errorf("parts %d: want a power of two up to %d", p.Parts, wire.MaxParts))
	}
	return errors.Join(errs...)
}

// describe shows job parameters to people.
func describe(p wire.JobParams) string {
	sync := [...]string{"bsp", fmt.Sprintf("ssp:%d", p.Staleness), "asp"}[p.Sync]
	reduce := "mean"
	if p.Sum {
		reduce = "sum"
	}
	return fmt.Sprintf("world %d, %s, %d parts, reduce %s, seed %d", p.World, sync, p.Parts, reduce, p.Seed)
}
