package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"hcclps/checkpoint"
	"hcclps/ps/update"
)

// Export writes what Load takes (see ReadModel) as tensors that PyTorch, numpy and others open: DIR/model.safetensors, described by
// DIR/export.json, and DIR/about.json, which says of what model they are. Load takes the folder again, and the file of tensors alone into a
// model that is made before. Rows of dense tensors that no gradient has reached are written as they begin. A saved model is brought into this
// process's memory for that.
func Export(ctx context.Context, path, dir string, o checkpoint.ExportOptions) (*checkpoint.ExportManifest, error) {
	m, err := export(ctx, path, dir, o)
	if err != nil {
		return nil, fmt.Errorf("export %s: %w", path, err)
	}
	return m, nil
}

func export(ctx context.Context, path, dir string, o checkpoint.ExportOptions) (out *checkpoint.ExportManifest, err error) {
	m, err := ReadModel(ctx, path)
	if err != nil {
		return nil, err
	}
	if o.Initial == nil {
		o.Initial = func(t checkpoint.Table, key uint64) ([]float32, error) { return update.Initial(t.Schema, key) }
	}
	if o.Tables == nil {
		for _, t := range m.Tables { // not what the admission of keys remembers
			o.Tables = append(o.Tables, t.Table.Name)
		}
	}
	if from, ok := m.from.(inCheckpoint); ok && len(from.dense) == 0 {
		out, err = exportFrom(ctx, from.dir, from.id, dir, o)
	} else {
		out, err = exportLoaded(ctx, m, path, dir, o)
	}
	if err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(m.About, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("describe model: %w", err)
	}
	return out, writeFile(dir, AboutFile, func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
}

// exportFrom exports a checkpoint.
func exportFrom(ctx context.Context, from string, id uint64, dir string, o checkpoint.ExportOptions) (out *checkpoint.ExportManifest, err error) {
	return out, withStore(from, func(s *checkpoint.Store) error {
		c, err := s.Load(ctx, id)
		if err != nil {
			return err
		}
		defer c.Close()
		out, err = c.Export(ctx, dir, o)
		return err
	})
}

// exportLoaded makes a checkpoint of a model, and exports that.
func exportLoaded(ctx context.Context, m *Manifest, path, dir string, o checkpoint.ExportOptions) (out *checkpoint.ExportManifest, err error) {
	if m.bare {
		return nil, errors.New("it is a file of tensors already")
	}
	temp, err := os.MkdirTemp(filepath.Dir(filepath.Clean(dir)), "export-*.tmp")
	if err != nil {
		return nil, fmt.Errorf("make a folder beside the export: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	c, err := Connect(ctx, Config{Mode: AllReduce, Job: m.Job, Checkpoints: Checkpoints{Dir: temp}})
	if err != nil {
		return nil, err
	}
	defer c.Abandon() // there is nobody to tell
	if _, err := c.load(ctx, path); err != nil {
		return nil, err
	}
	cut, err := c.local.captured(nil, time.Now())
	if err != nil {
		return nil, err
	}
	defer cut.close()
	cut.manifest.Step = m.Step
	made, err := c.local.saver.write(ctx, cut, c.local.mu.RLocker())
	if err != nil {
		return nil, err
	}
	return exportFrom(ctx, temp, made.ID, dir, o)
}
