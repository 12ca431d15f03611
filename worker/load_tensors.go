package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"hcclps/checkpoint"
	"hcclps/ps/optim"
	"hcclps/ps/wire"
)

// AboutFile is beside the tensors of an export, and says of what model they are; without it they can be loaded into a model that is made before.
const AboutFile = "about.json"

// inTensors is an export, or a file of tensors, as an origin.
type inTensors string

func readTensors(ctx context.Context, path string) (*Manifest, error) {
	in, err := checkpoint.OpenImport(path)
	if err != nil {
		return nil, err
	}
	defer in.Close() //nolint:errcheck // it was only read
	if err := in.Verify(ctx); err != nil {
		return nil, err
	}
	of := in.Manifest()
	m := &Manifest{Format: manifestFormat, Version: ModelVersion, Job: of.Job, Step: of.Step, from: inTensors(path)}
	m.bare = len(of.Tables) == 0 // then fit says what is missing
	for _, t := range of.Tables {
		s := SavedTable{Table: wire.Table{Name: t.Name, Dim: t.Dim, Shape: t.Shape}, Width: int(t.Dim), Rows: t.Rows}
		if t.SlotsName != "" {
			s.Width += int(t.Slots)
		}
		if len(t.Schema) == 0 {
			m.bare = true
		} else {
			rule, err := ruleOf(t.Table)
			if err != nil {
				return nil, fmt.Errorf("export %s: %w", path, err)
			}
			s.Table = rule.Spec
			if t.SlotsName != "" {
				s.Rule = wire.RuleState(rule.Opt)
			}
		}
		m.Tables = append(m.Tables, s)
	}
	if m.id, err = idOf([]any{of, path}); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(filepath.Join(path, AboutFile))
	switch {
	case err == nil:
		if err := json.Unmarshal(b, &m.About); err != nil {
			return nil, fmt.Errorf("%s of export %s: %w", AboutFile, path, err)
		}
	case !errors.Is(err, os.ErrNotExist) && !isFile(path):
		return nil, fmt.Errorf("open export %s: %w", path, err)
	}
	return m, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func (path inTensors) rows(ctx context.Context, t *SavedTable, visit func(wire.Row) error) (err error) {
	in, err := checkpoint.OpenImport(string(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	rule, err := optim.New(optim.Config{Name: t.Table.Optimizer, Params: t.Table.Params})
	if err != nil {
		return fmt.Errorf("table %q: %w", t.Table.Name, err)
	}
	dim := int(t.Table.Dim)
	initial := rule.SlotInit(dim)
	if n := t.Width - dim; n > 0 && n != rule.Slots(dim) {
		return fmt.Errorf("table %q: %w: %d optimizer slots a row, %s has %d", t.Table.Name, checkpoint.ErrTensor, n, t.Table.Optimizer, rule.Slots(dim))
	}
	for row, err := range in.Rows(ctx, t.Table.Name) {
		if err != nil {
			return err
		}
		values := valuesOf(row)
		if len(values) == dim {
			if values = append(values, initial...); initial == nil {
				values = append(values, make([]float32, rule.Slots(dim))...)
			}
		}
		if err := visit(wire.Row{Key: row.Key(), Sightings: row.Sightings(), Values: values}); err != nil {
			return err
		}
	}
	return nil
}

// fit gives tables that a model has made before the description they have there, if it fits: how gradients travel, which keys get rows, and how
// these begin, is the job's. Bare tensors have no other.
func (m *Manifest) fit(tables map[string]*handle) error {
	var errs []error
	there := map[string]bool{}
	for i := range m.Tables {
		t := &m.Tables[i].Table
		there[t.Name] = true
		made := tables[t.Name]
		switch {
		case made == nil && t.Optimizer != "": // it is described
		case made == nil:
			errs = append(errs, fmt.Errorf("tensor %q: %w: the model has no such table, but %q: it is to be made before this is loaded", t.Name, checkpoint.ErrTensor, slices.Sorted(maps.Keys(tables))))
		case made.Dim != t.Dim || !slices.Equal(made.Shape, t.Shape):
			errs = append(errs, fmt.Errorf("tensor %q: %w: it has %v, the model's table %v", t.Name, checkpoint.ErrTensor, shapeOf(t), shapeOf(&made.Table)))
		case t.Optimizer != "" && m.Tables[i].Width > int(t.Dim) && (t.Optimizer != made.Optimizer || !maps.Equal(t.Params, made.Params)):
			errs = append(errs, fmt.Errorf("table %q: its optimizer slots are of %s %v, the model's is %s %v", t.Name, t.Optimizer, t.Params, made.Optimizer, made.Params))
		default:
			*t = made.Table
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		if m.bare && !there[name] {
			errs = append(errs, fmt.Errorf("tensor %q: %w: it is missing, want %v", name, checkpoint.ErrTensor, shapeOf(&tables[name].Table)))
		}
	}
	if m.bare && len(m.Tables)+len(tables) == 0 {
		return fmt.Errorf("%w: there are none in it", checkpoint.ErrTensor)
	}
	return errors.Join(errs...)
}

// shapeOf says in words what a table holds.
func shapeOf(t *wire.Table) string {
	if t.Shape != nil {
		return fmt.Sprintf("the shape %v", t.Shape)
	}
	return fmt.Sprintf("keys and rows of %d values", t.Dim)
}

// Exported says that the model is an export or a file of tensors, which may not say how it was made.
func (m *Manifest) Exported() bool {
	_, ok := m.from.(inTensors)
	return ok
}

// Checkpoint is the number of the checkpoint that the model is, 0 of another one. It says how it was made if a worker did, while it was
// made or, to an older one of the job in the same folder, before.
func (m *Manifest) Checkpoint() uint64 {
	k, _ := m.from.(inCheckpoint)
	return k.id
}

// Bare says that the tensors are described by nothing but their names and shapes: Load wants the model to be made before.
func (m *Manifest) Bare() bool { return m.bare }
