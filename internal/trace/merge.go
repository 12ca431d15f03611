package trace

import (
	"cmp"
	"slices"
	"time"
)

// Skew is how the clock of a process differs from that of another, as far as the flows between them tell.
type Skew struct {
	Process, Against string
	Offset           time.Duration // what Process's clock is ahead; 0 if not known
	Within           time.Duration // how far Offset may be wrong; negative: not known, since no flows go both ways
	Flows            int           // between them
	Shifted          bool          // a flow would have ended before it began, so the times of Process were moved by -Offset
}

// Merged is what Merge made.
type Merged struct {
	Trace
	Skews     []Skew // one a process but the first, if any flow ends there
	Unmatched int    // flows with one end, which were left out
}

// Merge puts traces on one clock. Each carries its origin by the clock of its machine; where that would let a flow end before it began, the flows
// say how far a clock is off. A process gets another number if an earlier one has its own. The traces are not used again by the caller.
func Merge(traces ...*Trace) *Merged {
	m := &Merged{}
	for i, t := range traces {
		if o := t.Origin; i == 0 || o.Before(m.Origin) {
			m.Origin = o
		}
	}
	for _, t := range traces {
		m.take(t)
	}
	m.align()
	m.match()
	m.Sort()
	m.zero()
	slices.SortStableFunc(m.Processes, func(a, b Process) int { return cmp.Compare(a.ID, b.ID) })
	return m
}

// take adds a trace, its times by this one's origin.
func (m *Merged) take(t *Trace) {
	ids := map[int]int{}
	for _, p := range t.Processes {
		old := p.ID
		for slices.ContainsFunc(m.Processes, func(o Process) bool { return o.ID == p.ID }) {
			p.ID++
		}
		ids[old] = p.ID
		m.Processes = append(m.Processes, p)
	}
	later := t.Origin.Sub(m.Origin)
	m.Events = slices.Grow(m.Events, len(t.Events))
	for _, e := range t.Events {
		e.Process = ids[e.Process]
		e.Time += later
		m.Events = append(m.Events, e)
	}
}

// match leaves flows with one end out.
func (m *Merged) match() {
	m.Events = oneStart(m.Events)
	seen := map[uint64]flow{}
	for i := range m.Events {
		f := seen[m.Events[i].Flow]
		switch m.Events[i].Phase {
		case FlowStart:
			f.starts++
		case FlowEnd:
			f.ends++
		default:
			continue
		}
		seen[m.Events[i].Flow] = f
	}
	for _, f := range seen {
		if f.starts == 0 || f.ends == 0 {
			m.Unmatched++
		}
	}
	m.Events = slices.DeleteFunc(m.Events, func(e Event) bool {
		f := seen[e.Flow]
		return e.flows() && (f.starts == 0 || f.ends == 0)
	})
}

func (e *Event) flows() bool { return e.Phase == FlowStart || e.Phase == FlowEnd }

// oneStart leaves out what begins a flow that has begun: whoever tries again sends the same.
func oneStart(events []Event) []Event {
	begun := map[uint64]bool{}
	return slices.DeleteFunc(events, func(e Event) bool {
		again := e.Phase == FlowStart && begun[e.Flow]
		if e.Phase == FlowStart {
			begun[e.Flow] = true
		}
		return again
	})
}

// zero moves the origin to where nothing is before it: a shift may have.
func (m *Merged) zero() {
	if len(m.Events) == 0 || m.Events[0].Time >= 0 {
		return
	}
	first := m.Events[0].Time
	m.Origin = m.Origin.Add(first)
	for i := range m.Events {
		m.Events[i].Time -= first
	}
}
