package trace_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hcclps/internal/trace"
)

const head = `{"otherData":{"format":"hcclps trace","version":1,"origin":"2026-01-02T03:04:05Z","processes":[{"id":0,"name":"w","origin":"2026-01-02T03:04:05Z"}]},"traceEvents":[` + "\n"

// TestRefused says of each file where it is wrong.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"empty":          {"", "line 1, column 1: EOF"},
		"text":           {"hello", "line 1, column 1"},
		"array":          {"[1]", "want {"},
		"other json":     {`{"a":1}`, `no "otherData"`},
		"other trace":    {`{"traceEvents":[{"ph":"X","name":"a","pid":0,"tid":0,"ts":1,"dur":1}]}`, `no "otherData"`},
		"other format":   {`{"otherData":{"format":"x"}}`, `format "x"`},
		"newer":          {strings.Replace(head, `"version":1`, `"version":2`, 1), "version 2, want 1"},
		"header twice":   {head + `],"otherData":{"format":"hcclps trace","version":1}}`, "twice"},
		"process twice":  {strings.Replace(head, `"processes":[`, `"processes":[{"id":0},`, 1), "process 0 is there twice"},
		"cut short":      {head + `{"ph":"X","name":"a","pi`, "line 2, column"},
		"not closed":     {head, "EOF"},
		"followed":       {head + "]}\n{}", "something follows"},
		"no pid":         {head + `{"ph":"X","name":"a","tid":0,"ts":1,"dur":1}]}`, "line 2, column 1: event 0: name, pid and tid are needed"},
		"phase":          {head + "{\"ph\":\"M\",\"name\":\"a\",\"pid\":0,\"tid\":0},\n{\"ph\":\"B\",\"name\":\"a\",\"pid\":0,\"tid\":0,\"ts\":1}]}", `line 3, column 1: event 1: phase "B"`},
		"text as time":   {head + `{"ph":"X","name":"a","pid":0,"tid":0,"ts":"x","dur":1}]}`, "line 2, column"},
		"negative time":  {head + `{"ph":"X","name":"a","pid":0,"tid":0,"ts":-1,"dur":1}]}`, `ts "-1", want microseconds`},
		"negative dur":   {head + `{"ph":"X","name":"a","pid":0,"tid":0,"ts":1,"dur":-0.001}]}`, `dur "-0.001"`},
		"no dur":         {head + `{"ph":"X","name":"a","pid":0,"tid":0,"ts":1}]}`, `dur ""`},
		"exponent":       {head + `{"ph":"X","name":"a","pid":0,"tid":0,"ts":1e3,"dur":1}]}`, `ts "1e3"`},
		"too fine":       {head + `{"ph":"X","name":"a","pid":0,"tid":0,"ts":1.0001,"dur":1}]}`, `ts "1.0001"`},
		"too late":       {head + `{"ph":"X","name":"a","pid":0,"tid":0,"ts":9007199254740992,"dur":1}]}`, `ts "9007199254740992"`},
		"flow of no one": {head + `{"ph":"s","name":"a","pid":0,"tid":0,"ts":1}]}`, "a flow without an id"},
		"no value":       {head + `{"ph":"C","name":"a","pid":0,"tid":0,"ts":1,"args":{}}]}`, "a sample without a value"},
		"type":           {head + `{"ph":"X","name":7,"pid":0,"tid":0,"ts":1,"dur":1}]}`, "want string"},
	} {
		_, err := trace.Read(strings.NewReader(c.file))
		var where *trace.FormatError
		switch {
		case !errors.Is(err, trace.ErrFormat) || !errors.As(err, &where):
			t.Errorf("%s: %v, want an ErrFormat that says where", name, err)
		case !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
		}
	}
}

// TestCheckFinds plants each fault that Check is there to find.
func TestCheckFinds(t *testing.T) {
	span := func(thread int, from, to time.Duration) trace.Event {
		return trace.Event{Phase: trace.Complete, Name: "a", Thread: thread, Time: from, Duration: to - from, Step: trace.NoStep}
	}
	flow := func(p trace.Phase, at time.Duration, id uint64) trace.Event {
		return trace.Event{Phase: p, Name: "flow", Thread: 1, Time: at, Flow: id}
	}
	for name, c := range map[string]struct {
		events []trace.Event
		want   string
	}{
		"good":              {[]trace.Event{span(1, 0, 10), span(1, 0, 5), span(2, 3, 12), span(1, 5, 10), span(1, 10, 11)}, ""},
		"overlap":           {[]trace.Event{span(1, 0, 10), span(1, 5, 12)}, "beyond the end"},
		"overlap of a part": {[]trace.Event{span(1, 0, 10), span(1, 2, 4), span(1, 3, 5)}, "beyond the end"},
		"negative":          {[]trace.Event{span(1, 10, 5)}, "it lasts -5ns"},
		"order":             {[]trace.Event{span(1, 10, 11), span(1, 5, 6)}, "before the event in front of it"},
		"thread":            {[]trace.Event{span(3, 0, 1)}, "no such process and thread"},
		"flow":              {[]trace.Event{span(1, 0, 10), flow(trace.FlowStart, 1, 7), flow(trace.FlowEnd, 9, 7)}, ""},
		"flow at the end":   {[]trace.Event{span(1, 0, 10), flow(trace.FlowStart, 10, 7), flow(trace.FlowEnd, 10, 7)}, ""},
		"flow without end":  {[]trace.Event{span(1, 0, 10), flow(trace.FlowStart, 1, 7)}, "flow 7 has 1 starts and 0 ends"},
		"flow from nowhere": {[]trace.Event{span(1, 0, 10), flow(trace.FlowEnd, 1, 7)}, "flow 7 has 0 starts and 1 ends"},
		"flow twice":        {[]trace.Event{span(1, 0, 10), flow(trace.FlowStart, 1, 7), flow(trace.FlowStart, 2, 7), flow(trace.FlowEnd, 3, 7)}, "begins a second time"},
		"flow outside":      {[]trace.Event{span(1, 0, 10), flow(trace.FlowStart, 11, 7), flow(trace.FlowEnd, 12, 7)}, "outside of any span"},
	} {
		tr := &trace.Trace{Processes: []trace.Process{{Threads: []trace.Thread{{ID: 1}, {ID: 2}}}}, Events: c.events}
		err := trace.Check(tr, true)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestWriteFile keeps what was there when there is nothing better.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.json")
	w, _ := job(t)
	if err := w.Trace().WriteFile(path); err != nil {
		t.Fatal(err)
	}
	got, err := trace.ReadFile(path)
	if err != nil || len(got.Events) != len(w.Trace().Events) {
		t.Errorf("read back %v, %v", got, err)
	}
	if err := w.Trace().WriteFile(filepath.Join(dir, "none", "out.json")); err == nil {
		t.Error("written into a folder that is not there")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("folder has %v, %v", left, err)
	}
	if _, err := trace.ReadFile(filepath.Join(dir, "none.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("read what is not there: %v", err)
	}
}

// FuzzRead reads anything; what it takes can be written, read, merged and counted.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"worker.json", "server.json", "merged.json"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(head + `{"ph":"X","name":"a","pid":0,"tid":0,"ts":9000000000000000,"dur":9000000000000000}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		tr, err := trace.Read(bytes.NewReader(b))
		if err != nil {
			if !errors.Is(err, trace.ErrFormat) {
				t.Errorf("%v is no ErrFormat", err)
			}
			return
		}
		var once, twice bytes.Buffer
		if err := tr.Write(&once); err != nil {
			return // a time that has no text
		}
		again, err := trace.Read(bytes.NewReader(once.Bytes()))
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, once.Bytes())
		}
		if err := again.Write(&twice); err != nil || !bytes.Equal(once.Bytes(), twice.Bytes()) {
			t.Fatalf("written twice it differs: %v\n%s\n%s", err, once.Bytes(), twice.Bytes())
		}
		good := trace.Check(tr, false) == nil
		m := trace.Merge(tr, again)
		_ = m.Summarize()
		if err := trace.Check(&m.Trace, true); good && err != nil {
			t.Fatalf("a good trace merged with itself: %v", err)
		}
	})
}
