package worker

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hcclps/p2p/link"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// Save writes a model directory: a manifest with the descriptions of all tables
// of the job and what about says, and a file of rows for each table. A model that
// is there already is replaced at one moment, by the rename of the manifest.
// Before this worker has finished it saves what is there: under bsp exactly the
// parameters as of its clock. Afterwards it waits for every worker to finish.
func (c *Client) Save(ctx context.Context, dir string, about About) error {
	if err := c.save(ctx, dir, about); err != nil {
		return fmt.Errorf("save model in %s: %w", dir, err)
	}
	return nil
}

func (c *Client) save(ctx context.Context, dir string, about About) error {
	if c.finished {
		if err := c.PullFinal(ctx); err != nil {
			return err
		}
	}
	old, err := saveFolder(dir)
	if err != nil {
		return err
	}
	m := Manifest{Format: manifestFormat, Version: ModelVersion, Job: c.cfg.Job, Step: c.Clock(), About: about}
	tables := make([]*handle, 0, len(c.tables))
	for _, t := range c.tables {
		tables = append(tables, t)
	}
	slices.SortFunc(tables, func(a, b *handle) int { return cmp.Compare(a.ID, b.ID) })
	tag := strings.ToLower(rand.Text()[:8]) // no file of the old model is touched
	for _, t := range tables {
		s, err := c.saveTable(ctx, dir, fmt.Sprintf("table-%d-%s.rows", t.ID, tag), t)
		if err != nil {
			return errors.Join(fmt.Errorf("table %q: %w", t.Name, err), removeFiles(dir, append(m.Tables, s)))
		}
		m.Tables = append(m.Tables, s)
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		_, err = decodeManifest(b)
	}
	if err == nil {
		err = writeFile(dir, manifestName, func(w io.Writer) error {
			_, err := w.Write(append(b, '\n'))
			return err
		})
	}
	if err != nil {
		return errors.Join(err, removeFiles(dir, m.Tables))
	}
	if old == nil {
		return nil
	}
	return removeFiles(dir, old.Tables)
}

// CheckSave makes the folder of a model to be saved and says what Save would
// refuse: a folder that cannot be written, or that holds files of others. It is
// worth calling before a training.
func CheckSave(dir string) error {
	_, err := saveFolder(dir)
	if err == nil {
		err = tryWrite(dir)
	}
	if err != nil {
		return fmt.Errorf("save model in %s: %w", dir, err)
	}
	return nil
}

// saveFolder makes the folder, or finds it with a model, which it returns, or
// with nothing. Nothing that may be worth keeping is overwritten.
func saveFolder(dir string) (old *Manifest, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	if old, err = ReadManifest(dir); !errors.Is(err, os.ErrNotExist) {
		return old, err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		table, _ := filepath.Match("table-*.rows*", f.Name()) // a save that was cut short leaves them
		manifest, _ := filepath.Match(manifestName+".*.tmp", f.Name())
		if !table && !manifest {
			return nil, fmt.Errorf("the folder holds no model but %s: name a new or an empty folder", f.Name())
		}
	}
	return nil, nil
}

func tryWrite(dir string) error {
	f, err := os.CreateTemp(dir, manifestName+".*.tmp")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func (c *Client) saveTable(ctx context.Context, dir, file string, t *handle) (SavedTable, error) {
	s := SavedTable{Table: t.Table, File: file, Width: int(t.Dim)}
	err := writeFile(dir, file, func(to io.Writer) error {
		w := newRowWriter(to)
		var err error
		if s.Rule, err = c.store.rule(ctx, &t.Table); err != nil {
			return err
		}
		err = c.Scan(ctx, t, func(r wire.Row) error {
			if w.rows == 0 {
				s.Width = len(r.Values)
				w.head(s.Width)
			}
			return w.add(r)
		})
		if err != nil {
			return err
		}
		if w.rows == 0 {
			w.head(s.Width)
		}
		err = w.to.Flush()
		s.Rows, s.CRC = w.rows, w.crc.Sum32()
		return err
	})
	return s, err
}

// rule implements store: that of the shard that has seen most steps.
func (s *servers) rule(ctx context.Context, t *wire.Table) (wire.RuleState, error) {
	var most wire.RuleState
	for i := range s.session.shards {
		m := wire.Rule{Target: s.target(i), Table: t.ID}
		_, body, err := s.do(ctx, request{op: "ask for the optimizer's state", group: layout.GroupOf(i), head: wire.Append(nil, &m), prio: link.Background})
		if err != nil {
			return most, err
		}
		r, err := wire.DecodeRule(body)
		if err != nil {
			return most, err
		}
		if r.Steps > most.Steps {
			most = r
		}
	}
	return most, nil
}

// writeFile writes a file whole or not at all: temporary, synced, renamed, and
// the folder synced.
func writeFile(dir, name string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(dir, name+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Chmod(f.Name(), 0o644); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), filepath.Join(dir, name)); err != nil {
		return err
	}
	d, serr := os.Open(dir)
	if serr != nil {
		return fmt.Errorf("sync folder: %w", serr)
	}
	if serr = errors.Join(d.Sync(), d.Close()); serr != nil {
		return fmt.Errorf("sync folder: %w", serr)
	}
	return nil
}

// removeFiles removes the files of tables that belong to no manifest any more.
func removeFiles(dir string, tables []SavedTable) error {
	var errs []error
	for _, t := range tables {
		if err := os.Remove(filepath.Join(dir, t.File)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
