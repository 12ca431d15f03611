package meta

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"hcclps/checkpoint"
	"hcclps/ps/wire"
)

// end takes back what this leader wrote itself, if nobody may commit it any more.
func (s *saver) end(l *leader) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.writer == nil {
		return
	}
	var under bool
	l.g.read(func(st *state) {
		under = st.Checkpoint != nil && st.Checkpoint.ID == s.id && st.Checkpoint.Stage == saveComplete
	})
	if under || s.sealed && !l.g.IsLeader() {
		return // the next leader may commit it
	}
	if err := s.writer.Cancel(); err != nil {
		l.log.Warn("files of a checkpoint not removed", "checkpoint", s.id, "err", err)
	}
}

// commitSaved writes the manifest of the checkpoint that is complete, and cleans up.
func (l *leader) commitSaved(ctx context.Context) error {
	var c save
	l.g.read(func(s *state) {
		if s.Checkpoint != nil {
			c = *s.Checkpoint
		}
	})
	if c.Stage != saveComplete {
		return errors.New("its parts are not complete")
	}
	var m checkpoint.Manifest
	if err := json.Unmarshal(c.Manifest, &m); err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	if _, err := l.g.cfg.Folder.Commit(ctx, m); err != nil {
		return err
	}
	var written int64
	for _, p := range m.Parts {
		written += p.New
	}
	if _, err := l.commit(ctx, kindSave, saveEntry{ID: c.ID, Stage: saveCommitted, Bytes: written}); err != nil {
		return err
	}
	if err := l.everyShard(ctx, &saver{id: c.ID, job: c.Job}, wire.CheckpointKeep); err != nil {
		l.log.Warn("a shard does not know of its checkpoint", "checkpoint", c.ID, "err", err)
	}
	keep := checkpoint.Policy{Job: c.Job, Last: cmp.Or(l.g.cfg.Keep.Last, 3), Every: l.g.cfg.Keep.Every}
	if _, err := l.g.cfg.Folder.Retain(ctx, keep); err != nil {
		l.log.Warn("old checkpoints not removed", "job", c.Job, "err", err)
	}
	l.collect(ctx, c.ID+1)
	return nil
}

func (l *leader) collect(ctx context.Context, floor uint64) {
	got, err := l.g.cfg.Folder.Collect(ctx, floor)
	if err != nil {
		l.log.Warn("files that no checkpoint needs not removed", "err", err)
		return
	}
	l.log.Debug("removed what no checkpoint needs", "files", got.Files, "bytes", got.Bytes)
}

// abandon ends a checkpoint that will not be: training goes on, space is given back.
func (l *leader) abandon(ctx context.Context, id uint64, job string, why error) {
	l.log.Warn("checkpoint abandoned", "job", job, "checkpoint", id, "err", why)
	s := &saver{id: id, job: job}
	for _, do := range []wire.CheckpointDo{wire.CheckpointGo, wire.CheckpointDrop} {
		if err := l.everyShard(ctx, s, do); err != nil {
			l.log.Warn("a shard does not know that a checkpoint is abandoned", "checkpoint", id, "err", err)
		}
	}
	if own := l.getSaver(); own != nil && own.id == id {
		own.end(l)
	}
	if _, err := l.commit(ctx, kindSave, saveEntry{ID: id, Stage: saveAbandoned, Why: clip300(why.Error())}); err != nil {
		return // the next leader abandons it
	}
	if l.g.cfg.Folder != nil {
		l.collect(ctx, id+1)
	}
}

func clip300(s string) string { return s[:min(len(s), 300)] }

// inherit sees to the checkpoint that an earlier leader has begun for a job: it is
// committed if it is complete, else abandoned.
func (l *leader) inherit(ctx context.Context, job string) {
	var c save
	l.g.read(func(s *state) {
		if s.Checkpoint != nil {
			c = *s.Checkpoint
		}
	})
	if c.ID == 0 || c.Job != job || ctx.Err() != nil {
		return
	}
	err := errors.New("the leader of the meta group has changed")
	if c.Stage == saveComplete && l.g.cfg.Folder != nil {
		if err = l.commitSaved(ctx); err == nil || ctx.Err() != nil {
			return
		}
	}
	l.abandon(ctx, c.ID, job, err)
}

// orphan has the checkpoint of an earlier leader seen to, if no plan of its job
// is in flight.
func (l *leader) orphan(start func(task), flights map[string]flight) {
	job := ""
	l.g.read(func(s *state) {
		if s.Checkpoint != nil {
			job = s.Checkpoint.Job
		}
	})
	if _, later := flights[job]; job != "" && !later {
		start(func(ctx context.Context) { l.inherit(ctx, job) })
	}
}
