package shard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hcclps/checkpoint"
	"hcclps/ps/wire"
)

// HeadBlob is the name of the blob in which a shard's part of a checkpoint has the job without rows.
const HeadBlob = "state"

const jobHeadVersion = 1

// head is a job without rows, as a checkpoint has it: the blob HeadBlob, as JSON.
type head struct {
	Version  int      `json:"version"`
	HashSeed uint64   `json:"hash_seed"`
	Writers  []string `json:"writers,omitempty"` // behind the number of a writer in rows, from 1
	Job      *job     `json:"job"`
}

// PartResult is what a shard tells of its part beside it: CheckpointPart.Result, as JSON.
type PartResult struct {
	Part    checkpoint.Part     `json:"part"`
	Step    uint64              `json:"step"`    // steps complete
	Applied uint64              `json:"applied"` // (worker, step)
	Rates   []wire.RateFrom     `json:"rates,omitempty"`
	Loaded  uint64              `json:"loaded,omitempty"`
	Tables  []checkpoint.Table  `json:"tables"`
	Workers []checkpoint.Worker `json:"workers"`
}

// headOf is a copy of a job at this moment.
func (s *State) headOf(j *job) head {
	c := *j
	c.Cut, c.Held, c.Forks, c.byName = nil, nil, nil, nil
	c.Workers, c.Tables, c.Rates = nil, nil, slices.Clone(j.Rates)
	for _, w := range j.Workers {
		v := *w
		c.Workers = append(c.Workers, &v)
	}
	for _, t := range j.Tables {
		u := *t.Table
		u.Kept.Marks = slices.Clone(u.Kept.Marks)
		c.Tables = append(c.Tables, &tab{Table: &u, Slot: t.Slot, SeenSlot: t.SeenSlot})
	}
	return head{Version: jobHeadVersion, HashSeed: s.cfg.HashSeed, Writers: slices.Clone(s.writers), Job: &c}
}

// tables describes the tables for a checkpoint.
func (h *head) tables() []checkpoint.Table {
	var out []checkpoint.Table
	for _, t := range h.Job.Tables {
		spec := t.Rows.Spec()
		schema, _ := json.Marshal(t.Spec) // it came as JSON
		state, _ := json.Marshal(wire.RuleState(t.Opt))
		out = append(out, checkpoint.Table{
			ID: t.Spec.ID, Name: t.Spec.Name, Shape: t.Spec.Shape, Dim: t.Spec.Dim, Slots: uint32(spec.Slots), Schema: schema, State: state,
		})
	}
	for _, t := range h.Job.Tables {
		if t.Seen != nil {
			schema, _ := json.Marshal(t.Spec)
			out = append(out, checkpoint.Table{ID: wire.SeenTable(t.Spec.ID), Name: t.Spec.Name + wire.SeenName, Dim: uint32(t.Seen.Spec().Dim), Schema: schema})
		}
	}
	return out
}

func (h *head) result(made checkpoint.Part) PartResult {
	j := h.Job
	r := PartResult{Part: made, Step: j.Clock, Applied: j.Applied, Tables: h.tables()}
	if j.Loaded {
		r.Loaded = j.Loading
	}
	for _, v := range j.Rates {
		r.Rates = append(r.Rates, wire.RateFrom(v))
	}
	for _, w := range j.Workers {
		r.Workers = append(r.Workers, checkpoint.Worker{
			Name: w.Name, Rank: w.Rank, Incarnation: w.Incarnation, Session: w.Session.String(), Clock: w.Done, Cursor: w.Cursor,
		})
	}
	return r
}

// decodeHead reads a head, and checks it as far as a State is not needed.
func decodeHead(b []byte) (*head, error) {
	var h head
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&h); err != nil {
		return nil, fmt.Errorf("decode state of a job: byte %d: %w", d.InputOffset(), err)
	}
	switch {
	case h.Version != jobHeadVersion:
		return nil, fmt.Errorf("decode state of a job: version %d, this program reads %d", h.Version, jobHeadVersion)
	case h.Job == nil:
		return nil, errors.New("decode state of a job: there is none")
	case slices.Contains(h.Job.Workers, nil) || slices.ContainsFunc(h.Job.Tables, func(t *tab) bool { return t == nil || t.Table == nil }):
		return nil, errors.New("decode state of a job: a worker or a table is missing")
	case len(h.Writers) > 1<<16-1:
		return nil, fmt.Errorf("decode state of a job: %d writers", len(h.Writers))
	}
	return &h, nil
}

// Merged is what a job was, put together from all shards of a checkpoint, for
// any number of shards.
type Merged struct {
	Head []byte // of a wire.Restore
	// Writers are, for each shard of the checkpoint, the numbers that writers of its rows have from now on.
	Writers [][]uint16
	Step    uint64
}

// MergeHeads puts the heads of a job together, one of each shard of a
// checkpoint, in the order of the shards. The job gets a name, and every
// session one incarnation more: whoever has the old one is fenced off. Workers are the
// names of its ranks from now on (bsp); nil: as they were.
func MergeHeads(heads [][]byte, name string, workers []string) (*Merged, error) {
	var all *head
	out := &Merged{}
	var writers []string
	for i, b := range heads {
		h, err := decodeHead(b)
		if err != nil {
			return nil, fmt.Errorf("shard %d: %w", i, err)
		}
		numbers := make([]uint16, len(h.Writers)+1)
		for n, w := range h.Writers {
			worker, ok := strings.CutPrefix(w, h.Job.Name+"/")
			if !ok {
				continue // of another job
			}
			at := slices.Index(writers, name+"/"+worker)
			if at < 0 {
				at, writers = len(writers), append(writers, name+"/"+worker)
			}
			numbers[n+1] = uint16(at + 1)
		}
		out.Writers = append(out.Writers, numbers)
		for _, w := range h.Job.Workers {
			if int(w.Writer) >= len(numbers) {
				return nil, fmt.Errorf("shard %d: worker %q has number %d of %d", i, w.Name, w.Writer, len(h.Writers))
			}
			w.Writer = numbers[w.Writer]
		}
		if all == nil {
			all = h
			continue
		}
		if err := all.Job.merge(h.Job); err != nil {
			return nil, fmt.Errorf("shards 0 and %d do not fit: %w", i, err)
		}
	}
	if all == nil {
		return nil, errors.New("no shard has the state of the job")
	}
	all.Writers, all.Job.Name = writers, name
	for _, w := range all.Job.Workers {
		w.Incarnation++
		w.Restores++
		w.Term, w.Index = 0, 0
	}
	if workers != nil {
		if err := all.Job.people(workers); err != nil {
			return nil, err
		}
	}
	out.Step = all.Job.Clock
	var err error
	out.Head, err = json.Marshal(all)
	return out, err
}

// people gives the job other workers: all ranks are at its clock, with the
// position in the data of the first one there was, which counts batches of all.
func (j *job) people(names []string) error {
	if j.Params.Sync != wire.BSP || !j.Begun || len(names) == 0 || len(names) > 1<<16 {
		return fmt.Errorf("job %q cannot go on with %d workers instead of %d: only bsp jobs can, that have begun", j.Name, len(names), j.Params.World)
	}
	old := j.Workers
	j.Workers, j.Params.World = nil, uint32(len(names))
	for rank, name := range names {
		w := *old[0]
		w.Name, w.Rank, w.Writer = name, uint32(rank), 0
		w.Done, w.From = j.Clock, 0
		if i := slices.IndexFunc(old, func(o *worker) bool { return o.Name == name }); i >= 0 {
			w.Incarnation, w.Restores, w.Writer = old[i].Incarnation, old[i].Restores, old[i].Writer
		} else {
			w.Incarnation, w.Restores = 2, 1
		}
		w.Session, w.Why = open, ""
		if !slices.ContainsFunc(old, func(o *worker) bool { return o.Session == open }) {
			w.Session = finished
		}
		j.Workers = append(j.Workers, &w)
	}
	j.Applied = j.Clock * uint64(len(names))
	return nil
}

// merge adds what another shard knows of the job.
func (j *job) merge(o *job) error {
	switch {
	case j.Params != o.Params || j.Clock != o.Clock && j.Params.Sync == wire.BSP:
		return fmt.Errorf("job %q: %v at step %d, and %v at step %d", j.Name, j.Params, j.Clock, o.Params, o.Clock)
	case len(j.Tables) != len(o.Tables):
		return fmt.Errorf("job %q: %d tables and %d", j.Name, len(j.Tables), len(o.Tables))
	}
	for i, t := range o.Tables {
		if why := differs(j.Tables[i].Spec, t.Spec); why != "" {
			return fmt.Errorf("job %q: %s", j.Name, why)
		}
		mine := &j.Tables[i].Kept // each shard counts its own; of the times one shard's do
		mine.Refused, mine.Evicted, mine.Time = 0, 0, max(mine.Time, t.Kept.Time)
	}
	j.Clock, j.Applied = max(j.Clock, o.Clock), max(j.Applied, o.Applied)
	for _, w := range o.Workers {
		i := slices.IndexFunc(j.Workers, func(have *worker) bool { return have.Name == w.Name })
		switch {
		case i < 0:
			j.Workers = append(j.Workers, w)
		case j.Workers[i].Done < w.Done: // only one that was expelled
			w.Incarnation = max(w.Incarnation, j.Workers[i].Incarnation)
			j.Workers[i] = w
		default:
			j.Workers[i].Incarnation = max(w.Incarnation, j.Workers[i].Incarnation)
		}
	}
	slices.SortFunc(j.Workers, func(a, b *worker) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Name, b.Name)) })
	return nil
}
