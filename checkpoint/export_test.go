package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// tensorTables are an embedding and two tensors, one of several blocks.
func tensorTables() []Table {
	return []Table{
		{ID: 1, Name: "user", Dim: 4, Slots: 4, Schema: []byte(`{"optimizer": "adagrad"}`)},
		{ID: 2, Name: "bias", Shape: []uint32{3}, Dim: 3, Slots: 3},
		{ID: 5, Name: "dense/w", Shape: []uint32{30, 50}, Dim: 1024, Slots: 1},
	}
}

func rowText(t *Table, key uint64, values ...float32) string {
	for len(values) < int(t.Dim+t.Slots) {
		values = append(values, float32(key)+float32(len(values))/8)
	}
	return string(newRow(t, key, 9, 3, values).Record)
}

func pageOf(records ...string) []byte {
	b := binary.LittleEndian.AppendUint16(nil, uint16(len(records)))
	return append(b, strings.Join(records, "")...)
}

// savedTensors writes a checkpoint; blocks are those of dense/w that were written.
func savedTensors(t *testing.T, blocks int) *Checkpoint {
	t.Helper()
	ctx := t.Context()
	s := mustOpen(t, Config{Dir: t.TempDir()})
	tables := tensorTables()
	w, err := s.Begin(ctx, Spec{ID: 1, Job: "j", Group: 1, Shards: 1, Tables: tables})
	if err != nil {
		t.Fatal(err)
	}
	pages := []Page{
		{PageID{1, 0, 0}, pageOf(rowText(&tables[0], 3), rowText(&tables[0], math.MaxUint64))},
		{PageID{1, 7, 0}, pageOf(rowText(&tables[0], 1<<63))},
		{PageID{2, 9, 0}, pageOf(rowText(&tables[1], 0, 1, 2, 3, .1, .2, .3))},
	}
	for i := range blocks {
		pages = append(pages, Page{PageID{5, uint16(500 - i), 0}, pageOf(rowText(&tables[2], uint64(i)))})
	}
	for _, p := range pages {
		if err := w.WritePage(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	part, err := w.Finish(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(ctx, Manifest{ID: 1, Job: "j", Step: 12, Shards: 1, HashSeed: 4, Tables: tables, Parts: []Part{part}}); err != nil {
		t.Fatal(err)
	}
	c, err := s.Load(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// rowsOfTable lists records as text, sorted.
func rowsOfTable(t *testing.T, i *Import, table string) []string {
	t.Helper()
	var all []string
	for r, err := range i.Rows(t.Context(), table) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%x", r.Record))
	}
	slices.Sort(all)
	return all
}

func storedRows(t *testing.T, c *Checkpoint, table uint32, with int) []string {
	t.Helper()
	var all []string
	for r, err := range c.Rows(t.Context(), Query{Tables: []uint32{table}}) {
		if err != nil {
			t.Fatal(err)
		}
		b := bytes.Clone(r.Record)
		if with == 0 { // weights alone
			clear(b[8:rowHead])
			b = b[:rowHead+len(r.Weights())]
		}
		all = append(all, fmt.Sprintf("%x", b))
	}
	slices.Sort(all)
	return all
}

func TestExportAndImport(t *testing.T) {
	c := savedTensors(t, 2)
	for _, slots := range []bool{false, true} {
		dir := t.TempDir()
		m, err := c.Export(t.Context(), dir, ExportOptions{Slots: slots})
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Tables) != 3 || m.Step != 12 || m.Tables[0].Rows != 3 {
			t.Errorf("%+v", m)
		}
		i, err := OpenImport(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer i.Close()
		if err := i.Verify(t.Context()); err != nil || m.SHA256 == "" {
			t.Errorf("sum %q: %v", m.SHA256, err)
		}
		if i.m.SHA256 = strings.Repeat("0", 64); !errors.Is(i.Verify(t.Context()), ErrDamaged) {
			t.Error("another sum is no damage")
		}
		with := 0
		if slots {
			with = 1
		}
		for _, table := range tensorTables()[:2] {
			if got, want := rowsOfTable(t, i, table.Name), storedRows(t, c, table.ID, with); !slices.Equal(got, want) {
				t.Errorf("slots %v, table %s: got %q, want %q", slots, table.Name, got, want)
			}
		}
		// 1,500 elements are a block and 476 elements; the rest of it is not exported.
		n := 0
		for r, err := range i.Rows(t.Context(), "dense/w") {
			if err != nil {
				t.Fatal(err)
			}
			for j := range 1024 {
				want := float32(n) + float32(j)/8
				if n*1024+j >= 1500 {
					want = 0
				}
				if got := r.Weight(j); got != want {
					t.Fatalf("block %d, element %d is %v, want %v", n, j, got, want)
				}
			}
			n++
		}
		if n != 2 {
			t.Errorf("%d blocks", n)
		}
		if _, err := c.Export(t.Context(), dir, ExportOptions{}); !errors.Is(err, os.ErrExist) {
			t.Error(err)
		}
	}
}

func TestExportOfWhatWasNeverWritten(t *testing.T) {
	c := savedTensors(t, 1)
	if _, err := c.Export(t.Context(), t.TempDir(), ExportOptions{}); !errors.Is(err, ErrTensor) || !strings.Contains(err.Error(), `"dense/w"`) {
		t.Fatal(err)
	}
	dir := t.TempDir()
	_, err := c.Export(t.Context(), dir, ExportOptions{Tables: []string{"dense/w"}, Initial: func(_ Table, key uint64) ([]float32, error) {
		values := make([]float32, 1025)
		for i := range values {
			values[i] = float32(key) * 10
		}
		return values, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	i, err := OpenImport(filepath.Join(dir, TensorFile)) // without its description
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	for r, err := range i.Rows(t.Context(), "dense/w") {
		if err != nil || r.Key() == 1 && r.Weight(5) != 10 || r.Key() == 0 && r.Weight(8) != 1 {
			t.Fatal(r.Key(), r.Weight(5), err)
		}
	}
}

// TestImportRefuses names the tensor that is missing, or of another type or shape.
func TestImportRefuses(t *testing.T) {
	c := savedTensors(t, 2)
	dir := t.TempDir()
	if _, err := c.Export(t.Context(), dir, ExportOptions{Slots: true}); err != nil {
		t.Fatal(err)
	}
	description, err := os.ReadFile(filepath.Join(dir, ExportFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		`tensor "user.keys": the tensor does not fit: it is I64 [3], want I64 [4]`:      {`"rows": 3`, `"rows": 4`},
		`tensor "user.gone": the tensor does not fit: it is missing, want I64 [3]`:      {`"user.keys"`, `"user.gone"`},
		`tensor "user.values": the tensor does not fit: it is F32 [3 4], want F32 [3 5`: {`"dim": 4`, `"dim": 5`},
		`tensor "bias": the tensor does not fit: it is F32 [3], want I32 [3]`:           {`"user.steps"`, `"bias"`},
		`1 blocks of 3 for the shape [4]`: {`"shape": [
        3
      ]`, `"shape": [4]`},
		`export of version 2, this program reads up to 1`: {`"version": 1`, `"version": 2`},
		`unknown field`:    {`"rows"`, `"rowz"`},
		`name "" is empty`: {`"name": "user"`, `"name": ""`},
	} {
		b := strings.Replace(string(description), change[0], change[1], 1)
		if b == string(description) {
			t.Fatalf("%q is not in %s", change[0], description)
		}
		if err := os.WriteFile(filepath.Join(dir, ExportFile), []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
		if i, err := OpenImport(dir); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v: want %s", err, name)
			if err == nil {
				_ = i.Close()
			}
		}
	}
}

// tensorFile writes a file of tensors by its header.
func tensorFile(t *testing.T, header string, data int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.safetensors")
	b := le.AppendUint64(nil, uint64(len(header)))
	b = append(append(b, header...), make([]byte, data)...)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestImportOfForeignFiles(t *testing.T) {
	for name, c := range map[string]struct {
		header string
		data   int
		want   string // in the error; empty: none
	}{
		"a tensor":    {`{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}`, 24, ""},
		"a number":    {`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, 4, ""},
		"nothing":     {`{}`, 0, ""},
		"metadata":    {`{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  `, 4, ""},
		"half floats": {`{"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}`, 4, `tensor "a": the tensor does not fit: it is F16 [2], want F32 [2]`},
		"other keys":  {`{"a.keys":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},"a.values":{"dtype":"F32","shape":[1,1],"data_offsets":[4,8]}}`, 8, `tensor "a.keys": the tensor does not fit: it is I32 [1], want I64 [1]`},
		"lone keys":   {`{"a.keys":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}`, 8, `tensor "a.keys"`},
		"a hole":      {`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8, "want 0 to 4"},
		"too short":   {`{"a":{"dtype":"F32","shape":[9],"data_offsets":[0,36]}}`, 8, "the file 8"},
		"too long":    {`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 8, "the file 8"},
		"overlap":     {`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4, "want 4 to 8"},
		"twice":       {`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4, "twice"},
		"overflow":    {`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}}`, 4, "unknown type or shape"},
		"negative":    {`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 4, "unknown type or shape"},
		"no type":     {`{"a":{"shape":[1],"data_offsets":[0,4]}}`, 4, "unknown type or shape"},
		"no object":   {`[]`, 0, "no JSON object"},
		"cut":         {`{"a":`, 0, "tensor"},
		"more":        {`{}x`, 0, "after the JSON object"},
	} {
		i, err := OpenImport(tensorFile(t, c.header, c.data))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err != nil {
			continue
		}
		for _, table := range i.Manifest().Tables {
			if rows := rowsOfTable(t, i, table.Name); len(rows) != int(table.Rows) {
				t.Errorf("%s: %d rows, want %d", name, len(rows), table.Rows)
			}
		}
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestExportsOpenNeedsNumpy runs the ten lines of Python that a user would write.
func TestExportsOpenNeedsNumpy(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 180e9)
	defer cancel()
	python := ""
	for _, p := range []string{"/usr/bin/python3", "python3"} { // Debian's has Debian's numpy
		if exec.CommandContext(ctx, p, "-c", "import numpy").Run() == nil {
			python = p
			break
		}
	}
	if python == "" {
		t.Skip("no python3 with numpy is here (Debian: python3-numpy)")
	}
	dir := t.TempDir()
	if _, err := savedTensors(t, 2).Export(ctx, dir, ExportOptions{Slots: true}); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(ctx, python, "testdata/open_export.py", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"bias float32 [3] 6.0\n", "dense/w float32 [30, 50] 80079.25\n", "user.keys int64 [3] -9.223372036854776e+18\n", "user.steps int32 [3] 27\n", "dense/w.slots float32 [2, 1] 257.0\n",
	} {
		if !strings.Contains(string(out), strings.TrimSuffix(want, "\n")) {
			t.Errorf("numpy prints\n%s, want %s", out, want)
		}
	}
	i, err := OpenImport(filepath.Join(dir, "numpy.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	var keys []uint64
	for r, err := range i.Rows(ctx, "item") {
		if err != nil || r.Weight(1) != float32(2*len(keys)+1) {
			t.Fatal(r.Weight(1), err)
		}
		keys = append(keys, r.Key())
	}
	if !slices.Equal(keys, []uint64{1, math.MaxUint64, 7}) {
		t.Error(keys)
	}
}

// TestWriteWhole leaves nothing of what did not fit.
func TestWriteWhole(t *testing.T) {
	dir := t.TempDir()
	err := writeWhole(dir, TensorFile, func(f *os.File) error {
		_, err := f.Write([]byte("half"))
		return errors.Join(err, unix.ENOSPC)
	})
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), TensorFile) {
		t.Error(err)
	}
	if left := files(t, dir); len(left) > 0 {
		t.Error(left)
	}
}

// TestExportIsCancelled between two pages.
func TestExportIsCancelled(t *testing.T) {
	c := savedTensors(t, 2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	for _, to := range []string{dir, filepath.Join(dir, "new")} { // one that it makes goes with it
		if _, err := c.Export(ctx, to, ExportOptions{}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if left := files(t, dir); len(left) > 0 {
		t.Error(left)
	}
}
