package worker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"hcclps/p2p/link"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// checkpoint asks the servers for a checkpoint, and returns its plan.
func (s *servers) checkpoint(ctx context.Context) (made wire.Plan, err error) {
	req := wire.PlanRequest{SessionRef: s.ref(), Plan: wire.Plan{Kind: wire.PlanCheckpoint}}
	return made, s.control(ctx, "plan a checkpoint", wire.KindPlan, req, &made)
}

// look is how often the servers are asked how far a checkpoint is.
const look = 250 * time.Millisecond

// observe takes note of how a checkpoint comes along, to its end.
func (c *Client) observe(ctx context.Context, p wire.Plan) {
	began := time.Now()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		var r wire.CheckpointsReply
		err := c.servers.control(ctx, "ask about a checkpoint", wire.KindCheckpoints, wire.CheckpointsRequest{}, &r)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			c.saves.fail(c.cfg.Logger, p.T, err)
			return
		}
		if c.noted(r, p, time.Since(began)) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// noted takes note of what the servers say of a checkpoint. It reports whether that has ended.
func (c *Client) noted(r wire.CheckpointsReply, p wire.Plan, took time.Duration) bool {
	for _, s := range r.Last {
		if s.ID != p.Checkpoint {
			continue
		}
		if s.Why != "" {
			c.saves.fail(c.cfg.Logger, p.T, errors.New(s.Why))
		} else {
			c.saves.made(c.cfg.Logger, s.ID, s.Step, s.Bytes, took)
		}
		return true
	}
	if r.Now == nil || r.Now.ID != p.Checkpoint {
		c.saves.fail(c.cfg.Logger, p.T, fmt.Errorf("the servers know nothing of checkpoint %d any more", p.Checkpoint))
		return true
	}
	var done, total int64
	for _, part := range r.Now.Parts {
		done, total = done+part.Bytes, total+part.Total
	}
	c.saves.at(done, total)
	return false
}

// upload gives a checkpoint what this worker has after its last step; it is sent while training goes on.
func (c *Client) upload(ctx context.Context, id uint64) error {
	segments, err := c.state(ctx)
	if err != nil {
		return err
	}
	step, before, sent := c.Clock(), c.uploading, make(chan struct{})
	c.uploading = sent
	c.background(func(ctx context.Context) error {
		defer close(sent)
		if before != nil {
			<-before // it is bounded like this one
		}
		if err := c.servers.upload(ctx, id, segments); err != nil && ctx.Err() == nil {
			c.cfg.Logger.Warn("a checkpoint is without the state of this worker", "id", id, "step", step, "err", err)
		}
		return nil
	})
	return nil
}

// upload sends state in pieces that a server has room for, one after the other.
func (s *servers) upload(ctx context.Context, id uint64, segments [][]byte) error {
	pieces := cutInto(segments, wire.UploadPiece)
	for i, body := range pieces {
		head, err := wire.Control(wire.KindUpload, wire.UploadRequest{SessionRef: s.ref(), Checkpoint: id, Piece: uint32(i), Pieces: uint32(len(pieces))})
		var a wire.Answer
		if err == nil {
			a, _, err = s.do(ctx, request{op: "upload state", group: layout.MetaGroup, head: head, body: body, prio: link.Background})
		}
		if err != nil {
			return fmt.Errorf("piece %d of %d: %w", i+1, len(pieces), err)
		}
		if a.Detail == wire.UploadUnwanted {
			return nil
		}
	}
	return nil
}

// cutInto cuts segments into pieces of so many bytes, the last one of what is left, without copying any.
func cutInto(segments [][]byte, size int) (pieces [][][]byte) {
	room := 0
	for _, b := range segments {
		for len(b) > 0 {
			if room == 0 {
				pieces, room = append(pieces, nil), size
			}
			n, last := min(len(b), room), len(pieces)-1
			pieces[last] = append(pieces[last], b[:n:n])
			b, room = b[n:], room-n
		}
	}
	return pieces
}

// lastUpload gives what this worker has to a checkpoint of a later step: when all workers finish before that, it is of the last one.
func (c *Client) lastUpload(ctx context.Context) error {
	if c.servers == nil || c.finished {
		return nil
	}
	id, err := c.saves.planned(ctx, c.Clock())
	if id = max(id, c.later); id == 0 || err != nil {
		return err
	}
	return c.upload(ctx, id)
}

// uploaded waits until what this worker gives to checkpoints is sent.
func (c *Client) uploaded(ctx context.Context) error {
	if c.uploading == nil {
		return nil
	}
	select {
	case <-c.uploading:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for this worker's part of a checkpoint to be sent: %w", context.Cause(ctx))
	}
}

// state is what a checkpoint keeps of this worker, in pieces that are to be put together and do not change.
func (c *Client) state(ctx context.Context) ([][]byte, error) {
	s := workerState{workerHead: workerHead{Worker: c.cfg.Worker, Rank: c.Rank(), World: c.World(), Step: c.Clock(), Cursor: c.cursor}}
	var residuals [][]byte
	if len(c.coders.tables)+len(c.coders.waits) > 0 {
		residuals = c.coders.segments()
	}
	var err error
	if s.Rank == 0 {
		s.About = c.about
		if c.local != nil {
			d := c.local.shared()
			s.Dense = &d
			if s.rows, err = c.local.appendRows(ctx, nil); err != nil {
				return nil, fmt.Errorf("dense tensors after step %d: %w", s.Step, err)
			}
		}
	}
	return s.segments(residuals)
}

// appendRows adds all rows of all tables, as putDense takes them.
func (r *replica) appendRows(ctx context.Context, b []byte) ([]byte, error) {
	for _, t := range r.tables {
		at := len(b)
		b = append(b, make([]byte, 8)...)
		err := r.scan(ctx, &t.Spec, func(row wire.Row) error {
			b = wire.AppendRow(b, row)
			return nil
		})
		if err != nil {
			return nil, err
		}
		binary.LittleEndian.PutUint64(b[at:], uint64(len(b)-at-8))
	}
	return b, nil
}

// takeUploaded goes on with what this worker, or those whose number is its now, had in the checkpoint that the job was restored from.
func (c *Client) takeUploaded(ctx context.Context, r resumed) error {
	if r.restored == nil || r.restored.Step != r.step {
		return nil
	}
	return c.servers.uploads(ctx, func(rank uint32, b []byte) error {
		if err := c.takeState(b); err != nil {
			return fmt.Errorf("state of rank %d in checkpoint %d: %w", rank, r.restored.Checkpoint, err)
		}
		return nil
	})
}

// uploads visits what ranks have uploaded to the checkpoint that the job came from, of those that fall to this worker, one at a time.
func (s *servers) uploads(ctx context.Context, visit func(rank uint32, b []byte) error) error {
	var of wire.RankBlob // those so far of one rank
	for skip := uint32(0); ; {
		head, err := wire.Control(wire.KindResume, wire.ResumeRequest{SessionRef: s.ref(), Skip: skip})
		if err != nil {
			return err
		}
		_, body, err := s.do(ctx, request{op: "ask for the state in the checkpoint", group: layout.MetaGroup, head: head, prio: link.Push})
		if err != nil {
			return err
		}
		blobs, err := wire.DecodeBlobs(body)
		if err != nil {
			return err
		}
		for _, b := range blobs {
			if b.Rank != of.Rank && len(of.Data) > 0 {
				if err := visit(of.Rank, of.Data); err != nil {
					return err
				}
				of.Data = nil
			}
			of.Rank, of.Data = b.Rank, append(of.Data, b.Data...)
		}
		if skip += uint32(len(blobs)); len(blobs) > 0 {
			continue
		}
		if len(of.Data) > 0 {
			return visit(of.Rank, of.Data)
		}
		return nil
	}
}

// takeState goes on with what a worker had.
func (c *Client) takeState(b []byte) error {
	s, err := decodeWorkerState(b)
	if err == nil {
		err = c.restoreResiduals(s.residuals)
	}
	switch {
	case err != nil || s.Dense == nil:
		return err
	case c.local == nil:
		return errors.New("the job was hybrid, and its dense tensors were on no server: go on with it in mode hybrid, or allreduce, or begin a new job with its parameters (--load)")
	}
	if err := c.local.become(s.Dense); err != nil {
		return err
	}
	return c.local.putDense(s)
}
