package restore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hcclps/checkpoint"
	"hcclps/ps/update"
	"hcclps/ps/wire"
)

// Source is a folder of checkpoints, and one of them.
type Source struct {
	Dir string
	ID  uint64 // 0: the newest of its job
}

// ParseSource reads DIR or DIR@ID; what is there under the whole name is a DIR. The path becomes absolute.
func ParseSource(s string) (Source, error) {
	dir, id := s, uint64(0)
	if _, err := os.Stat(s); err == nil {
		dir, err = filepath.Abs(s)
		return Source{dir, 0}, err
	}
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		if n, err := strconv.ParseUint(s[at+1:], 10, 64); err == nil && n > 0 {
			dir, id = s[:at], n
		}
	}
	if dir == "" {
		return Source{}, fmt.Errorf("checkpoint %q: want DIR or DIR@ID", s)
	}
	dir, err := filepath.Abs(dir)
	return Source{dir, id}, err
}

// String is DIR or DIR@ID.
func (s Source) String() string {
	if s.ID == 0 {
		return s.Dir
	}
	return fmt.Sprintf("%s@%d", s.Dir, s.ID)
}

// Open opens the checkpoint for reading: of a folder the newest of the job, or, if job is "", of the only one
// that the folder has. The function it returns closes it.
func (s Source) Open(ctx context.Context, job string) (c *checkpoint.Checkpoint, closing func() error, err error) {
	if _, err := os.Stat(s.Dir); err != nil {
		return nil, nil, fmt.Errorf("open folder of checkpoints: %w", err)
	}
	store, err := checkpoint.Open(checkpoint.Config{Dir: s.Dir, Owner: "reader"})
	if err != nil {
		return nil, nil, err
	}
	if s.ID == 0 {
		s.ID, err = s.newest(ctx, store, job)
	}
	if err == nil {
		c, err = store.Load(ctx, s.ID)
	}
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return c, func() error { c.Close(); return store.Close() }, nil
}

// newest is the newest checkpoint; one that cannot be read is an error, since it may be that.
func (s Source) newest(ctx context.Context, store *checkpoint.Store, job string) (uint64, error) {
	all, err := store.List(ctx)
	if err != nil {
		return 0, fmt.Errorf("find the newest checkpoint: %w: name one by DIR@ID", err)
	}
	last := map[string]uint64{} // by job
	for _, m := range all {
		last[m.Job] = m.ID
	}
	jobs := slices.Sorted(maps.Keys(last))
	switch {
	case len(jobs) == 0:
		return 0, fmt.Errorf("find the newest checkpoint: %w: the folder has none", checkpoint.ErrNotFound)
	case job == "" && len(jobs) == 1:
		return last[jobs[0]], nil
	case job == "":
		a, b := jobs[0], jobs[1]
		return 0, fmt.Errorf("%s holds checkpoints of the jobs %s and %s: name one by its number, %s@%d or %s@%d", s.Dir, a, b, s.Dir, last[a], s.Dir, last[b])
	case last[job] == 0:
		return 0, fmt.Errorf("find the newest checkpoint of job %q: %w: the folder has those of %q", job, checkpoint.ErrNotFound, jobs)
	}
	return last[job], nil
}

// OfModel says whether a table is one that a model has, and not what servers
// remember of it.
func OfModel(t checkpoint.Table) bool { return !wire.IsSeen(t.ID) }

// Initial is the weights and slots of a row that no gradient has reached, for
// checkpoint.ExportOptions.
func Initial(t checkpoint.Table, key uint64) ([]float32, error) {
	return update.Initial(t.Schema, key)
}
