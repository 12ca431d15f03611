package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hcclps/checkpoint"
	"hcclps/internal/vec"
	"hcclps/ps/wire"
)

// origin is where the rows of a model are: a model directory, a checkpoint, or an export.
type origin interface {
	// rows visits those of a table, each key once. What visit gets is its own.
	rows(ctx context.Context, t *SavedTable, visit func(wire.Row) error) error
}

// folder is a model directory.
type folder string

func (dir folder) rows(_ context.Context, t *SavedTable, visit func(wire.Row) error) error {
	return t.readRows(string(dir), visit)
}

// ReadModel says what can be loaded from a path: a model directory, as Save writes it; a folder of checkpoints, of which the newest is meant, or
// one by its number, DIR@ID; an export, as Checkpoint.Export writes it; or a file of tensors that anybody has written (safetensors). Load
// reads and checks the rows.
func ReadModel(ctx context.Context, path string) (*Manifest, error) {
	dir, id, numbered := cutID(path)
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("open model %s: %w", path, err)
	}
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	switch {
	case numbered:
		return readCheckpoint(ctx, dir, id)
	case !info.IsDir(), has(checkpoint.TensorFile), has(checkpoint.ExportFile):
		return readTensors(ctx, dir)
	case has(manifestName):
		return ReadManifest(dir)
	}
	m, err := readCheckpoint(ctx, dir, 0)
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil, fmt.Errorf("%s holds no model (%s), no checkpoint and no export (%s): %w", dir, manifestName, checkpoint.TensorFile, os.ErrNotExist)
	}
	return m, err
}

// cutID takes the number off DIR@ID, unless that is a folder itself.
func cutID(path string) (dir string, id uint64, ok bool) {
	i := strings.LastIndexByte(path, '@')
	if _, err := os.Stat(path); err == nil || i < 1 {
		return path, 0, false
	}
	id, err := strconv.ParseUint(path[i+1:], 10, 64)
	if err != nil || id == 0 {
		return path, 0, false
	}
	return path[:i], id, true
}

// inCheckpoint is a checkpoint as an origin.
type inCheckpoint struct {
	dir   string
	id    uint64
	dense map[string][]wire.Row // of hybrid, what rank 0 has had
}

// readCheckpoint describes a checkpoint of a folder; 0 is the newest.
func readCheckpoint(ctx context.Context, dir string, id uint64) (*Manifest, error) {
	var m *Manifest
	err := withStore(dir, func(s *checkpoint.Store) (err error) {
		if id == 0 {
			if id, err = newestOf(ctx, s, dir); err != nil {
				return err
			}
		}
		c, err := s.Load(ctx, id)
		if err != nil {
			return err
		}
		defer c.Close()
		if m, err = describeCheckpoint(ctx, dir, c); err != nil || m.About.described() {
			return err
		}
		m.About, err = aboutBefore(ctx, s, c.Manifest())
		return err
	})
	return m, err
}

// aboutBefore is what an older checkpoint of the same job and tables says of the model, the newest that does: when all workers have ended
// nobody is there to say it. It is empty if none does.
func aboutBefore(ctx context.Context, s *checkpoint.Store, of *checkpoint.Manifest) (About, error) {
	all, err := s.List(ctx)
	if err != nil {
		return About{}, err
	}
	for _, older := range slices.Backward(all) {
		if older.ID >= of.ID || older.Job != of.Job || !slices.EqualFunc(older.Tables, of.Tables, alike) {
			continue
		}
		about, err := aboutIn(ctx, s, older.ID)
		if ctx.Err() != nil {
			return About{}, context.Cause(ctx)
		}
		if err == nil && about.described() { // of one that cannot be read nothing is known
			return about, nil
		}
	}
	return About{}, nil
}

// alike says whether two checkpoints have the same table, whatever its optimizer remembers.
func alike(a, b checkpoint.Table) bool {
	return a.ID == b.ID && a.Name == b.Name && a.Dim == b.Dim && a.Slots == b.Slots && bytes.Equal(a.Schema, b.Schema)
}

func aboutIn(ctx context.Context, s *checkpoint.Store, id uint64) (About, error) {
	c, err := s.Load(ctx, id)
	if err != nil {
		return About{}, err
	}
	defer c.Close()
	blobs, err := workerBlobs(ctx, c)
	if err != nil {
		return About{}, err
	}
	about, _, err := modelState(c.Manifest(), blobs)
	return about, err
}

func withStore(dir string, do func(*checkpoint.Store) error) error {
	s, err := checkpoint.Open(checkpoint.Config{Dir: dir, Owner: "reader"})
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Close())
}

// newestOf is the newest checkpoint of a folder with one job.
func newestOf(ctx context.Context, s *checkpoint.Store, dir string) (uint64, error) {
	all, err := s.List(ctx)
	if err != nil {
		return 0, err
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("open checkpoints in %s: %w", dir, checkpoint.ErrNotFound)
	}
	newest := all[len(all)-1]
	for _, m := range slices.Backward(all) {
		if m.Job != newest.Job {
			return 0, fmt.Errorf("%s holds checkpoints of the jobs %s and %s: name one by its number, %s@%d or %s@%d", dir, newest.Job, m.Job, dir, newest.ID, dir, m.ID)
		}
	}
	return newest.ID, nil
}

func describeCheckpoint(ctx context.Context, dir string, c *checkpoint.Checkpoint) (*Manifest, error) {
	of := c.Manifest()
	from := inCheckpoint{dir: dir, id: of.ID, dense: map[string][]wire.Row{}}
	m := &Manifest{Format: manifestFormat, Version: ModelVersion, Job: of.Job, Step: of.Step, from: from}
	for _, t := range of.Tables {
		if wire.IsSeen(t.ID) {
			continue // what is known of keys without rows begins anew
		}
		rule, err := ruleOf(t)
		if err != nil {
			return nil, err
		}
		m.Tables = append(m.Tables, SavedTable{Table: rule.Spec, Rule: wire.RuleState(rule.Opt), Width: int(t.Dim + t.Slots), Rows: of.Rows(t.ID)})
	}
	blobs, err := workerBlobs(ctx, c)
	if err != nil {
		return nil, err
	}
	about, dense, err := modelState(of, blobs)
	if err != nil {
		return nil, err
	}
	if m.About = about; dense != nil {
		err = dense.eachTable(func(t *sharedRule, rows []wire.Row) error {
			saved := SavedTable{Table: t.Spec, Rule: wire.RuleState(t.Opt), Width: int(t.Spec.Dim), Rows: uint64(len(rows))}
			if len(rows) > 0 {
				saved.Width = len(rows[0].Values)
			}
			m.Tables = append(m.Tables, saved)
			from.dense[t.Spec.Name] = rows
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	m.id, err = idOf(of)
	return m, err
}

// idOf names a load by what it loads.
func idOf(m any) (uint64, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return 0, fmt.Errorf("name a load: %w", err)
	}
	sum := sha256.Sum256(b)
	return max(binary.LittleEndian.Uint64(sum[:]), 1), nil
}

func (k inCheckpoint) rows(ctx context.Context, t *SavedTable, visit func(wire.Row) error) error {
	if rows, ok := k.dense[t.Table.Name]; ok {
		for _, r := range rows {
			if err := visit(r); err != nil {
				return err
			}
		}
		return nil
	}
	return withStore(k.dir, func(s *checkpoint.Store) error {
		c, err := s.Load(ctx, k.id)
		if err != nil {
			return err
		}
		defer c.Close()
		of, ok := c.Manifest().Table(t.Table.Name)
		if !ok {
			return fmt.Errorf("checkpoint %d has no table %q", k.id, t.Table.Name)
		}
		for row, err := range c.Rows(ctx, checkpoint.Query{Tables: []uint32{of.ID}}) {
			if err == nil {
				err = visit(wire.Row{Key: row.Key(), Sightings: row.Sightings(), Values: valuesOf(row)})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// valuesOf are weights and slots of a row, in memory of their own.
func valuesOf(r checkpoint.Row) []float32 {
	w, s := r.Weights(), r.Slots()
	values := make([]float32, (len(w)+len(s))/4)
	copy(vec.BytesOfFloats(values[copy(vec.BytesOfFloats(values), w)/4:]), s)
	return values
}
