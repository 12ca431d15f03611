package trace

import "time"

// NoStep is the Step of a span that belongs to none.
const NoStep = -1

// layout is how the spans of a track become lines.
type layout uint8

const (
	nested layout = iota // one inside another
	lanes                // one after another
)

// Track is where spans, marks and samples of one kind go. A nil Track records nothing. It may be used by any number of goroutines, but see Recorder.Track.
type Track struct {
	r        *store
	id       uint32
	category string
	name     string
	layout   layout
}

// Span is a time during which something was done. Its fields may be set until End. The zero Span is good, and records nothing.
type Span struct {
	Name  string
	Bytes int64  // moved or worked on; 0: not said
	Step  int64  // the step of training that it is of, or NoStep
	Peer  string // who is at the other end; "": nobody
	Table string // or tensor; "": none or several
	Out   uint64 // the flow that begins with the span; 0: none
	In    uint64 // the flow that ends with the span; 0: none

	t     *Track
	start time.Duration
	more  []uint64 // flows that end with it, beside In
}

// Begin begins a span now. Name says what is done, in few different words, which are counted by.
func (t *Track) Begin(name string) Span {
	if t == nil || !t.r.on.Load() {
		return Span{}
	}
	return t.BeginAt(name, time.Now())
}

// BeginAt is Begin for what began at a time that is known already.
func (t *Track) BeginAt(name string, at time.Time) Span {
	if t == nil || !t.r.on.Load() {
		return Span{}
	}
	return Span{Name: name, Step: NoStep, t: t, start: t.r.since(at)}
}

// End ends the span now. A second End does nothing.
func (s *Span) End() {
	if s.t != nil {
		s.EndAt(time.Now())
	}
}

// EndAt is End for what ended at a time that is known already.
func (s *Span) EndAt(at time.Time) {
	t := s.t
	if t == nil {
		return
	}
	s.t = nil
	if !t.r.on.Load() {
		return
	}
	for _, id := range s.more {
		last := max(t.r.since(at)-1, s.start)
		t.r.keep(record{kind: FlowEnd, track: t.id, start: last, end: last, in: id})
	}
	t.r.keep(record{
		kind: Complete, track: t.id, name: s.Name, start: s.start, end: max(t.r.since(at), s.start),
		bytes: s.Bytes, step: s.Step, peer: s.Peer, table: s.Table, out: s.Out, in: s.In,
	})
}

// Join says that a flow ends with the span: In, for any number of them.
func (s *Span) Join(flow uint64) {
	switch {
	case s.t == nil:
	case s.In == 0:
		s.In = flow
	default:
		s.more = append(s.more, flow)
	}
}

// Active says whether the span will be recorded: whether it is worth while to find out what its fields are.
func (s *Span) Active() bool { return s.t != nil }

// Mark records a moment.
func (t *Track) Mark(name string) {
	if t == nil || !t.r.on.Load() {
		return
	}
	now := t.r.since(time.Now())
	t.r.keep(record{kind: Instant, track: t.id, name: name, start: now, end: now, step: NoStep})
}

// Sample records a value that changes over time, such as bytes of memory; name is that of the line.
func (t *Track) Sample(name string, value int64) {
	if t == nil || !t.r.on.Load() {
		return
	}
	now := t.r.since(time.Now())
	t.r.keep(record{kind: Counter, track: t.id, name: name, start: now, end: now, bytes: value, step: NoStep})
}

// Key makes a number of words, for FlowID.
func Key(words ...string) uint64 {
	h := uint64(14695981039346656037)
	for _, w := range words {
		for i := range len(w) {
			h = (h ^ uint64(w[i])) * 1099511628211
		}
		h = (h ^ 0x100) * 1099511628211 // no byte: where the word ends
	}
	return h
}

// FlowID makes the number of a flow from what both of its ends know: a word for its kind, then numbers. It is never 0.
func FlowID(kind string, numbers ...uint64) uint64 {
	h := Key(kind) // FNV-1a, then a multiplication and a shift for each number
	for _, n := range numbers {
		h = (h ^ n) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return max(h&(1<<53-1), 1) // what every reader of JSON holds exactly
}
