package checkpoint

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Block is the number of elements in a row of a dense table; a smaller tensor is
// one row.
const Block = 1024

// Import is an export that is open for reading. Its methods may be called
// concurrently, but Close.
type Import struct {
	path    string
	m       ExportManifest
	f       *os.File
	begin   int64
	tensors map[string]*tensor
}

// OpenImport opens a folder that Export has written, or a file of tensors that
// anybody has. Without an export.json beside it NAME.keys and NAME.values, and
// NAME.slots, NAME.steps and NAME.sightings if they are there, make the table NAME,
// and each other tensor of float32 a dense table. A tensor that is missing, of
// another type, or of another shape is ErrTensor, and the error names it.
func OpenImport(path string) (*Import, error) {
	i, err := openImport(path)
	if err != nil {
		return nil, fmt.Errorf("open import %s: %w", path, err)
	}
	return i, nil
}

func openImport(path string) (_ *Import, err error) {
	i := &Import{path: path}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	described := false
	if info.IsDir() {
		i.path = filepath.Join(path, TensorFile)
		b, err := os.ReadFile(filepath.Join(path, ExportFile))
		if described = err == nil; described {
			if i.m, err = decodeExport(b); err != nil {
				return nil, inFile(err, filepath.Join(path, ExportFile))
			}
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	if i.f, err = os.Open(i.path); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.f.Close())
		}
	}()
	if info, err = i.f.Stat(); err != nil {
		return nil, err
	}
	if i.tensors, i.begin, err = readTensors(i.f, info.Size()); err != nil {
		return nil, inFile(err, i.path)
	}
	if !described {
		i.m = describe(i.tensors)
	}
	return i, i.check()
}

// Verify compares the bytes of the tensors with the sum that export.json has of them, if there is one.
func (i *Import) Verify(ctx context.Context) error {
	if i.m.SHA256 == "" {
		return nil
	}
	sum, err := sumOf(ctx, i.path, i.begin)
	if err == nil && sum != i.m.SHA256 {
		err = inFile(&DamageError{Offset: i.begin, Reason: fmt.Sprintf("the SHA-256 of the tensors is %s, %s says %s", sum, ExportFile, i.m.SHA256)}, i.path)
	}
	if err != nil {
		return fmt.Errorf("verify import: %w", err)
	}
	return nil
}

// decodeExport reads an export.json.
func decodeExport(b []byte) (ExportManifest, error) {
	var m ExportManifest
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(b, &head); err != nil || head.Format != exportFormat || head.Version < 1 {
		return m, &DamageError{Reason: fmt.Sprintf("format %q, version %d: it describes no export (%v)", head.Format, head.Version, err)}
	}
	if head.Version > exportVersion {
		return m, fmt.Errorf("export of version %d, this program reads up to %d: %w", head.Version, exportVersion, ErrVersion)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, &DamageError{Offset: d.InputOffset(), Reason: err.Error()}
	}
	tables := make([]Table, len(m.Tables))
	for i := range m.Tables {
		tables[i] = m.Tables[i].Table
	}
	if err := validTables(tables); err != nil {
		return m, &DamageError{Reason: err.Error()}
	}
	return m, nil
}

// describe makes tables of tensors by their names.
func describe(tensors map[string]*tensor) ExportManifest {
	m := ExportManifest{Format: exportFormat, Version: exportVersion}
	used := map[string]bool{}
	take := func(name string) string {
		if tensors[name] == nil {
			return ""
		}
		used[name] = true
		return name
	}
	names := slices.Sorted(maps.Keys(tensors))
	add := func(t ExportedTable, base string) {
		t.SlotsName, t.Steps, t.Sightings = take(base+".slots"), take(base+".steps"), take(base+".sightings")
		if s := tensors[t.SlotsName]; s != nil && len(s.Shape) == 2 {
			t.Slots = uint32(min(s.Shape[1], maxRow))
		}
		m.Tables = append(m.Tables, t)
	}
	for _, name := range names {
		base, ok := strings.CutSuffix(name, ".keys")
		values := tensors[base+".values"]
		if !ok || values == nil {
			continue
		}
		t := ExportedTable{Table: Table{Name: base}, Keys: take(name), Values: take(base + ".values")}
		if len(values.Shape) == 2 {
			t.Rows, t.Dim = uint64(values.Shape[0]), uint32(min(values.Shape[1], maxRow))
		}
		add(t, base)
	}
	for _, name := range names {
		if used[name] || slices.ContainsFunc([]string{".slots", ".steps", ".sightings"}, func(s string) bool {
			base, ok := strings.CutSuffix(name, s)
			return ok && tensors[base] != nil
		}) {
			continue
		}
		t := ExportedTable{Table: Table{Name: name}, Values: take(name)}
		n, _ := size(float32s, tensors[name].Shape)
		t.Dim = uint32(max(1, min(Block, n/4)))
		for _, d := range tensors[name].Shape {
			t.Shape = append(t.Shape, uint32(min(d, 1<<32-1)))
		}
		if len(t.Shape) == 0 {
			t.Shape = []uint32{1} // a number
		}
		t.Rows, _ = t.blocks() // check says what is wrong
		add(t, name)
	}
	slices.SortFunc(m.Tables, func(a, b ExportedTable) int { return cmp.Compare(a.Name, b.Name) })
	for i := range m.Tables {
		m.Tables[i].ID = uint32(i + 1)
	}
	return m
}

// check compares the tensors with the tables.
func (i *Import) check() error {
	used := map[string]bool{}
	var errs []error
	want := func(name, dtype string, shape ...int64) {
		t := i.tensors[name]
		w := tensor{DType: dtype, Shape: shape}
		switch {
		case t == nil:
			errs = append(errs, fmt.Errorf("tensor %q: %w: it is missing, want %v", name, ErrTensor, &w))
		case used[name]:
			errs = append(errs, fmt.Errorf("tensor %q: %w: two tables have it", name, ErrTensor))
		case t.DType != dtype || !slices.Equal(t.Shape, shape):
			errs = append(errs, fmt.Errorf("tensor %q: %w: it is %v, want %v", name, ErrTensor, t, &w))
		}
		used[name] = true
	}
	for j := range i.m.Tables {
		t := &i.m.Tables[j]
		if t.Dim < 1 || t.stride() > maxRow || t.Rows > 1<<48 {
			errs = append(errs, fmt.Errorf("tensor %q: %w: %d rows of %d and %d values", t.Values, ErrTensor, t.Rows, t.Dim, t.Slots))
			continue
		}
		if t.dense() {
			shape := make([]int64, len(t.Shape))
			for k, d := range t.Shape {
				shape[k] = int64(d)
			}
			if blocks, err := t.blocks(); err != nil || blocks != t.Rows {
				errs = append(errs, fmt.Errorf("tensor %q: %w: %d blocks of %d for the shape %v", t.Values, ErrTensor, t.Rows, t.Dim, t.Shape))
			}
			if number := i.tensors[t.Values]; number != nil && len(number.Shape) == 0 && slices.Equal(shape, []int64{1}) {
				shape = nil
			}
			want(t.Values, float32s, shape...)
		} else {
			want(t.Keys, int64s, int64(t.Rows))
			want(t.Values, float32s, int64(t.Rows), int64(t.Dim))
		}
		if t.SlotsName != "" {
			want(t.SlotsName, float32s, int64(t.Rows), int64(t.Slots))
		}
		for _, name := range []string{t.Steps, t.Sightings} {
			if name != "" {
				want(name, int32s, int64(t.Rows))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(i.tensors)) {
		if !used[name] {
			errs = append(errs, fmt.Errorf("tensor %q: %w: it is %v, and of no table", name, ErrTensor, i.tensors[name]))
		}
	}
	return errors.Join(errs...)
}

// Manifest describes what is there; the tables' Schema is empty unless an
// export.json had it. It is not to be changed.
func (i *Import) Manifest() *ExportManifest { return &i.m }

// Close closes the file.
func (i *Import) Close() error {
	if err := i.f.Close(); err != nil {
		return fmt.Errorf("close import: %w", err)
	}
	return nil
}

// Rows yields the rows of a table, in the file's order: weights, and slots if they
// were exported, else none. The rows of a dense table are its blocks, by ascending
// key; the last is filled up with zeros. A row's bytes are good until the next one.
func (i *Import) Rows(ctx context.Context, table string) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		at := slices.IndexFunc(i.m.Tables, func(t ExportedTable) bool { return t.Name == table })
		if at < 0 {
			yield(Row{}, fmt.Errorf("import: there is no table %q", table))
			return
		}
		t := &i.m.Tables[at]
		if err := i.rows(ctx, t, yield); err != nil {
			yield(Row{}, fmt.Errorf("import table %q from %s: %w", t.Name, i.path, err))
		}
	}
}

// column reads a tensor from its beginning; nil without one.
func (i *Import) column(name string) *bufio.Reader {
	t := i.tensors[name]
	if t == nil {
		return nil
	}
	return bufio.NewReaderSize(io.NewSectionReader(i.f, i.begin+int64(t.Offsets[0]), int64(t.Offsets[1]-t.Offsets[0])), 256<<10)
}

func (i *Import) rows(ctx context.Context, t *ExportedTable, yield func(Row, error) bool) error {
	keys, values, slots, steps, sightings := i.column(t.Keys), i.column(t.Values), i.column(t.SlotsName), i.column(t.Steps), i.column(t.Sightings)
	width := 0
	if slots != nil {
		width = int(t.Slots)
	}
	elements := t.Rows * uint64(t.Dim)
	if t.dense() {
		elements, _ = t.elements()
	}
	record := make([]byte, rowHead+4*(int(t.Dim)+width))
	var small [4]byte
	for n := range t.Rows {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		clear(record)
		le.PutUint64(record, n)
		weights := record[rowHead : rowHead+4*int(t.Dim)]
		weights = weights[:4*min(uint64(t.Dim), elements-n*uint64(t.Dim))]
		err := errors.Join(
			readColumn(keys, record[:8]), readColumn(values, weights),
			readColumn(slots, record[rowHead+4*t.Dim:]), readColumn(steps, record[8:12]), readColumn(sightings, small[:]),
		)
		if err != nil {
			return fmt.Errorf("row %d: %w", n, err)
		}
		seen := le.Uint32(small[:])
		if seen > 1<<16-1 {
			return fmt.Errorf("tensor %q: %w: row %d was seen %d times, at most %d can be", t.Sightings, ErrTensor, n, seen, 1<<16-1)
		}
		le.PutUint16(record[12:], uint16(seen))
		if !yield(Row{Table: t.ID, Record: record, dim: int(t.Dim)}, nil) {
			return nil
		}
	}
	return nil
}

func readColumn(r *bufio.Reader, b []byte) error {
	if r == nil {
		return nil
	}
	_, err := io.ReadFull(r, b)
	return err
}
