package meta

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"hcclps/checkpoint"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// upload takes what a worker wants to find again in the checkpoint under way.
func (l *leader) upload(ctx context.Context, r wire.UploadRequest, body Request) (result, error) {
	if a := l.check(r.SessionRef); a.Status != wire.OK {
		return result{Answer: a}, nil
	}
	var under, ended bool
	var rank uint32
	l.g.read(func(s *state) {
		ended = slices.ContainsFunc(s.Checkpoints, func(c saved) bool { return c.ID == r.Checkpoint })
		under = s.Checkpoint != nil && s.Checkpoint.ID == r.Checkpoint
		if w := s.Jobs[r.Job].worker(r.Worker); w != nil {
			rank = w.Rank
		}
	})
	s := l.getSaver()
	switch {
	case !under && !ended:
		return result{Answer: wire.Answer{Detail: wire.UploadUnwanted}}, nil
	case !under:
		return result{Answer: refuse(wire.Refused, "checkpoint %d of job %q is not under way any more", r.Checkpoint, r.Job)}, nil
	case s == nil || s.id != r.Checkpoint:
		return result{Answer: wire.Answer{Status: wire.Busy, After: catchingUp, Detail: "the checkpoint's plan is not in force yet"}}, nil
	case s.job != r.Job:
		return result{Answer: refuse(wire.Refused, "checkpoint %d is of job %q, not %q", s.id, s.job, r.Job)}, nil
	}
	if !s.writing.TryLock() { // one at a time: each is in memory
		return result{Answer: wire.Answer{Status: wire.Busy, After: catchingUp, Detail: "another worker is being served"}}, nil
	}
	defer s.writing.Unlock()
	return s.take(ctx, r, rank, body)
}

// brought is how much of an upload is in: pieces of all there are, from one incarnation of a worker.
type brought struct {
	pieces, all uint32
	rank        uint32
	incarnation uint64
}

func (b brought) whole() bool { return b.all > 0 && b.pieces == b.all }

// take writes one piece of an upload; it holds the right to.
func (s *saver) take(ctx context.Context, q wire.UploadRequest, rank uint32, r Request) (result, error) {
	q.Pieces = max(q.Pieces, 1)
	s.mu.Lock()
	before := s.brings[q.Worker]
	s.taking, s.moved = true, time.Now()
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taking, s.moved = false, time.Now()
	}()
	have := before
	if q.Incarnation != before.incarnation { // it begins anew
		have = brought{rank: rank, incarnation: q.Incarnation}
	}
	switch {
	case q.Incarnation < before.incarnation:
		return result{Answer: refuse(wire.Fenced, "incarnation %d of worker %q brings its state itself", before.incarnation, q.Worker)}, nil
	case q.Pieces > wire.MaxPieces || q.Piece >= q.Pieces || have.all > 0 && have.all != q.Pieces || q.Piece > have.pieces:
		return result{Answer: refuse(wire.Refused, "piece %d of %d of an upload, of which %d of %d are here", q.Piece, q.Pieces, have.pieces, have.all)}, nil
	case q.Piece < have.pieces:
		return result{}, nil // again
	case s.sealed:
		return result{Answer: refuse(wire.Refused, "checkpoint %d is complete without it: it came too late", s.id)}, nil
	}
	b, err := r.Body(ctx)
	if err != nil {
		return result{Answer: wire.Answer{Status: wire.Busy, Detail: fmt.Sprintf("receive upload: %v", err)}}, nil
	}
	if len(b) > wire.UploadPiece {
		return result{Answer: refuse(wire.Refused, "a piece of %d bytes of an upload: at most %d are taken", len(b), wire.UploadPiece)}, nil
	}
	if have.incarnation != before.incarnation {
		if err := s.drop(before); err != nil {
			return result{}, err
		}
	}
	if err := s.writer.WriteBlob(ctx, wire.UploadName(have.rank, q.Piece), bytes.NewReader(b)); err != nil {
		return result{}, err
	}
	have.pieces, have.all = q.Piece+1, q.Pieces
	s.mu.Lock()
	defer s.mu.Unlock()
	s.brings[q.Worker] = have
	return result{}, nil
}

// drop takes back what an upload has brought; who calls it holds the right to write.
func (s *saver) drop(b brought) error {
	for i := range b.pieces {
		if err := s.writer.DropBlob(wire.UploadName(b.rank, i)); err != nil {
			return err
		}
	}
	return nil
}

// dropHalves takes back the uploads that are not whole: nobody could read them. Who calls it holds the right to write.
func (s *saver) dropHalves(log *slog.Logger) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, b := range s.brings {
		if b.whole() {
			continue
		}
		log.Warn("a checkpoint is without the state of a worker, of which only a part came", "job", s.job, "id", s.id, "worker", name, "pieces", b.pieces, "of", b.all)
		if err := s.drop(b); err != nil {
			return err
		}
	}
	return nil
}

// awaitUploads waits for those workers that said they would bring something; a checkpoint without it is none. Under ssp and asp a worker may
// have gone on before it could know of the cut: what comes in time is taken.
func (l *leader) awaitUploads(ctx context.Context, s *saver) error {
	s.mu.Lock()
	s.moved = time.Now()
	s.mu.Unlock()
	for {
		missing, idle := l.uploading(s)
		switch {
		case len(missing) == 0:
			return nil
		case idle > uploadFor:
			return fmt.Errorf("nothing came in %v of what these workers were to bring: %s; their logs say why", uploadFor, strings.Join(missing, ", "))
		}
		if !sleep(ctx, pauseMin) {
			return errDeposed
		}
	}
}

// uploading is the workers whose upload has yet to come, and for how long none came.
func (l *leader) uploading(s *saver) (missing []string, idle time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.g.read(func(st *state) {
		j := st.Jobs[s.job]
		if j == nil || j.Params.Sync != wire.BSP {
			return
		}
		for _, w := range j.Workers {
			dense := j.Mode == wire.ModeHybrid && w.Rank == 0 // nobody else has it, so it is needed of who has gone, too
			if w.Uploads && (w.State == sessionOpen || dense) && !s.brings[w.Name].whole() {
				missing = append(missing, w.Name)
			}
		}
	})
	if !s.taking {
		idle = time.Since(s.moved)
	}
	return missing, idle
}

// raw is a reply that is bytes already.
type raw []byte

// resumed answers what the caller's rank finds in the checkpoint its job was
// restored from: what ranks r have uploaded, r mod world being its own.
func (l *leader) resumed(ctx context.Context, r wire.ResumeRequest) (result, error) {
	if a := l.check(r.SessionRef); a.Status != wire.OK {
		return result{Answer: a}, nil
	}
	var from *restored
	var rank, world uint32
	l.g.read(func(s *state) {
		j := s.Jobs[r.Job]
		from, world = j.Restored, j.Params.World
		if w := j.worker(r.Worker); w != nil {
			rank = w.Rank
		}
	})
	if from == nil {
		return result{Reply: raw(nil)}, nil
	}
	body, err := uploads(ctx, from, r.Skip, func(of uint32) bool { return of%world == rank })
	switch {
	case errors.Is(err, errGone) && r.Skip == 0:
		l.log.Warn("what workers uploaded is not there any more: they go on without it", "checkpoint", from.Checkpoint, "dir", from.Dir, "err", err)
	case err != nil: // a reply without a body would say that there is no more
		return result{}, fmt.Errorf("read what workers uploaded to checkpoint %d in %s: %w; mend the folder, or restore another checkpoint", from.Checkpoint, from.Dir, err)
	}
	return result{Reply: raw(body)}, nil
}

// errGone is of a checkpoint that was removed after the restore, or is in a folder that this server does not have.
var errGone = errors.New("it is not there")

// uploads reads what ranks have uploaded, pieces from number skip on, as an answer to a ResumeRequest has them.
func uploads(ctx context.Context, from *restored, skip uint32, wanted func(rank uint32) bool) (out []byte, err error) {
	if _, err := os.Stat(from.Dir); errors.Is(err, fs.ErrNotExist) { // to open it would make it
		return nil, fmt.Errorf("%w: %w", errGone, err)
	}
	store, err := checkpoint.Open(checkpoint.Config{Dir: from.Dir, Owner: "resume"})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	c, err := store.Load(ctx, from.Checkpoint)
	if errors.Is(err, checkpoint.ErrNotFound) {
		err = fmt.Errorf("%w: %w", errGone, err)
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	all, err := uploaded(ctx, c, wanted)
	if err != nil {
		return nil, err
	}
	for _, p := range all[min(int(skip), len(all)):] {
		if len(out) > 0 && int64(len(out))+p.bytes > wire.UploadPiece {
			break
		}
		var data bytes.Buffer
		if err := c.Blob(ctx, layout.MetaGroup, wire.UploadName(p.rank, p.piece), &data); err != nil {
			return nil, err
		}
		out = wire.AppendBlob(out, wire.RankBlob{Rank: p.rank, Data: data.Bytes()})
	}
	return out, nil
}

// piece is one of what a rank has uploaded.
type piece struct {
	rank, piece uint32
	bytes       int64
}

// uploaded lists the pieces there are, in order.
func uploaded(ctx context.Context, c *checkpoint.Checkpoint, wanted func(rank uint32) bool) (all []piece, err error) {
	blobs, err := c.Blobs(ctx, layout.MetaGroup)
	if err != nil {
		return nil, err
	}
	for _, b := range blobs {
		if rank, number, ok := wire.ParseUpload(b.Name); ok && wanted(rank) {
			all = append(all, piece{rank, number, b.Bytes})
		}
	}
	slices.SortFunc(all, func(a, b piece) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.piece, b.piece)) })
	return all, nil
}

// restoreJob begins or ends the restore of a job.
func (l *leader) restoreJob(ctx context.Context, r wire.RestoreRequest, body Request) (result, error) {
	if !r.Complete {
		var err error
		if r.State, err = body.Body(ctx); err != nil {
			return result{Answer: wire.Answer{Status: wire.Busy, Detail: fmt.Sprintf("receive a job: %v", err)}}, nil
		}
	}
	return l.g.propose(ctx, kindRestoreJob, r)
}

// beginning says that the checkpoint the cluster begins with is not there yet.
func (l *leader) beginning() bool {
	if l.g.cfg.Restores == "" {
		return false
	}
	there := false
	l.g.read(func(s *state) {
		for _, j := range s.Jobs {
			there = there || j.Restored != nil
		}
	})
	return !there
}
