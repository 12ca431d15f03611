package wire_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"hcclps/ps/wire"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

func target() wire.Target {
	return wire.Target{Group: 3, Job: "clicks", Worker: "worker-1", Incarnation: 7}
}

func table() wire.Table {
	return wire.Table{
		ID: 2, Name: "item", Dim: 16, Init: "uniform", InitParams: map[string]float64{"low": -0.1, "high": 0.1},
		Optimizer: "adagrad", Params: map[string]float64{"lr": 0.05, "eps": 1e-10}, NonFinite: "reject", Seed: 42,
		Schedule: wire.Schedule{Kind: "cosine", Warmup: 10, Steps: 1000, Floor: 0.1},
	}
}

func fence() wire.Fence {
	return wire.Fence{Target: target(), Params: wire.JobParams{World: 2, Sync: wire.SSP, Staleness: 2, Parts: 4, Seed: 9}, Rank: 1, Owner: "host pid 12 opened 7"}
}

func messages() []wire.Message {
	f := fence()
	return []wire.Message{
		&wire.Push{Target: target(), Step: 5, Part: 3, Parts: 4, Rows: 256, Cursor: []byte("here"), Resent: true, Plain: 77},
		&wire.Pull{Target: target(), Step: wire.Infinity, Own: 5, Term: 2, Index: 99, Fresh: true, Half: wire.BF16},
		&f,
		&wire.Finish{Target: target(), Step: 6},
		&wire.Hold{Group: 3, Job: "clicks", Plan: wire.Plan{ID: 1, Kind: wire.PlanTable, T: 8, Table: table()}},
		&wire.Hold{Group: 3, Job: "clicks", Plan: wire.Plan{ID: 2, Kind: wire.PlanJoin, T: 8, Join: fence()}},
		&wire.Hold{Group: 3, Job: "clicks", Plan: wire.Plan{ID: 3, Kind: wire.PlanExpel, T: 8, Worker: "worker-1", Incarnation: 7, Why: "lease"}},
		&wire.Hold{Group: 3, Job: "clicks", Plan: wire.Plan{ID: 4, Kind: wire.PlanRate, T: 8, Rate: 0.5}},
		&wire.Hold{Group: 3, Job: "clicks", Plan: wire.Plan{ID: 5, Kind: wire.PlanStop, T: 8}},
		&wire.Release{Group: 3, Job: "clicks", Plan: 4, Drop: true},
		&wire.Probe{Group: 3, Job: "clicks"},
		&wire.Scan{Target: target(), Table: 2, After: 17, First: true, Limit: 100},
		&wire.Put{Target: target(), Load: 5, Table: 2, Rule: wire.RuleState{Steps: 7, Pow: [2]float64{0.5, 0.25}}, Rows: wire.AppendRow(nil, wire.Row{Key: 9, Sightings: 3, Values: []float32{1, 2}}), Complete: true, Wait: true},
		&wire.Rule{Target: target(), Table: 2},
		&wire.Sweep{Group: 3, Job: "clicks", Table: 2, Time: 1e18, From: 5, To: 9},
		&wire.Find{Group: 3, Job: "clicks", Table: 2, Key: 1 << 63},
		&wire.Hold{Group: 3, Job: "clicks", Plan: wire.Plan{ID: 6, Kind: wire.PlanCheckpoint, T: 8, Checkpoint: 70, Base: 60}},
		&wire.Release{Group: 3, Job: "clicks", Plan: 6, Cuts: []wire.Cut{{Worker: "worker-1", Step: 8}}},
		&wire.Checkpoint{Group: 3, Job: "clicks", ID: 70, Do: wire.CheckpointDrop},
		&wire.Restore{Group: 3, Job: "clicks", Load: 5, Piece: wire.RestorePages, Table: 2, Data: wire.AppendPage(nil, wire.Page{Partition: 1023, Page: 7, Data: []byte("rows")})},
		&wire.Hold{Group: 3, Job: "clicks", Plan: wire.Plan{ID: 7, Kind: wire.PlanFork, T: 8, Table: table(), Fork: 1 << 60}},
	}
}

func TestUploadNames(t *testing.T) {
	for name, want := range map[string][2]uint32{"worker/0": {0, 0}, "worker/17": {17, 0}, "worker/17/3": {17, 3}} {
		if rank, piece, ok := wire.ParseUpload(name); !ok || rank != want[0] || piece != want[1] || wire.UploadName(rank, piece) != name {
			t.Errorf("%q is piece %d of rank %d, %v", name, piece, rank, ok)
		}
	}
	for _, name := range []string{"worker/01", "worker/-1", "worker/", "17", "worker/1/0", "worker/1/", "worker/1/2/3", "worker/4294967296", "state"} {
		if rank, piece, ok := wire.ParseUpload(name); ok {
			t.Errorf("%q is piece %d of rank %d", name, piece, rank)
		}
	}
}

func TestMessagesRoundTrip(t *testing.T) {
	for _, m := range messages() {
		got, err := wire.Decode(wire.Append(nil, m))
		if err != nil {
			t.Fatalf("%T: %v", m, err)
		}
		if !reflect.DeepEqual(got, m) {
			t.Errorf("got %+v, want %+v", got, m)
		}
	}
}

func entries() []wire.Entry {
	f := fence()
	body := wire.AppendSection(nil, wire.Section{Table: 2, Dim: 2, Keys: []uint64{0, 9, ^uint64(0)}, Values: []float32{1, 2, 3, 4, 5, 6}})
	return []wire.Entry{
		{Message: &f},
		{Check: &wire.Check{Index: 1024, Digest: 77}},
		{Steps: []wire.Item{
			{Job: "clicks", Step: 3, Part: 1, Divisor: 512, Rate: 1, Rates: []wire.TableRate{{Table: 2, Rate: 0.25}}, Contributors: []wire.Contributor{{Worker: "a", Incarnation: 1, Rows: 256, Cursor: []byte("x")}, {Worker: "b", Incarnation: 2, Rows: 256, Cursor: []byte{}}}, Payloads: [][]byte{body}},
			{Job: "movies", Step: 0, Divisor: 1, Rate: 0.5, Rates: []wire.TableRate{}, Contributors: []wire.Contributor{{Worker: "a", Incarnation: 1, Cursor: []byte{}}}, Payloads: [][]byte{}},
		}},
	}
}

func TestEntriesRoundTripAndPayloadsAreReadInPlace(t *testing.T) {
	for _, e := range entries() {
		got, err := wire.DecodeEntry(wire.AppendEntry(nil, e))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, e) {
			t.Errorf("got %+v, want %+v", got, e)
		}
	}
	s, err := wire.DecodeSections(entries()[2].Steps[0].Payloads[0])
	if err != nil || len(s) != 1 || s[0].Keys[2] != ^uint64(0) || s[0].Values[5] != 6 {
		t.Errorf("sections %+v, %v", s, err)
	}
}

func TestAnswerRoundTrip(t *testing.T) {
	a := wire.Answer{Status: wire.Fenced, Detail: "why", Leader: "id", After: 20, Duplicate: true, Term: 1, Index: 2, Clock: 3, Done: 4, Cursor: []byte("c"), Waited: 5}
	got, err := wire.DecodeAnswer(wire.AppendAnswer(nil, a))
	if err != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestRowsRoundTrip(t *testing.T) {
	rows := []wire.Row{{Key: 0, Step: 3, Sightings: 65535, Writer: 2, Values: []float32{1, 2}}, {Key: 9, Values: []float32{0.5}}}
	var b []byte
	for _, r := range rows {
		b = wire.AppendRow(b, r)
	}
	got, err := wire.DecodeRows(b)
	if err != nil || !reflect.DeepEqual(got, rows) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestSectionSize(t *testing.T) {
	for rows := range 5 {
		for dim := range 4 {
			s := wire.Section{Table: 1, Dim: dim, Values: make([]float32, rows*dim)}
			for i := range rows {
				s.Keys = append(s.Keys, uint64(i))
			}
			if got, want := wire.SectionSize(rows, dim), len(wire.AppendSection(nil, s)); got != want {
				t.Errorf("SectionSize(%d, %d) = %d, bytes %d", rows, dim, got, want)
			}
		}
	}
}

// Every cut of every message is an error that says where, never a panic.
func TestTruncatedIsAnError(t *testing.T) {
	for _, m := range messages() {
		b := wire.Append(nil, m)
		for n := range len(b) {
			if _, err := wire.Decode(b[:n]); !errors.Is(err, wire.ErrMalformed) {
				t.Fatalf("%T cut at %d: %v", m, n, err)
			}
		}
		if _, err := wire.Decode(append(b, 0)); !errors.Is(err, wire.ErrMalformed) {
			t.Fatalf("%T with a byte too many: %v", m, err)
		}
	}
	for i, e := range entries() {
		b := wire.AppendEntry(nil, e)
		for n := range len(b) {
			if _, err := wire.DecodeEntry(b[:n]); !errors.Is(err, wire.ErrMalformed) {
				t.Fatalf("entry %d cut at %d: %v", i, n, err)
			}
		}
	}
}

func TestSectionsRefuse(t *testing.T) {
	keys := func(id uint32, ks ...uint64) []byte {
		return wire.AppendSection(nil, wire.Section{Table: id, Keys: ks})
	}
	for name, b := range map[string][]byte{
		"keys equal":       keys(1, 5, 5),
		"keys descending":  keys(1, 6, 5),
		"table twice":      append(keys(1, 5), keys(1, 6)...),
		"tables backwards": append(keys(2, 5), keys(1, 6)...),
		"half a head":      keys(1, 5)[:8],
		"rows cut":         keys(1, 5, 6)[:24],
		"unknown codec":    func() []byte { b := keys(1, 5); b[12] = 1; return b }(),
		"hostile count":    func() []byte { b := keys(1, 5); b[7] = 0xff; return b }(),
	} {
		if _, err := wire.DecodeSections(b); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The bytes on the wire and in the log are a promise to other versions.
func TestGoldenBytes(t *testing.T) {
	var out strings.Builder
	for _, m := range messages() {
		fmt.Fprintf(&out, "%T %x\n", m, wire.Append(nil, m))
	}
	for i, e := range entries() {
		fmt.Fprintf(&out, "entry %d %x\n", i, wire.AppendEntry(nil, e))
	}
	fmt.Fprintf(&out, "answer %x\n", wire.AppendAnswer(nil, wire.Answer{Status: wire.OK, Term: 1, Index: 2, Clock: 3, Done: 4}))
	const file = "testdata/golden.txt"
	if *rewrite {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("bytes changed; if that is meant, raise the version and run with -rewrite\n%s", out.String())
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range messages() {
		f.Add(wire.Append(nil, m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := wire.Decode(b)
		if err != nil {
			return
		}
		again, err := wire.Decode(wire.Append(nil, m))
		if err != nil || !reflect.DeepEqual(normal(again), normal(m)) {
			t.Errorf("%T does not round-trip: %v", m, err)
		}
	})
}

// normal hides what may differ between equal messages: NaN.
func normal(m wire.Message) wire.Message {
	if h, ok := m.(*wire.Hold); ok && h.Plan.Rate != h.Plan.Rate {
		h.Plan.Rate = 0
	}
	if p, ok := m.(*wire.Put); ok {
		for i, v := range p.Rule.Pow {
			if v != v {
				p.Rule.Pow[i] = 0
			}
		}
	}
	return m
}

func FuzzDecodeEntry(f *testing.F) {
	for _, e := range entries() {
		f.Add(wire.AppendEntry(nil, e))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := wire.DecodeEntry(b)
		if err != nil {
			return
		}
		if len(e.Steps) > 0 && !bytes.Equal(wire.AppendEntry(nil, e), b) {
			t.Error("steps do not round-trip")
		}
		for _, it := range e.Steps {
			for _, p := range it.Payloads {
				_, _ = wire.DecodeSections(p)
			}
		}
	})
}

func FuzzDecodeSections(f *testing.F) {
	f.Add(wire.AppendSection(wire.AppendSection(nil, wire.Section{Table: 1, Keys: []uint64{1, 2}}), wire.Section{Table: 2, Dim: 1, Keys: []uint64{1}, Values: []float32{1}}))
	f.Add(wire.AppendSection(nil, wire.Section{Table: 3, Dim: 2, Rows: 4, Code: []byte("a frame")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		sections, err := wire.DecodeSections(b)
		if err != nil {
			return
		}
		var again []byte
		for _, s := range sections {
			again = wire.AppendSection(again, s)
		}
		if !bytes.Equal(again, b) {
			t.Error("sections do not round-trip")
		}
	})
}

func FuzzDecodeAnswer(f *testing.F) {
	f.Add(wire.AppendAnswer(nil, wire.Answer{Detail: "x"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = wire.DecodeAnswer(b)
		_, _ = wire.DecodeRows(b)
		if r, err := wire.DecodeRule(b); err == nil && !bytes.Equal(wire.AppendRule(nil, r), b) {
			t.Error("a rule's state does not round-trip")
		}
	})
}
