package meta

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"hcclps/checkpoint"
	"hcclps/ps/layout"
	"hcclps/ps/shard"
	"hcclps/ps/wire"
)

// Folder is where checkpoints are kept: a *checkpoint.Store.
type Folder interface {
	Begin(ctx context.Context, spec checkpoint.Spec) (*checkpoint.Writer, error)
	Commit(ctx context.Context, m checkpoint.Manifest) (*checkpoint.Manifest, error)
	List(ctx context.Context) ([]*checkpoint.Manifest, error)
	Retain(ctx context.Context, p checkpoint.Policy) ([]uint64, error)
	Collect(ctx context.Context, floor uint64) (checkpoint.Collected, error)
}

// Keep says which checkpoints of a job are kept.
type Keep struct {
	Last  int    // the newest so many, default 3
	Every uint64 // and every so manyth, 0: none
}

// What a checkpoint waits for.
const (
	maxDeltas  = 8                // deltas that stand on a full checkpoint
	stalledFor = 10 * time.Minute // no step in so long: its cut will not come
	writeFor   = 5 * time.Minute  // a part that is being written does not grow, or says nothing, in so long: its folder hangs
	uploadFor  = 30 * time.Second // between two uploads of workers, after all parts are written
)

// saver is a checkpoint under way as its leader knows it; soft state.
type saver struct {
	id, base, step uint64
	job            string
	since          time.Time

	mu     sync.Mutex
	parts  map[uint32]wire.CheckpointPart
	grew   map[uint32]time.Time // when a part last changed
	clock  uint64
	moved  time.Time          // when clock last grew; once the parts are written, when an upload last came
	brings map[string]brought // by worker
	taking bool               // an upload is being received

	writing sync.Mutex // guards the rest
	writer  *checkpoint.Writer
	sealed  bool
}

// foundation is what the next checkpoint of a job stands on, 0: nothing, and the
// newest number in the folder.
func (l *leader) foundation(ctx context.Context, job string) (base, above uint64, err error) {
	if l.g.cfg.Folder == nil {
		return 0, 0, refused{refuse(wire.Refused, "this cluster keeps no checkpoints: start its servers with --checkpoint-dir DIR, one folder for all of them")}
	}
	all, err := l.g.cfg.Folder.List(ctx)
	if err != nil {
		l.log.Warn("checkpoints that cannot be read", "err", err)
	}
	var saved uint64
	l.g.read(func(s *state) {
		if j := s.Jobs[job]; j != nil {
			saved = j.Saved
		}
	})
	for _, m := range all {
		above = max(above, m.ID)
		if m.ID == saved && m.Job == job && (m.Base == nil || m.Base.Chain < maxDeltas) {
			base = m.ID
		}
	}
	return base, above, nil
}

// save writes the checkpoint of a plan in force, or abandons it.
func (l *leader) save(ctx context.Context, job string, p wire.Plan) {
	s := &saver{
		id: p.Checkpoint, base: p.Base, step: p.T, job: job, since: time.Now(), moved: time.Now(),
		parts: map[uint32]wire.CheckpointPart{}, grew: map[uint32]time.Time{}, brings: map[string]brought{},
	}
	err := l.write(ctx, s)
	if err == nil {
		err = l.commitSaved(ctx)
	}
	switch {
	case ctx.Err() != nil: // the next leader sees to it
	case err != nil:
		l.abandon(ctx, s.id, job, err)
	default:
		l.log.Info("checkpoint committed", "job", job, "checkpoint", s.id, "step", s.step, "took", time.Since(s.since))
	}
	l.setSaver(nil)
	s.end(l)
}

func (l *leader) setSaver(s *saver) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.saver = s
}

func (l *leader) getSaver() *saver {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.saver
}

// write brings the checkpoint to the point where all of its parts are in the
// folder, and logs which.
func (l *leader) write(ctx context.Context, s *saver) (err error) {
	lay := l.layout()
	s.writer, err = l.g.cfg.Folder.Begin(ctx, checkpoint.Spec{
		ID: s.id, Job: s.job, Group: layout.MetaGroup, Shards: len(lay.Shards), HashSeed: lay.HashSeed, Base: s.base,
	})
	if err != nil {
		return err
	}
	l.setSaver(s)
	if err := l.poll(ctx, s, func(p wire.CheckpointPart) bool { return p.State != wire.PartWaiting }); err != nil {
		return err
	}
	own, job, err := l.jobNow(s.job)
	if err != nil {
		return err
	}
	if err := l.everyShard(ctx, s, wire.CheckpointGo); err != nil {
		return err
	}
	if err := l.poll(ctx, s, func(p wire.CheckpointPart) bool { return p.State == wire.PartDone }); err != nil {
		return err
	}
	if err := l.awaitUploads(ctx, s); err != nil {
		return err
	}
	part, err := s.seal(ctx, own, l.log)
	if err != nil {
		return err
	}
	m, err := l.manifest(s, lay, part, job)
	if err != nil {
		return err
	}
	return l.complete(ctx, m)
}

// complete logs that all parts are in.
func (l *leader) complete(ctx context.Context, m *checkpoint.Manifest) error {
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode manifest: %w", err)
	}
	_, err = l.commit(ctx, kindSave, saveEntry{ID: m.ID, Stage: saveComplete, Step: m.Step, Manifest: b})
	return err
}

func (l *leader) layout() (lay layout.Layout) {
	l.g.read(func(s *state) { lay = s.Layout })
	return lay
}

// jobNow is what this group knows of a job, for the checkpoint.
func (l *leader) jobNow(name string) (blob []byte, of wire.JobState, err error) {
	err = fmt.Errorf("job %q is not open here", name)
	l.g.read(func(s *state) {
		if j := s.Jobs[name]; j != nil {
			of = wire.JobState{Params: j.Params, Mode: cmp.Or(j.Mode, wire.ModePS)}
			blob, err = encodeJob(j)
		}
	})
	return blob, of, err
}

// seal finishes the part of this group. Of an upload that is not whole there is nothing in it.
func (s *saver) seal(ctx context.Context, own []byte, log *slog.Logger) (checkpoint.Part, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.sealed = true
	if err := s.dropHalves(log); err != nil {
		return checkpoint.Part{}, err
	}
	if err := s.writer.WriteBlob(ctx, JobBlob, bytes.NewReader(own)); err != nil {
		return checkpoint.Part{}, err
	}
	return s.writer.Finish(ctx)
}

// JobBlob is the name of the blob in which the meta group's part of a checkpoint
// has the job; what ranks have uploaded is in those of wire.UploadName.
const JobBlob = "meta"

// manifest puts together what the shards have said. They must agree.
func (l *leader) manifest(s *saver, lay layout.Layout, own checkpoint.Part, job wire.JobState) (*checkpoint.Manifest, error) {
	m := &checkpoint.Manifest{
		ID: s.id, Cluster: lay.Cluster, Job: s.job, HashSeed: lay.HashSeed, Shards: len(lay.Shards), Layout: &lay,
		Parts: []checkpoint.Part{own}, Created: time.Now().UTC(),
	}
	if s.base != 0 {
		m.Base = &checkpoint.Base{ID: s.base}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range lay.Shards {
		group := layout.GroupOf(i)
		var r shard.PartResult
		if err := json.Unmarshal(s.parts[group].Result, &r); err != nil {
			return nil, fmt.Errorf("result of %s: %w", layout.GroupName(group), err)
		}
		if i == 0 {
			m.Step, m.Tables, m.Workers = r.Step, r.Tables, r.Workers
			job.Rates, job.Applied, job.Loaded = r.Rates, r.Applied, r.Loaded
		}
		if job.Params.Sync == wire.BSP && r.Step != m.Step {
			return nil, fmt.Errorf("%s was captured at step %d, %s at %d", layout.GroupName(group), r.Step, layout.GroupName(layout.GroupOf(0)), m.Step)
		}
		m.Step = max(m.Step, r.Step)
		m.Parts = append(m.Parts, r.Part)
	}
	var err error
	if m.Params, err = json.Marshal(job); err != nil {
		return nil, fmt.Errorf("encode job: %w", err)
	}
	s.step = m.Step
	return m, nil
}

// checkpoints says what is under way and how the last ones ended.
func (l *leader) checkpoints(_ context.Context, _ wire.CheckpointsRequest) (result, error) {
	out := wire.CheckpointsReply{Dir: l.g.cfg.Dir}
	l.g.read(func(s *state) {
		for _, c := range s.Checkpoints {
			out.Last = append(out.Last, wire.CheckpointStatus{ID: c.ID, Job: c.Job, Step: c.Step, State: string(c.Stage), Why: c.Why, Bytes: c.Bytes})
		}
		if c := s.Checkpoint; c != nil {
			out.Now = &wire.CheckpointStatus{ID: c.ID, Job: c.Job, Step: c.Step, State: string(c.Stage)}
		}
	})
	if s := l.getSaver(); s != nil && out.Now != nil && s.id == out.Now.ID {
		s.mu.Lock()
		defer s.mu.Unlock()
		out.Now.Since = time.Since(s.since)
		for _, p := range s.parts {
			p.Result = nil
			out.Now.Parts = append(out.Now.Parts, p)
		}
		slices.SortFunc(out.Now.Parts, func(a, b wire.CheckpointPart) int { return cmp.Compare(a.Group, b.Group) })
	}
	return result{Reply: out}, nil
}
