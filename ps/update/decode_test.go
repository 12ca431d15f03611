package update_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"hcclps/compress"
	"hcclps/ps/update"
	"hcclps/ps/wire"
)

// coded is a section of some rows in a code; the last row may be short.
func coded(t testing.TB, name string, table uint32, keys []uint64, values []float32, dim int) wire.Section {
	t.Helper()
	c, err := compress.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := compress.AppendRows(nil, c, keys, values, dim, 5)
	if err != nil {
		t.Fatal(err)
	}
	return wire.Section{Table: table, Dim: dim, Rows: len(keys), Code: b}
}

// TestSectionsAreDecoded: codes become the keys and values that were given, beside sections that have none, and what a short last row lacks are zeros.
func TestSectionsAreDecoded(t *testing.T) {
	var r update.Reducer
	values := []float32{1, -2, 3, 4, 5}
	for range 3 { // memory that was used before
		r.Reset()
		body := wire.AppendSection(nil, coded(t, "none", 1, []uint64{7, 1 << 50}, values, 3))
		body = wire.AppendSection(body, wire.Section{Table: 2, Dim: 1, Keys: []uint64{3}, Values: []float32{9}})
		body = wire.AppendSection(body, coded(t, "topk:0.4", 3, []uint64{0, 1, math.MaxUint64}, values[:3], 1))
		got, err := r.Sections(body)
		if err != nil || len(got) != 3 {
			t.Fatalf("%+v, %v", got, err)
		}
		for i, want := range []wire.Section{
			{Table: 1, Dim: 3, Keys: []uint64{7, 1 << 50}, Values: []float32{1, -2, 3, 4, 5, 0}},
			{Table: 2, Dim: 1, Keys: []uint64{3}, Values: []float32{9}},
			{Table: 3, Dim: 1, Keys: []uint64{0, 1, math.MaxUint64}, Values: []float32{0, -2, 3}},
		} {
			if s := got[i]; s.Table != want.Table || s.Dim != want.Dim || s.Code != nil || !slices.Equal(s.Keys, want.Keys) || !slices.Equal(s.Values, want.Values) {
				t.Errorf("section %d: %+v, want %+v", i, s, want)
			}
		}
		for i := range got[0].Values { // what comes next finds it dirty
			got[0].Values[i] = float32(math.NaN())
		}
	}
}

// TestDecodeRefuses codes that are not what their section says, before it makes room for what they claim.
func TestDecodeRefuses(t *testing.T) {
	good := coded(t, "onebit", 1, []uint64{1, 2}, []float32{1, 2, 3, 4}, 2)
	vector, err := compress.AppendFrame(nil, mustParse(t, "onebit"), []int{2, 2}, []float32{1, 2, 3, 4}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(s *wire.Section){
		"no rows":        func(s *wire.Section) { s.Rows = 0 },
		"more rows":      func(s *wire.Section) { s.Rows++ },
		"wider rows":     func(s *wire.Section) { s.Dim++ },
		"rows of none":   func(s *wire.Section) { s.Dim = 0 },
		"huge rows":      func(s *wire.Section) { s.Dim = 1 << 30 },
		"many rows":      func(s *wire.Section) { s.Rows = math.MaxUint32 },
		"more than fits": func(s *wire.Section) { s.Rows, s.Dim = 1<<20, 1<<10 },
		"no keys":        func(s *wire.Section) { s.Code = vector },
		"a flipped bit":  func(s *wire.Section) { s.Code = slices.Clone(s.Code); s.Code[len(s.Code)-6] ^= 1 },
		"more behind":    func(s *wire.Section) { s.Code = append(slices.Clone(s.Code), 0) },
		"nothing":        func(s *wire.Section) { s.Code = []byte{} },
	} {
		var r update.Reducer
		s := good
		change(&s)
		if got, err := r.Sections(wire.AppendSection(nil, s)); err == nil || !errors.Is(err, update.ErrUnfit) && !errors.Is(err, compress.ErrMalformed) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	if _, err := update.New(wire.Table{Name: "t", Dim: 1, Init: "zeros", Optimizer: "sgd", NonFinite: "reject", Compress: "gzip"}, update.Config{}); err == nil {
		t.Error("a table with a codec that does not exist")
	}
}

func mustParse(t testing.TB, name string) compress.Codec {
	t.Helper()
	c, err := compress.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestMend(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for policy, want := range map[string][]float32{update.Zero: {0, 0, 0, 3, 0}, update.Clip: {0, 4, -4, 3, 4}} {
		got := []float32{nan, inf, -inf, 3, 5}
		if update.Mend(got, policy, 4); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", policy, got, want)
		}
	}
}

// FuzzSections: bytes from outside give an error, or sections of which keys ascend and values are as many as they must be.
func FuzzSections(f *testing.F) {
	for _, name := range compress.Names() {
		f.Add(wire.AppendSection(nil, coded(f, name, 1, []uint64{1, 5, 1 << 40}, []float32{1, 2, 3, 4, 5}, 2)))
	}
	f.Add(wire.AppendSection(nil, wire.Section{Table: 1, Dim: 12336, Code: []byte("00000000")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r update.Reducer
		sections, err := r.Sections(b)
		if err != nil {
			return
		}
		for _, s := range sections {
			if s.Code != nil || len(s.Values) != len(s.Keys)*s.Dim || !slices.IsSorted(s.Keys) {
				t.Errorf("%+v", s)
			}
		}
	})
}
