package meta

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// stateVersion is the format of a snapshot's head.
const stateVersion = 1

// state is everything the meta group agrees on. apply is its only writer.
type state struct {
	Version int             `json:"version"`
	Layout  layout.Layout   `json:"layout"`
	Jobs    map[string]*job `json:"jobs"`
	// Notes are by name of the job.
	Notes map[string]wire.Note `json:"notes,omitempty"`
	// Checkpoint is the one under way.
	Checkpoint     *save                 `json:"checkpoint,omitempty"`
	Checkpoints    []saved               `json:"checkpoints,omitempty"` // ended, oldest first
	LastCheckpoint uint64                `json:"last_checkpoint,omitempty"`
	Restores       map[string]*restoring `json:"restores,omitempty"` // by name of the job

	index uint64 // of the entry that is being applied
}

// job is one training job.
type job struct {
	Params   wire.JobParams `json:"params"`         // of the first opener; World 0: there was none, and tables were forked into it
	Workers  []worker       `json:"workers"`        // ascending rank
	Tables   []wire.Table   `json:"tables"`         // ids 1, 2, ... in this order
	Mode     string         `json:"mode,omitempty"` // of wire.JobState, as the last opener said; empty is ps
	LastPlan uint64         `json:"last_plan"`
	Plan     *flight        `json:"plan,omitempty"` // the one in flight
	Claims   claims         `json:"claims"`
	Saved    uint64         `json:"saved,omitempty"`    // the newest checkpoint of it that was committed here
	Restored *restored      `json:"restored,omitempty"` // what it came from
}

// sessionState is where a session is in its life.
type sessionState string

// The states. An expelled worker that opens again stays expelled until its
// Join plan is in force. A restored one is waited for, without a lease, until it opens.
const (
	sessionOpen     sessionState = "open"
	sessionFinished sessionState = "finished"
	sessionExpelled sessionState = "expelled"
	sessionRestored sessionState = "restored"
)

// worker is one worker of a job.
type worker struct {
	Name        string       `json:"name"`
	Rank        uint32       `json:"rank"`
	Incarnation uint64       `json:"incarnation"` // times it was opened
	Owner       string       `json:"owner"`       // host, pid, which opening
	State       sessionState `json:"state"`
	Why         string       `json:"why,omitempty"`     // it was expelled
	Uploads     bool         `json:"uploads,omitempty"` // it brings its state to each checkpoint
}

// stage is how far a plan in flight is.
type stage string

// The stages: a plan is held by the shards one by one, then either released on
// all or dropped on all, then it is no longer in flight.
const (
	holding   stage = "holding"
	releasing stage = "releasing"
	dropping  stage = "dropping"
)

// flight is a plan on its way to the shards.
type flight struct {
	Plan  wire.Plan `json:"plan"`
	Stage stage     `json:"stage"`
}

// newState is the state before the first entry.
func newState() *state {
	return &state{Version: stateVersion, Jobs: map[string]*job{}}
}

// encode writes the state as a snapshot's head: JSON, equal bytes for equal states.
func (s *state) encode() ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode meta state: %w", err)
	}
	return b, nil
}

// decodeState reads what encode wrote and checks what apply relies on.
func decodeState(b []byte) (*state, error) {
	s := newState()
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("decode meta state: %w", err)
	}
	if s.Version != stateVersion {
		return nil, fmt.Errorf("decode meta state: version %d, this program reads %d", s.Version, stateVersion)
	}
	if s.Jobs == nil {
		s.Jobs = map[string]*job{}
	}
	for name, j := range s.Jobs {
		if j == nil {
			return nil, fmt.Errorf("decode meta state: job %q is null", name)
		}
		if err := j.valid(); err != nil {
			return nil, fmt.Errorf("decode meta state: job %q: %w", name, err)
		}
	}
	for name, r := range s.Restores {
		if r == nil {
			return nil, fmt.Errorf("decode meta state: restore of job %q is null", name)
		}
	}
	return s, nil
}

// valid checks what apply relies on.
func (j *job) valid() error {
	if j.Params.World != 0 || len(j.Workers) > 0 {
		if err := checkParams(j.Params); err != nil {
			return err
		}
	}
	for i, t := range j.Tables {
		if t.ID != uint32(i+1) || !wire.ValidName(t.Name) || t.Dim < 1 {
			return fmt.Errorf("table %d of %d has id %d, name %.300q and %d values a row", i+1, len(j.Tables), t.ID, t.Name, t.Dim)
		}
	}
	if f := j.Plan; f != nil && (f.Plan.ID != j.LastPlan || f.Stage != holding && f.Stage != releasing && f.Stage != dropping) {
		return fmt.Errorf("plan %d is in flight, stage %.300q, and the last one was %d", f.Plan.ID, string(f.Stage), j.LastPlan)
	}
	if !slices.IsSortedFunc(j.Workers, byRank) {
		return errors.New("workers are not in the order of their ranks")
	}
	return nil
}

// empty says whether the job is nothing but the plans of forks that were refused.
func (j *job) empty() bool {
	return j.Params.World == 0 && len(j.Tables) == 0 && j.Plan == nil
}

func byRank(a, b worker) int { return int(a.Rank) - int(b.Rank) }

// worker finds a worker by name, nil if there is none.
func (j *job) worker(name string) *worker {
	i := slices.IndexFunc(j.Workers, func(w worker) bool { return w.Name == name })
	if i < 0 {
		return nil
	}
	return &j.Workers[i]
}

// session finds the live session a request speaks for, or says why there is none.
func (s *state) session(ref wire.SessionRef) (*job, *worker, wire.Answer) {
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
	case w.State == sessionExpelled:
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
	if len(p.Data) > wire.MaxData {
		errs = append(errs, fmt.Errorf("a description of data of %d bytes: want %d at most", len(p.Data), wire.MaxData))
	}
	return errors.Join(errs...)
}
