package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"testing"

	"hcclps/ps/wire"
)

func fileOf(t testing.TB, rows []wire.Row, width int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := newRowWriter(&b)
	w.head(width)
	for _, r := range rows {
		if err := w.add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.to.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func someRows() []wire.Row {
	return []wire.Row{{Key: 0, Sightings: 3, Values: []float32{1, -2}}, {Key: 7, Values: []float32{0.5, 0}}, {Key: ^uint64(0), Sightings: 65535, Values: []float32{3, 4}}}
}

func readAll(b []byte, rows uint64, width int) ([]wire.Row, error) {
	in, err := newRowReader(bytes.NewReader(b), rows, width)
	if err != nil {
		return nil, err
	}
	var out []wire.Row
	for {
		r, err := in.next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
}

func TestRowFileRoundTrip(t *testing.T) {
	got, err := readAll(fileOf(t, someRows(), 2), 3, 2)
	if err != nil || !reflect.DeepEqual(got, someRows()) {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := newRowWriter(io.Discard).add(wire.Row{Values: []float32{1}}); err == nil {
		t.Error("a row of another width was written")
	}
}

// FuzzRowFile: never a panic; what is read is written again the same.
func FuzzRowFile(f *testing.F) {
	f.Add(fileOf(f, someRows(), 2), uint64(3), 2)
	f.Add(fileOf(f, nil, 1), uint64(0), 1)
	f.Fuzz(func(t *testing.T, b []byte, rows uint64, width int) {
		if width < 1 || width > 64 {
			return
		}
		got, err := readAll(b, rows, width)
		if err != nil {
			if !errors.Is(err, ErrModelDamaged) && !errors.Is(err, ErrModelVersion) {
				t.Errorf("an error without a name: %v", err)
			}
			return
		}
		if again := fileOf(t, got, width); !bytes.Equal(again, b) {
			t.Errorf("%x is written again as %x", b, again)
		}
	})
}

// FuzzManifest: never a panic; errors have names; what is accepted is accepted
// again.
func FuzzManifest(f *testing.F) {
	b, err := json.Marshal(Manifest{Format: manifestFormat, Version: 1, Job: "j", Step: 3, Tables: []SavedTable{
		{Table: wire.Table{ID: 1, Name: "t", Dim: 2, Optimizer: "sgd"}, Width: 2, Rows: 3, File: "table-1.rows", CRC: 5},
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"format":"hcclps-model","version":7}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeManifest(b)
		if err != nil {
			if !errors.Is(err, ErrModelDamaged) && !errors.Is(err, ErrModelVersion) {
				t.Errorf("an error without a name: %v", err)
			}
			return
		}
		again, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeManifest(again); err != nil {
			t.Errorf("%s: %v", again, err)
		}
	})
}
