package trace

import (
	"cmp"
	"slices"
	"time"
)

// Phase is what an Event is, by the letter of the trace event format.
type Phase byte

// The phases that a Trace has.
const (
	Complete  Phase = 'X' // a span
	Instant   Phase = 'i' // a mark
	Counter   Phase = 'C' // a sample
	FlowStart Phase = 's'
	FlowEnd   Phase = 'f'
)

// Event is something that happened in a process. Times are since the Trace's Origin.
type Event struct {
	Phase    Phase
	Category string
	Name     string
	Process  int
	Thread   int
	Time     time.Duration
	Duration time.Duration // of Complete
	Flow     uint64        // of FlowStart and FlowEnd
	Value    int64         // of Counter
	Bytes    int64         // this and the following: of Complete, see Span
	Step     int64
	Peer     string
	Table    string
}

// End is when the event is over.
func (e *Event) End() time.Duration { return e.Time + e.Duration }

// Thread is a line of the picture.
type Thread struct {
	ID   int
	Name string
}

// Process is what a Trace knows of a process.
type Process struct {
	ID      int
	Name    string
	Threads []Thread      // ascending ID
	Origin  time.Time     // by its own clock, when its recording began
	Shift   time.Duration // what was added to its times, beyond what its clock says, to bring them in line with the first process
	Lost    uint64        // records that did not fit
}

// Trace is what one or several processes recorded.
type Trace struct {
	Origin    time.Time // what times count from
	Processes []Process // ascending ID
	Events    []Event   // in order of Sort
}

// Sort puts events in the order of the file: by time, of those of one moment the longest first.
func (t *Trace) Sort() {
	order := make([]int32, len(t.Events)) // events are large: they are moved once
	for i := range order {
		order[i] = int32(i)
	}
	compare := func(i, j int32) int {
		a, b := &t.Events[i], &t.Events[j]
		if a.Time != b.Time {
			return cmp.Compare(a.Time, b.Time)
		}
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(b.Duration, a.Duration), cmp.Compare(a.Thread, b.Thread), cmp.Compare(i, j))
	}
	if slices.IsSortedFunc(order, compare) {
		return
	}
	slices.SortFunc(order, compare)
	sorted := make([]Event, len(order))
	for i, j := range order {
		sorted[i] = t.Events[j]
	}
	t.Events = sorted
}

// Trace is what has been recorded so far. It may be called while recording goes on.
func (r *Recorder) Trace() *Trace {
	if r == nil {
		return &Trace{}
	}
	records, lost := r.snapshot()
	r.mu.Lock()
	tracks := slices.Clone(r.tracks)
	r.mu.Unlock()
	ordered := make([]*record, len(records))
	for i := range records {
		ordered[i] = &records[i]
	}
	slices.SortFunc(ordered, func(a, b *record) int {
		if a.start != b.start {
			return cmp.Compare(a.start, b.start)
		}
		return cmp.Or(cmp.Compare(b.end, a.end), cmp.Compare(a.track, b.track), cmp.Compare(a.name, b.name), cmp.Compare(a.in, b.in))
	})
	origin := r.origin.Round(0).UTC() // wall clock alone
	p := Process{ID: r.cfg.ID, Name: r.cfg.Process, Origin: origin, Lost: lost}
	n := 0 // events: a record, and one for each end of a flow
	for i := range records {
		if n++; records[i].out != 0 {
			n++
		}
		if records[i].in != 0 {
			n++
		}
	}
	t := &Trace{Origin: origin, Events: make([]Event, 0, n)}
	lines := newLines(tracks)
	for _, rec := range ordered {
		t.add(rec, tracks, lines, p.ID)
	}
	p.Threads = lines.threads()
	lines.number(t.Events)
	t.Events = oneStart(t.Events)
	t.Processes = []Process{p}
	t.Sort()
	return t
}

// flowName is the category and name of both ends of every flow: viewers match these as well as the number.
const flowName = "flow"

// add makes the events of a record.
func (t *Trace) add(rec *record, tracks []*Track, l *lines, process int) {
	if rec.kind == FlowEnd {
		if thread := l.at(rec); thread != none { // else its span is lost
			t.Events = append(t.Events, Event{Phase: FlowEnd, Category: flowName, Name: flowName, Process: process, Thread: thread, Time: rec.start, Flow: rec.in, Step: NoStep})
		}
		return
	}
	track := tracks[rec.track]
	e := Event{
		Phase: rec.kind, Category: track.category, Name: rec.name, Process: process, Thread: l.place(rec),
		Time: rec.start, Duration: rec.end - rec.start, Step: rec.step, Bytes: rec.bytes, Peer: rec.peer, Table: rec.table,
	}
	if rec.kind == Counter {
		e.Value, e.Bytes = rec.bytes, 0
	}
	t.Events = append(t.Events, e)
	flow := func(p Phase, id uint64, at time.Duration) {
		if id != 0 {
			t.Events = append(t.Events, Event{Phase: p, Category: flowName, Name: flowName, Process: process, Thread: e.Thread, Time: at, Flow: id, Step: NoStep})
		}
	}
	flow(FlowStart, rec.out, rec.start)
	flow(FlowEnd, rec.in, max(rec.start, rec.end-1)) // the last moment that is inside
}
