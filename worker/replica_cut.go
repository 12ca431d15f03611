package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"hcclps/checkpoint"
	"hcclps/ps/wire"
)

// cut makes a checkpoint of the step that was applied last, if that was asked for. All workers bring what rank 0 needs of them, which holds
// its tables as they are, and writes them while training goes on.
func (r *replica) cut(ctx context.Context) error {
	due := false
	r.cuts = slices.DeleteFunc(r.cuts, func(t uint64) bool { due = due || t == r.clock; return t <= r.clock })
	if !due || r.cfg.Mode != AllReduce {
		return nil
	}
	began := time.Now()
	state := workerState{workerHead: workerHead{Worker: r.cfg.Worker, Rank: r.rank(), World: r.world(), Step: r.clock, Cursor: r.cursor}}
	if r.rank() == 0 {
		state.About = r.about
	}
	var err error
	if state.residuals, err = r.residuals(); err != nil {
		return fmt.Errorf("residuals after step %d: %w", r.clock, err)
	}
	blob, err := state.encode()
	if err != nil {
		return err
	}
	blobs := [][]byte{blob}
	if r.peers != nil {
		if blobs, err = r.peers.collect(ctx, 0, blob); err != nil {
			return fmt.Errorf("collect the state of workers after step %d: %w", r.clock, err)
		}
	}
	if r.rank() != 0 {
		return nil
	}
	if r.saver == nil || r.saver.said.now().Writing {
		r.log.Warn("no checkpoint: this worker has no folder for it, or is still at the last one", "step", r.clock)
		return nil
	}
	c, err := r.captured(blobs, began)
	if err != nil {
		return err
	}
	r.saver.save(c, r.mu.RLocker())
	return nil
}

// world is the number of workers.
func (r *replica) world() int {
	if r.peers == nil {
		return 1
	}
	return r.peers.world.Size()
}

// captured is what a checkpoint has, as of now. A table is captured once at a time.
func (r *replica) captured(blobs [][]byte, began time.Time) (*capture, error) {
	params := r.cfg.jobParams()
	params.World = uint32(r.world())
	b, err := json.Marshal(wire.JobState{Params: params, Mode: r.cfg.Mode.String(), Rates: r.rates, Order: r.order, Applied: r.applied, Loaded: r.loaded})
	if err != nil {
		return nil, fmt.Errorf("describe job: %w", err)
	}
	c := &capture{began: began, blobs: blobs, manifest: checkpoint.Manifest{Job: r.cfg.Job, Step: r.clock, Shards: 1, Params: b}}
	for rank, b := range blobs {
		s, err := decodeWorkerState(b)
		if err != nil {
			return nil, fmt.Errorf("state of rank %d: %w", rank, err)
		}
		c.bytes += int64(len(b))
		c.manifest.Workers = append(c.manifest.Workers, checkpoint.Worker{Name: s.Worker, Rank: uint32(rank), Incarnation: 1, Session: "open", Clock: s.Step, Cursor: s.Cursor})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tables {
		of, err := t.describe()
		if err != nil {
			return nil, err
		}
		c.manifest.Tables = append(c.manifest.Tables, of)
	}
	for _, t := range r.tables {
		if t.Seen != nil {
			of, err := t.describe()
			if err != nil {
				return nil, err
			}
			of.ID, of.Name, of.Dim, of.Slots, of.State = wire.SeenTable(of.ID), of.Name+wire.SeenName, uint32(t.Seen.Spec().Dim), 0, nil
			c.manifest.Tables = append(c.manifest.Tables, of)
		}
	}
	for _, t := range r.stores() {
		spec := t.rows.Spec()
		c.bytes += t.rows.Stats().Rows * int64(spec.Stride())
		p := t.rows.Capture()
		if p == nil {
			c.close()
			return nil, fmt.Errorf("capture table %q after step %d: an earlier checkpoint still holds it", t.name, r.clock)
		}
		c.pages = append(c.pages, p)
	}
	return c, nil
}

// describe is a table as a checkpoint describes it.
func (t *held) describe() (checkpoint.Table, error) {
	schema, err := json.Marshal(t.Spec)
	if err != nil {
		return checkpoint.Table{}, fmt.Errorf("describe table %q: %w", t.Spec.Name, err)
	}
	state, err := json.Marshal(heldState{wire.RuleState(t.Opt), t.Kept})
	if err != nil {
		return checkpoint.Table{}, fmt.Errorf("describe the optimizer of table %q: %w", t.Spec.Name, err)
	}
	return checkpoint.Table{
		ID: t.Spec.ID, Name: t.Spec.Name, Shape: t.Spec.Shape, Dim: t.Spec.Dim, Slots: uint32(t.Rows.Spec().Slots), Schema: schema, State: state,
	}, nil
}
