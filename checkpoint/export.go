package checkpoint

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Files of an export.
const (
	TensorFile    = "model.safetensors"
	ExportFile    = "export.json"
	exportFormat  = "hcclps-export"
	exportVersion = 1
)

// ExportOptions say what is exported.
type ExportOptions struct {
	// Tables are names; nil: all.
	Tables []string
	// Slots adds the optimizer's slots, and the step and the sightings of each row.
	Slots bool
	// Initial gives the weights and slots of a row that is not stored, which a tensor
	// may have where no gradient has reached it. nil: such a tensor is an error.
	Initial func(t Table, key uint64) ([]float32, error)
	// Progress, if it is set, is called now and then with the rows written so far.
	Progress func(rows uint64)
}

// ExportManifest describes an export: the file export.json.
type ExportManifest struct {
	Format     string          `json:"format"`
	Version    int             `json:"version"`
	File       string          `json:"file"`
	Checkpoint uint64          `json:"checkpoint"`
	Cluster    string          `json:"cluster"`
	Job        string          `json:"job"`
	Step       uint64          `json:"step"`
	HashSeed   uint64          `json:"hash_seed"`
	Tables     []ExportedTable `json:"tables"`
	// SHA256 is the sum of the tensors' bytes, what follows the header of the file, in hexadecimal.
	SHA256 string `json:"sha256,omitempty"`
}

// ExportedTable is a table and the names of its tensors.
//
// An embedding has Keys, int64 [rows], the bits of the unsigned keys, and Values,
// float32 [rows, dim], in no order that means anything. A dense table is one tensor,
// Values, of its shape. Slots is float32 [rows, slots], Steps and Sightings are int32
// [rows]; the rows of a dense table are the blocks of Dim elements it is cut into.
type ExportedTable struct {
	Table
	Rows      uint64 `json:"rows"`
	Keys      string `json:"keys,omitempty"`
	Values    string `json:"values"`
	SlotsName string `json:"slots_tensor,omitempty"`
	Steps     string `json:"steps,omitempty"`
	Sightings string `json:"sightings,omitempty"`
}

func (t *Table) dense() bool { return len(t.Shape) > 0 }

// elements is the number of elements of a dense table, blocks that of its rows.
func (t *Table) elements() (n uint64, ok bool) {
	shape := make([]int64, len(t.Shape))
	for i, d := range t.Shape {
		shape[i] = int64(d)
	}
	bytes, ok := size(float32s, shape)
	return bytes / 4, ok
}

func (t *Table) blocks() (n uint64, err error) {
	elements, ok := t.elements()
	if !ok || t.Dim == 0 {
		return 0, fmt.Errorf("table %q has the shape %v: %w", t.Name, t.Shape, ErrTensor)
	}
	return (elements + uint64(t.Dim) - 1) / uint64(t.Dim), nil
}

// Export writes the tables to DIR/model.safetensors, which PyTorch, numpy and others
// open, and describes them in DIR/export.json, which is written last. The folder is
// made if it is missing; an export that is there is not replaced. Memory is bounded
// whatever the number of rows.
func (c *Checkpoint) Export(ctx context.Context, dir string, o ExportOptions) (*ExportManifest, error) {
	m, err := c.export(ctx, dir, o)
	if err != nil {
		return nil, fmt.Errorf("export checkpoint %d to %s: %w", c.chain[0].ID, dir, err)
	}
	return m, nil
}

func (c *Checkpoint) export(ctx context.Context, dir string, o ExportOptions) (_ *ExportManifest, err error) {
	m, tensors, err := c.plan(o)
	if err != nil {
		return nil, err
	}
	_, missing := os.Stat(dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, explain("make folder", err)
	}
	if errors.Is(missing, os.ErrNotExist) {
		defer func() {
			if err != nil {
				os.Remove(dir) //nolint:errcheck // unless somebody has put something in
			}
		}()
	}
	for _, name := range []string{TensorFile, ExportFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%s is there already: name a new folder (%w)", name, errors.Join(err, os.ErrExist))
		}
	}
	header, err := layTensors(m.inOrder(tensors), map[string]string{"format": "pt", "hcclps": strconv.Itoa(exportVersion), "job": m.Job, "step": strconv.FormatUint(m.Step, 10)})
	if err != nil {
		return nil, err
	}
	err = writeWhole(dir, TensorFile, func(f *os.File) error {
		if _, err := f.Write(header); err != nil {
			return err
		}
		x := &exporter{c: c, f: f, begin: int64(len(header)), tensors: tensors, o: o}
		for i := range m.Tables {
			if err := x.table(ctx, &m.Tables[i]); err != nil {
				return fmt.Errorf("table %q: %w", m.Tables[i].Name, err)
			}
		}
		var err error
		m.SHA256, err = sumOf(ctx, f.Name(), int64(len(header)))
		return err
	})
	if err != nil {
		return nil, err
	}
	err = writeWhole(dir, ExportFile, func(f *os.File) error {
		b, err := json.MarshalIndent(m, "", "  ")
		if err == nil {
			_, err = f.Write(append(b, '\n'))
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, removeFile(osDisk{}, filepath.Join(dir, TensorFile)))
	}
	return m, nil
}

// inOrder is the tensors as the file has them.
func (m *ExportManifest) inOrder(tensors map[string]*tensor) []*tensor {
	list := make([]*tensor, 0, len(tensors))
	for _, t := range m.Tables {
		for _, name := range []string{t.Keys, t.Values, t.SlotsName, t.Steps, t.Sightings} {
			if name != "" {
				list = append(list, tensors[name])
			}
		}
	}
	return list
}

// sumOf is the SHA-256 of a file from an offset on.
func sumOf(ctx context.Context, path string, from int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return "", err
	}
	sum := sha256.New()
	for {
		n, err := io.CopyN(sum, f, 64<<20)
		switch {
		case errors.Is(err, io.EOF):
			return hex.EncodeToString(sum.Sum(nil)), nil
		case err != nil:
			return "", fmt.Errorf("read %s at byte %d: %w", path, from+n, err)
		case context.Cause(ctx) != nil:
			return "", context.Cause(ctx)
		}
	}
}

// plan says which tensors there will be.
func (c *Checkpoint) plan(o ExportOptions) (*ExportManifest, map[string]*tensor, error) {
	from := c.chain[0]
	m := &ExportManifest{
		Format: exportFormat, Version: exportVersion, File: TensorFile, Checkpoint: from.ID,
		Cluster: from.Cluster, Job: from.Job, Step: from.Step, HashSeed: from.HashSeed,
	}
	for _, name := range o.Tables {
		if _, ok := from.Table(name); !ok {
			return nil, nil, fmt.Errorf("there is no table %q", name)
		}
	}
	tensors := map[string]*tensor{}
	twice := ""
	add := func(name, dtype string, shape ...int64) string {
		if tensors[name] != nil {
			twice = name
		}
		tensors[name] = &tensor{name: name, DType: dtype, Shape: shape}
		return name
	}
	for _, t := range from.Tables {
		if o.Tables != nil && !slices.Contains(o.Tables, t.Name) {
			continue
		}
		e := ExportedTable{Table: t, Rows: from.Rows(t.ID)}
		if t.dense() {
			blocks, err := t.blocks()
			if err != nil {
				return nil, nil, err
			}
			shape := make([]int64, len(t.Shape))
			for i, d := range t.Shape {
				shape[i] = int64(d)
			}
			e.Rows, e.Values = blocks, add(t.Name, float32s, shape...)
		} else {
			e.Keys = add(t.Name+".keys", int64s, int64(e.Rows))
			e.Values = add(t.Name+".values", float32s, int64(e.Rows), int64(t.Dim))
		}
		if o.Slots {
			e.SlotsName = add(t.Name+".slots", float32s, int64(e.Rows), int64(t.Slots))
			e.Steps = add(t.Name+".steps", int32s, int64(e.Rows))
			e.Sightings = add(t.Name+".sightings", int32s, int64(e.Rows))
		}
		m.Tables = append(m.Tables, e)
	}
	if twice != "" {
		return nil, nil, fmt.Errorf("two tensors would be called %q: export one of the tables: %w", twice, ErrTensor)
	}
	return m, tensors, nil
}

// exporter writes the columns of tables, each at its own place of the file.
type exporter struct {
	c       *Checkpoint
	f       *os.File
	begin   int64
	tensors map[string]*tensor
	o       ExportOptions
	rows    uint64
}

// column writes a tensor from some offset on.
func (x *exporter) column(name string) *bufio.Writer {
	if name == "" {
		return bufio.NewWriterSize(io.Discard, 16)
	}
	return bufio.NewWriterSize(io.NewOffsetWriter(x.f, x.begin+int64(x.tensors[name].Offsets[0])), 256<<10)
}

func (x *exporter) table(ctx context.Context, t *ExportedTable) error {
	if t.dense() {
		return x.dense(ctx, t)
	}
	columns := []*bufio.Writer{x.column(t.Keys), x.column(t.Values), x.column(t.SlotsName), x.column(t.Steps), x.column(t.Sightings)}
	n := uint64(0)
	var small [4]byte
	for r, err := range x.c.Rows(ctx, Query{Tables: []uint32{t.ID}}) {
		if err != nil {
			return err
		}
		if n++; n > t.Rows {
			break
		}
		columns[0].Write(r.Record[:8])
		columns[1].Write(r.Weights())
		columns[2].Write(r.Slots())
		columns[3].Write(r.Record[8:12])
		le.PutUint32(small[:], uint32(r.Sightings()))
		columns[4].Write(small[:])
		x.tell()
	}
	if n != t.Rows {
		return fmt.Errorf("the checkpoint has another number of rows than its manifest says, %d: %w", t.Rows, ErrDamaged)
	}
	for _, w := range columns {
		if err := w.Flush(); err != nil {
			return explain("write columns", err)
		}
	}
	return nil
}

func (x *exporter) tell() {
	if x.rows++; x.o.Progress != nil && x.rows%4096 == 0 {
		x.o.Progress(x.rows)
	}
}

// dense puts the blocks of a tensor where they belong.
func (x *exporter) dense(ctx context.Context, t *ExportedTable) error {
	elements, _ := t.elements()
	there := make([]uint64, (t.Rows+63)/64)
	put := func(r Row) error {
		key := r.Key()
		if key >= t.Rows || there[key/64]>>(key%64)&1 != 0 {
			return fmt.Errorf("block %d of %d is not of the tensor, or there twice: %w", key, t.Rows, ErrDamaged)
		}
		there[key/64] |= 1 << (key % 64)
		first := key * uint64(t.Dim)
		n := min(uint64(t.Dim), elements-first)
		err := x.put(t.Values, 4*first, r.Weights()[:4*n])
		if t.SlotsName != "" && err == nil {
			err = errors.Join(
				x.put(t.SlotsName, 4*key*uint64(t.Slots), r.Slots()),
				x.put(t.Steps, 4*key, r.Record[8:12]),
				x.put(t.Sightings, 4*key, le.AppendUint32(nil, uint32(r.Sightings()))),
			)
		}
		x.tell()
		return err
	}
	for r, err := range x.c.Rows(ctx, Query{Tables: []uint32{t.ID}}) {
		if err == nil {
			err = put(r)
		}
		if err != nil {
			return err
		}
	}
	for key := range t.Rows {
		if there[key/64]>>(key%64)&1 != 0 {
			continue
		}
		r, err := x.initial(t, key)
		if err == nil {
			err = put(r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// put writes bytes of a tensor.
func (x *exporter) put(name string, at uint64, b []byte) error {
	if _, err := x.f.WriteAt(b, x.begin+int64(x.tensors[name].Offsets[0]+at)); err != nil {
		return explain("write tensor "+strconv.Quote(name), err)
	}
	return nil
}

// initial makes the row that was never written.
func (x *exporter) initial(t *ExportedTable, key uint64) (Row, error) {
	if x.o.Initial == nil {
		return Row{}, fmt.Errorf("tensor %q: %w: block %d was never written, and nothing says how it begins", t.Values, ErrTensor, key)
	}
	values, err := x.o.Initial(t.Table, key)
	if err == nil && len(values) != int(t.Dim+t.Slots) {
		err = fmt.Errorf("it begins with %d values, want %d: %w", len(values), t.Dim+t.Slots, ErrTensor)
	}
	if err != nil {
		return Row{}, fmt.Errorf("tensor %q, block %d: %w", t.Values, key, err)
	}
	return newRow(&t.Table, key, 0, 0, values), nil
}

// writeWhole writes a file whole or not at all.
func writeWhole(dir, name string, write func(*os.File) error) error {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path+temporary, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return explain("make "+path, err)
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(path+temporary, path)
	}
	if err == nil {
		err = osDisk{}.SyncDir(dir)
	}
	if err != nil {
		return errors.Join(explain("write "+path, err), removeFile(osDisk{}, path+temporary))
	}
	return nil
}
