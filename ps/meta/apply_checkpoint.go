package meta

import (
	"slices"

	"hcclps/ps/wire"
)

// keepEnded is how many checkpoints that have ended are remembered.
const keepEnded = 16

// saveStage is how far a checkpoint under way is.
type saveStage string

// The stages. A checkpoint that is complete exists as soon as its manifest does, which any
// leader may write; one that is not goes with the leader that began it.
const (
	savePlanned   saveStage = "planned"   // its plan is in flight
	saveWriting   saveStage = "writing"   // its plan is in force
	saveComplete  saveStage = "complete"  // all parts are in: Manifest says which
	saveCommitted saveStage = "committed" // its manifest is written
	saveAbandoned saveStage = "abandoned"
)

// save is the checkpoint under way: at most one in the cluster.
type save struct {
	ID       uint64    `json:"id"`
	Job      string    `json:"job"`
	Step     uint64    `json:"step"`
	Plan     uint64    `json:"plan"` // of the job
	Stage    saveStage `json:"stage"`
	Manifest []byte    `json:"manifest,omitempty"` // complete: JSON of a checkpoint.Manifest
}

// saved is a checkpoint that has ended.
type saved struct {
	ID    uint64    `json:"id"`
	Job   string    `json:"job"`
	Step  uint64    `json:"step"`
	Stage saveStage `json:"stage"`
	Why   string    `json:"why,omitempty"`
	Bytes int64     `json:"bytes,omitempty"`
}

// saveEntry moves the checkpoint under way on: to complete, committed or abandoned.
type saveEntry struct {
	ID       uint64    `json:"id"`
	Stage    saveStage `json:"stage"`
	Step     uint64    `json:"step,omitempty"`
	Manifest []byte    `json:"manifest,omitempty"`
	Why      string    `json:"why,omitempty"`
	Bytes    int64     `json:"bytes,omitempty"`
}

// beginSave gives a checkpoint its number, above those that the folder has.
func (s *state) beginSave(job string, p *wire.Plan, above uint64) wire.Answer {
	if c := s.Checkpoint; c != nil {
		return wire.Answer{Status: wire.Busy, After: logFull, Detail: refuse(wire.Busy, "checkpoint %d of job %q is being written: one at a time", c.ID, c.Job).Detail}
	}
	s.LastCheckpoint = max(s.index, s.LastCheckpoint+1, above+1)
	p.Checkpoint = s.LastCheckpoint
	s.Checkpoint = &save{ID: p.Checkpoint, Job: job, Step: p.T, Plan: p.ID, Stage: savePlanned}
	return wire.Answer{}
}

// planSaved is what the stage of a checkpoint's plan means to the checkpoint.
func (s *state) planSaved(job string, plan uint64, to stage) {
	c := s.Checkpoint
	switch {
	case c == nil || c.Job != job || c.Plan != plan || c.Stage != savePlanned:
	case to == releasing:
		c.Stage = saveWriting
	case to == dropping:
		s.Checkpoint = nil
	}
}

// save moves the checkpoint under way on. What is behind answers OK and does nothing.
func (s *state) save(e saveEntry) result {
	c := s.Checkpoint
	if c == nil || c.ID != e.ID {
		return result{}
	}
	switch {
	case e.Stage == saveComplete && c.Stage == saveWriting:
		c.Stage, c.Manifest, c.Step = saveComplete, e.Manifest, e.Step
	case e.Stage == saveCommitted && c.Stage == saveComplete, e.Stage == saveAbandoned:
		s.Checkpoint = nil
		s.Checkpoints = append(s.Checkpoints, saved{ID: c.ID, Job: c.Job, Step: c.Step, Stage: e.Stage, Why: e.Why, Bytes: e.Bytes})
		if n := len(s.Checkpoints) - keepEnded; n > 0 {
			s.Checkpoints = slices.Delete(s.Checkpoints, 0, n)
		}
		if j := s.Jobs[c.Job]; j != nil && e.Stage == saveCommitted {
			j.Saved = c.ID
		}
	}
	return result{}
}
