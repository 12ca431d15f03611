package trace_test

import (
	"testing"
	"time"

	"hcclps/internal/trace"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// talk is the traces of two processes that send each other a message a millisecond, each of which takes 100 us there and 300 us back. The clock of the
// second is ahead, and its trace began later.
func talk(ahead, later time.Duration) (a, b *trace.Trace) {
	a = &trace.Trace{Origin: noon, Processes: []trace.Process{{ID: 0, Name: "a", Origin: noon, Threads: []trace.Thread{{ID: 1, Name: "t"}}}}}
	origin := noon.Add(ahead + later)
	b = &trace.Trace{Origin: origin, Processes: []trace.Process{{ID: 0, Name: "b", Origin: origin, Threads: []trace.Thread{{ID: 1, Name: "t"}}}}}
	add := func(t *trace.Trace, at time.Duration, p trace.Phase, id uint64) {
		t.Events = append(t.Events, trace.Event{Phase: trace.Complete, Name: "m", Thread: 1, Time: at, Duration: time.Microsecond, Bytes: 10, Step: trace.NoStep})
		t.Events = append(t.Events, trace.Event{Phase: p, Category: "flow", Name: "flow", Thread: 1, Time: at, Flow: id, Step: trace.NoStep})
	}
	const us = time.Microsecond
	for i := range uint64(20) {
		at := later + time.Duration(i+1)*1000*us
		add(a, at, trace.FlowStart, 2*i+1)
		add(b, at+100*us-later, trace.FlowEnd, 2*i+1)
		add(b, at+200*us-later, trace.FlowStart, 2*i+2)
		add(a, at+500*us, trace.FlowEnd, 2*i+2)
	}
	return a, b
}

// TestClocks merges traces whose clocks differ. An offset that is possible is said and left alone; one that is not is corrected, as far as
// messages of different speeds allow.
func TestClocks(t *testing.T) {
	for _, c := range []struct {
		ahead, later time.Duration
		shifted      bool
	}{
		{0, 0, false},
		{50 * time.Microsecond, 3 * time.Second, false},
		{-50 * time.Microsecond, time.Millisecond, false},
		{2 * time.Second, time.Minute, true},
		{-2 * time.Second, time.Minute, true},
		{-2 * time.Second, 0, true},
	} {
		a, b := talk(c.ahead, c.later)
		m := trace.Merge(a, b)
		if err := trace.Check(&m.Trace, true); err != nil {
			t.Errorf("%v: %v", c, err)
		}
		if len(m.Skews) != 1 || len(m.Processes) != 2 || m.Processes[1].ID != 1 {
			t.Fatalf("%v: skews %+v, processes %+v", c, m.Skews, m.Processes)
		}
		s := m.Skews[0]
		if s.Process != "b" || s.Against != "a" || s.Flows != 40 || s.Shifted != c.shifted || (s.Offset-c.ahead).Abs() > s.Within || s.Within != 200*time.Microsecond {
			t.Errorf("%v: %+v", c, s)
		}
		starts := map[uint64]time.Duration{}
		for _, e := range m.Events {
			if e.Phase == trace.FlowStart {
				starts[e.Flow] = e.Time
			} else if e.Phase == trace.FlowEnd && e.Time < starts[e.Flow] {
				t.Errorf("%v: flow %d ends %v before it begins", c, e.Flow, starts[e.Flow]-e.Time)
			}
		}
	}
}

// TestMergeLeavesOut counts flows that have one end, and keeps numbers of processes apart.
func TestMergeLeavesOut(t *testing.T) {
	a, _ := talk(0, 0)
	c, _ := talk(0, 0)
	m := trace.Merge(a, c) // both have the same ends of the same flows
	if m.Unmatched != 40 || m.Processes[1].ID != 1 {
		t.Errorf("%d unmatched, processes %+v", m.Unmatched, m.Processes)
	}
	a, _ = talk(0, 0)
	m = trace.Merge(a)
	if m.Unmatched != 40 {
		t.Errorf("%d flows have one end, want 40", m.Unmatched)
	}
	for _, e := range m.Events {
		if e.Flow != 0 {
			t.Fatalf("left in: %+v", e)
		}
	}
	if got := trace.Merge(); len(got.Events) != 0 || trace.Check(&got.Trace, true) != nil {
		t.Errorf("nothing merged is %+v", got)
	}
}

// TestOneWay knows no offset where all flows go one way, but does not leave one that ends before it begins.
func TestOneWay(t *testing.T) {
	a, b := talk(-time.Second, 0)
	for _, tr := range []*trace.Trace{a, b} {
		var kept []trace.Event
		for _, e := range tr.Events {
			if e.Flow%2 == 1 || e.Phase == trace.Complete {
				kept = append(kept, e)
			}
		}
		tr.Events = kept
	}
	m := trace.Merge(a, b)
	if s := m.Skews[0]; s.Within >= 0 || !s.Shifted || m.Processes[1].Shift != time.Second-100*time.Microsecond {
		t.Errorf("%+v, processes %+v", m.Skews, m.Processes)
	}
}

// TestSummarize has numbers that can be checked by hand.
func TestSummarize(t *testing.T) {
	tr := &trace.Trace{}
	add := func(category, name string, took time.Duration, bytes int64) {
		tr.Events = append(tr.Events, trace.Event{Phase: trace.Complete, Category: category, Name: name, Duration: took, Bytes: bytes})
	}
	add("train", "step", 100, 0)
	add("train", "step", 300, 0)
	for i := range time.Duration(100) {
		add("push", "push", i+1, 2)
	}
	s := tr.Summarize()
	if s.Steps != 2 || s.StepTime != 400 || len(s.Rows) != 2 {
		t.Fatalf("%+v", s)
	}
	want := trace.Row{Category: "push", Name: "push", Count: 100, Total: 5050, Mean: 50, P50: 50, P99: 99, Max: 100, Bytes: 200, Share: 12.625}
	if s.Rows[0].Category != "train" || s.Rows[0].P50 != 100 || s.Rows[0].Share != 1 || s.Rows[1] != want {
		t.Errorf("%+v, want %+v", s.Rows, want)
	}
}
