package worker

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hcclps/checkpoint"
	"hcclps/ps/layout"
	"hcclps/ps/table"
)

// defaultKeep is how many checkpoints are kept.
const defaultKeep = 3

// saver writes the checkpoints of a replica, one at a time, while training goes on.
type saver struct {
	cfg   Checkpoints
	job   string
	log   *slog.Logger
	start func(part func(context.Context) error) // gives a part a goroutine that Close waits for
	store *checkpoint.Store                      // nil: not open yet

	// What the next may be a delta of; of the goroutine that writes, or of nobody.
	base   uint64 // 0: it is to be full
	chain  int    // deltas up to base
	epochs map[uint32]uint32
	others atomic.Bool // the tables are not those of base any more

	said *saves
}

// capture is the state of a job after a step.
type capture struct {
	manifest checkpoint.Manifest
	pages    []*table.Capture // of the manifest's tables
	bytes    int64            // about
	blobs    [][]byte         // by rank
	began    time.Time
}

func (c *capture) close() {
	for _, p := range c.pages {
		p.Close()
	}
}

func newSaver(cfg Config, start func(part func(context.Context) error), said *saves) *saver {
	s := &saver{cfg: cfg.Checkpoints, job: cfg.Job, log: cfg.Logger, start: start, said: said}
	s.cfg.Keep = cmp.Or(s.cfg.Keep, defaultKeep)
	return s
}

// open opens the folder.
func (s *saver) open() (*checkpoint.Store, error) {
	if s.store != nil {
		return s.store, nil
	}
	var err error
	s.store, err = checkpoint.Open(checkpoint.Config{Dir: s.cfg.Dir, Owner: "worker-" + strings.ToLower(rand.Text()[:8]), Logger: s.log})
	return s.store, err
}

// fresh says why the job cannot begin anew.
func (s *saver) fresh(ctx context.Context) error {
	store, err := s.open()
	if err != nil {
		return err
	}
	m, err := store.Newest(ctx, s.job)
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%s holds checkpoints of job %s, the newest after step %d: resume goes on with it (Resume, --resume), another folder or job begins anew", s.cfg.Dir, s.job, m.Step)
	}
	return err
}

// save writes a cut, in a goroutine of its own. lock is the reader's side of what guards the tables.
func (s *saver) save(c *capture, lock sync.Locker) {
	s.said.begin(c.manifest.Step, c.bytes)
	s.start(func(ctx context.Context) error {
		m, err := s.write(ctx, c, lock)
		c.close() // before it is said: the next may begin then
		if err != nil {
			s.said.fail(s.log, c.manifest.Step, err)
			return nil // training goes on without it
		}
		var written int64
		for _, p := range m.Parts {
			written += p.New
		}
		s.said.made(s.log, m.ID, m.Step, written, time.Since(c.began))
		return nil
	})
}

// write makes a checkpoint of a cut, and removes those that are kept no longer.
func (s *saver) write(ctx context.Context, c *capture, lock sync.Locker) (*checkpoint.Manifest, error) {
	store, err := s.open()
	if err != nil {
		return nil, err
	}
	all, err := store.List(ctx)
	if err != nil {
		return nil, err
	}
	alone := true
	for _, m := range all {
		c.manifest.ID = max(c.manifest.ID, m.ID)
		alone = alone && m.Job == s.job
	}
	c.manifest.ID++
	w, err := s.begin(ctx, store, c)
	if err != nil {
		return nil, err
	}
	m, err := s.fill(ctx, store, w, c, lock)
	if err != nil {
		s.base = 0
		return nil, errors.Join(err, w.Cancel())
	}
	s.chain++
	if s.base == 0 {
		s.chain = 0
	}
	s.base, s.epochs = m.ID, map[uint32]uint32{}
	for i, t := range m.Tables {
		s.epochs[t.ID] = c.pages[i].Epoch()
	}
	if _, err = store.Retain(ctx, checkpoint.Policy{Job: s.job, Last: s.cfg.Keep}); err == nil && alone {
		_, err = store.Collect(ctx, m.ID)
	}
	if err != nil {
		s.log.Warn("old checkpoints could not be removed", "dir", s.cfg.Dir, "err", err)
	}
	return m, nil
}

// begin begins to write: a delta while few stand on a full one, so that not many more are there than are to be kept.
func (s *saver) begin(ctx context.Context, store *checkpoint.Store, c *capture) (*checkpoint.Writer, error) {
	spec := checkpoint.Spec{
		ID: c.manifest.ID, Job: s.job, Group: layout.GroupOf(0), Shards: c.manifest.Shards, Tables: c.manifest.Tables, Rate: s.cfg.Rate,
		Progress: func(p checkpoint.Progress) { s.said.at(p.Bytes, 0) },
	}
	if !s.others.Swap(false) && s.base > 0 && s.chain+1 < min(s.cfg.Keep, checkpoint.MaxChain) {
		spec.Base = s.base
		w, err := store.Begin(ctx, spec)
		if err == nil || ctx.Err() != nil {
			c.manifest.Base = &checkpoint.Base{ID: s.base}
			return w, err
		}
		s.log.Warn("no delta", "base", s.base, "err", err) // somebody has removed it
	}
	s.base, spec.Base = 0, 0
	return store.Begin(ctx, spec)
}

// fill writes all there is.
func (s *saver) fill(ctx context.Context, store *checkpoint.Store, w *checkpoint.Writer, c *capture, lock sync.Locker) (*checkpoint.Manifest, error) {
	for i, t := range c.manifest.Tables {
		since, known := s.epochs[t.ID]
		err := c.pages[i].Pages(s.base == 0 || !known, since, func(id table.PageID, data []byte) error {
			at := checkpoint.PageID{Table: t.ID, Partition: id.Partition, Page: id.Page}
			if len(data) <= 2 { // its rows are gone
				return w.Drop(at)
			}
			return w.WritePage(ctx, checkpoint.Page{PageID: at, Data: data})
		}, lock)
		if err != nil {
			return nil, fmt.Errorf("write table %q: %w", t.Name, err)
		}
	}
	for rank, b := range c.blobs {
		if err := w.WriteBlob(ctx, workerName(rank), bytes.NewReader(b)); err != nil {
			return nil, err
		}
	}
	part, err := w.Finish(ctx)
	if err != nil {
		return nil, err
	}
	c.manifest.Parts = []checkpoint.Part{part}
	return store.Commit(ctx, c.manifest)
}
