package trace_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"hcclps/internal/trace"
)

// flown is the flight of a rank that ended so many operations and is in the next.
func flown(rank, ended int) *trace.Flight {
	f := &trace.Flight{Process: "worker", Rank: rank, World: 3, Written: noon.Add(time.Minute), Why: "no progress"}
	for i := range ended + 1 {
		o := trace.Operation{
			Group: "00c0ffee", Epoch: 2, Seq: uint64(i + 1), Call: "#" + string(rune('1'+i)) + " barrier (tree)", Op: "barrier",
			Posted: noon, Started: noon.Add(time.Duration(i) * time.Second),
		}
		if i < ended {
			o.Ended = o.Started.Add(time.Millisecond)
		}
		f.Operations = append(f.Operations, o)
	}
	return f
}

// TestFlightGolden pins the file.
func TestFlightGolden(t *testing.T) {
	f := flown(1, 1)
	f.Operations[1].Error = "rank 2 is missing"
	var b bytes.Buffer
	if err := f.Write(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "flight.json")
	if *rewrite {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%s is now (see -rewrite)\n%s", path, b.Bytes())
	}
	tr, got, err := trace.Open(path)
	if err != nil || tr != nil || !reflect.DeepEqual(got, f) {
		t.Errorf("read back %v, %+v, %v, want %+v", tr, got, err, f)
	}
	if tr, got, err := trace.Open(filepath.Join("testdata", "worker.json")); err != nil || tr == nil || got != nil {
		t.Errorf("a trace is opened as %v, %v, %v", tr, got, err)
	}
	if _, _, err := trace.Open("flight_test.go"); !errors.Is(err, trace.ErrFormat) || !strings.Contains(err.Error(), "line 1, column 1") {
		t.Errorf("this file is opened: %v", err)
	}
}

// TestCompare says who is behind, who is elsewhere and who has failed, and nothing of ranks that agree.
func TestCompare(t *testing.T) {
	other := flown(1, 2)
	other.Operations[2].Call = "#3 allreduce of 7 float32 (sum, ring)"
	failed := flown(2, 2)
	failed.Operations[2].Error, failed.Operations[2].Ended = "rank 1 called something else", noon
	done := func(rank int) *trace.Flight {
		f := flown(rank, 2)
		f.Operations = f.Operations[:2]
		return f
	}
	old := flown(1, 1)
	for i := range old.Operations {
		old.Operations[i].Epoch = 1
	}
	early := done(1)
	early.Written = noon.Add(time.Second)
	for name, c := range map[string]struct {
		flights []*trace.Flight
		want    []string
	}{
		"nothing": {nil, nil},
		"agree":   {[]*trace.Flight{done(0), done(1), done(2)}, nil},
		"older":   {[]*trace.Flight{done(0), old, done(2)}, nil},
		"missing": {[]*trace.Flight{flown(0, 2), done(1), flown(2, 2)}, []string{"rank 0 was in #3", "rank 1 has not begun #3 barrier (tree), in which rank 0 is: its last was #2 barrier (tree), ended", "rank 2 was in #3"}},
		"early":   {[]*trace.Flight{flown(0, 2), early, flown(2, 2)}, []string{"rank 0 was in #3", "rank 1 wrote its flight before rank 0 began #3 barrier (tree): its last was #2 barrier (tree), ended", "rank 2 was in #3"}},
		"other":   {[]*trace.Flight{flown(0, 2), other, failed}, []string{"rank 0 was in #3 barrier", "rank 1 called #3 allreduce of 7 float32 (sum, ring) where rank 0 called #3 barrier (tree)", "rank 1 was in", "rank 2: #3 barrier (tree) failed: rank 1 called something else"}},
	} {
		got := trace.Compare(c.flights)
		ok := len(got) == len(c.want)
		for i := range got {
			ok = ok && strings.HasPrefix(got[i], c.want[i])
		}
		if !ok {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// FuzzParseFlight reads anything; what it takes is the same when it is written and read.
func FuzzParseFlight(f *testing.F) {
	var b bytes.Buffer
	if err := flown(1, 1).Write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"format":"hcclps flight","version":1,"world":1,"operations":[{"ended":"0001-01-01T00:00:00Z"}]}`))
	f.Add([]byte(`{"format":"hcclps flight","version":1,"world":0}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := trace.ParseFlight(b)
		if err != nil {
			if !errors.Is(err, trace.ErrFormat) {
				t.Errorf("%v is no ErrFormat", err)
			}
			return
		}
		_ = trace.Compare([]*trace.Flight{got, got})
		var once, twice bytes.Buffer
		if err := got.Write(&once); err != nil {
			return // a time that has no text
		}
		again, err := trace.ParseFlight(once.Bytes())
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, once.Bytes())
		}
		if err := again.Write(&twice); err != nil || !bytes.Equal(once.Bytes(), twice.Bytes()) {
			t.Fatalf("written twice it differs: %v\n%s\n%s", err, once.Bytes(), twice.Bytes())
		}
	})
}
