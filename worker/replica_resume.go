package worker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"hcclps/checkpoint"
	"hcclps/ps/optim"
	"hcclps/ps/table"
	"hcclps/ps/wire"
)

// take brings the parameters of the job's newest checkpoint to all workers, where that is wanted. A worker that comes in later gets them from the
// others, as they are then.
func (r *replica) take(ctx context.Context) error {
	s := r.saver
	if s == nil || r.late() {
		return nil
	}
	var blobs [][]byte
	var err error
	if r.rank() == 0 {
		if !s.cfg.Resume {
			return s.fresh(ctx)
		}
		blobs, err = r.restore(ctx)
	}
	if !s.cfg.Resume {
		return nil
	}
	mine := [][]byte{}
	if r.peers == nil {
		mine = blobs
	} else {
		if err = r.peers.allWell(ctx, err); err == nil {
			err = r.meet(ctx)
		}
		if err == nil {
			mine, err = r.shareOut(ctx, blobs)
		}
	}
	if err != nil {
		return fmt.Errorf("resume from a checkpoint: %w", err)
	}
	if n := r.world(); r.rank() == 0 && len(blobs) != n {
		r.log.Info("what the codes of worker r had held back goes to that of worker r mod n, and is added to its own", "workers", len(blobs), "n", n)
	}
	for _, b := range mine {
		if len(b) == 0 {
			continue
		}
		st, err := decodeWorkerState(b)
		if err == nil {
			err = r.putResiduals(st.residuals)
		}
		if err != nil {
			return fmt.Errorf("resume from a checkpoint: state of a worker: %w", err)
		}
	}
	return nil
}

// late says whether others have been here before.
func (r *replica) late() bool { return r.peers != nil && r.peers.world.Epoch() > 1 }

// shareOut gives each worker what those of its number before have left: rank r of another number of workers is r mod n now.
func (r *replica) shareOut(ctx context.Context, blobs [][]byte) (mine [][]byte, err error) {
	n := r.world()
	b, err := r.peers.broadcast(ctx, 0, wire.ClaimCursor{At: uint64(len(blobs))}.Append(nil))
	if err != nil {
		return nil, err
	}
	c, err := wire.DecodeClaimCursor(b)
	if err != nil {
		return nil, err
	}
	for at := 0; at < int(c.At); at += n {
		var parts [][]byte
		if r.rank() == 0 {
			parts = slices.Clone(blobs[at:min(at+n, len(blobs))])
			for len(parts) < n {
				parts = append(parts, nil)
			}
		}
		got, err := r.peers.deal(ctx, 0, parts)
		if err != nil {
			return nil, err
		}
		if len(got) > 0 {
			mine = append(mine, got)
		}
	}
	return mine, nil
}

// restore takes up the newest checkpoint of the job, and returns the state of its workers by rank.
func (r *replica) restore(ctx context.Context) ([][]byte, error) {
	store, err := r.saver.open()
	if err != nil {
		return nil, err
	}
	m, err := store.Newest(ctx, r.cfg.Job)
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil, fmt.Errorf("%w: leave resume out to begin the job", err)
	}
	if err != nil {
		return nil, err
	}
	c, err := store.Load(ctx, m.ID)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return r.restoreFrom(ctx, c)
}

func (r *replica) restoreFrom(ctx context.Context, c *checkpoint.Checkpoint) ([][]byte, error) {
	m := c.Manifest()
	if err := c.Fits(0); err != nil {
		return nil, err
	}
	job, err := r.jobOf(m)
	if err != nil {
		return nil, err
	}
	blobs, err := workerBlobs(ctx, c)
	if err != nil {
		return nil, err
	}
	s := shared{
		Clock: m.Step, Loaded: job.Loaded, Applied: cmp.Or(job.Applied, m.Step*uint64(len(m.Workers))), Stop: wire.Infinity,
		Order: job.Order, Rates: job.Rates,
	}
	for _, w := range m.Workers {
		if s.Cursor == nil && w.Clock == m.Step {
			s.Cursor = w.Cursor
		}
	}
	_, dense, err := modelState(m, blobs)
	if err != nil {
		return nil, err
	}
	for _, t := range m.Tables {
		if wire.IsSeen(t.ID) {
			continue
		}
		rule, err := ruleOf(t)
		if err != nil {
			return nil, err
		}
		s.Tables = append(s.Tables, rule)
		s.LastID = max(s.LastID, t.ID)
	}
	if dense != nil {
		s.Tables = append(s.Tables, dense.Dense.Tables...)
		s.Order, s.LastID = dense.Dense.Order, dense.Dense.LastID
	}
	if err := r.become(&s); err != nil {
		return nil, err
	}
	if err := r.loadPages(ctx, c); err != nil {
		return nil, err
	}
	if dense != nil {
		if err := r.putDense(dense); err != nil {
			return nil, err
		}
	}
	r.log.Info("resumed from a checkpoint", "id", m.ID, "step", m.Step, "tables", len(s.Tables), "workers", len(m.Workers))
	return blobs, nil
}

// jobOf is what a checkpoint says of its job, if that is this one.
func (r *replica) jobOf(m *checkpoint.Manifest) (wire.JobState, error) {
	var job wire.JobState
	if err := json.Unmarshal(m.Params, &job); err != nil {
		return job, fmt.Errorf("checkpoint %d: parameters of the job: %w", m.ID, err)
	}
	was, is := job.Params, r.cfg.jobParams()
	was.World, was.Parts, is.Parts = is.World, 0, 0 // which may be others
	if was != is {
		return job, fmt.Errorf("checkpoint %d is of a job with %v, this is %v: give the same data and options", m.ID, was, is)
	}
	return job, nil
}

// ruleOf is a table of a checkpoint.
func ruleOf(t checkpoint.Table) (sharedRule, error) {
	var spec wire.Table
	var state heldState
	err := json.Unmarshal(t.Schema, &spec)
	if err == nil && len(t.State) > 0 {
		err = json.Unmarshal(t.State, &state)
	}
	if err == nil && (spec.ID != t.ID || spec.Name != t.Name || spec.Dim != t.Dim) {
		err = fmt.Errorf("it is described as %q, number %d with rows of %d", spec.Name, spec.ID, spec.Dim)
	}
	if err != nil {
		return sharedRule{}, fmt.Errorf("table %q of a checkpoint: %w", t.Name, err)
	}
	return sharedRule{Spec: spec, Opt: optim.State(state.RuleState), Kept: state.Kept}, nil
}

// workerBlobs reads the state of workers, by rank; empty of one that brought none.
func workerBlobs(ctx context.Context, c *checkpoint.Checkpoint) ([][]byte, error) {
	all, err := c.Blobs(ctx)
	if err != nil {
		return nil, err
	}
	pieces, ranks := map[uint32]uint32{}, uint32(0) // by rank
	groups := map[uint32]uint32{}
	for _, of := range all {
		if rank, piece, ok := wire.ParseUpload(of.Name); ok && rank < maxRanks && piece < wire.MaxPieces {
			pieces[rank], groups[rank], ranks = max(pieces[rank], piece+1), of.Group, max(ranks, rank+1)
		}
	}
	blobs := make([][]byte, ranks)
	for rank, n := range pieces {
		var b bytes.Buffer
		for piece := range n {
			if err := c.Blob(ctx, groups[rank], wire.UploadName(rank, piece), &b); err != nil {
				return nil, err
			}
		}
		blobs[rank] = b.Bytes()
	}
	return blobs, nil
}

// maxRanks is above the number of any worker whose state is read.
const maxRanks = 1 << 16

// modelState is what workers know of the model: its description, and of hybrid the state with the dense tensors, which is not there in other
// modes. It is that of rank 0, as a rule: who is that may have changed.
func modelState(m *checkpoint.Manifest, blobs [][]byte) (about About, dense *workerState, err error) {
	var job wire.JobState
	if err := json.Unmarshal(m.Params, &job); err != nil {
		return about, nil, fmt.Errorf("checkpoint %d: parameters of the job: %w", m.ID, err)
	}
	for rank, b := range blobs {
		if len(b) == 0 {
			continue
		}
		s, err := decodeWorkerState(b)
		if err != nil {
			return about, nil, fmt.Errorf("checkpoint %d: state of rank %d: %w", m.ID, rank, err)
		}
		if !about.described() {
			about = s.About
		}
		if dense == nil && s.Dense != nil {
			dense = s
		}
	}
	if dense == nil && job.Mode == wire.ModeHybrid {
		return about, nil, fmt.Errorf("checkpoint %d is of a hybrid job, and without its dense tensors, which a worker was to bring: name an older one", m.ID)
	}
	return about, dense, nil
}

// loadPages reads all rows of a checkpoint.
func (r *replica) loadPages(ctx context.Context, c *checkpoint.Checkpoint) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	stores := r.stores()
	for p, err := range c.Pages(ctx, checkpoint.Query{}) {
		if err != nil {
			return err
		}
		at := slices.IndexFunc(stores, func(t heldRows) bool { return t.id == p.Table })
		if at < 0 {
			continue // of a table that is gone
		}
		t := stores[at]
		if err := t.rows.Load(table.PageID{Partition: p.Partition, Page: p.Page}, p.Data); err != nil {
			return fmt.Errorf("page %v of table %q: %w", p.PageID, t.name, err)
		}
	}
	return nil
}

// putDense takes over the dense tensors of a hybrid job.
func (r *replica) putDense(s *workerState) error {
	return s.eachTable(func(t *sharedRule, rows []wire.Row) error {
		if err := r.table(t.Spec.ID).Put(rowsOf(rows)); err != nil {
			return fmt.Errorf("rows of table %q: %w", t.Spec.Name, err)
		}
		return nil
	})
}
