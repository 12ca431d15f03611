package trace

import (
	"errors"
	"fmt"
	"time"
)

// maxFaults bounds how many faults Check lists.
const maxFaults = 10

// Check says what is wrong with a trace as a whole, in words, ten things at most: an event before the one before it, of a process or thread that
// is not listed, or longer than time; spans of a thread that overlap without one lying in the other; a flow that begins twice, or that begins or ends
// outside of any span. whole says that all processes are there, as after Merge: then a flow must have both of its ends.
func Check(t *Trace, whole bool) error {
	c := checker{threads: map[threadKey][]Event{}, flows: map[uint64]*flow{}}
	for i := range t.Processes {
		p := &t.Processes[i]
		c.threads[threadKey{p.ID, 0}] = nil
		for _, th := range p.Threads {
			c.threads[threadKey{p.ID, th.ID}] = nil
		}
	}
	var last time.Duration
	for i := range t.Events {
		e := &t.Events[i]
		if e.Time < last {
			c.fault("%v is before the event in front of it", e)
		}
		last = e.Time
		c.event(e)
	}
	if whole {
		for id, f := range c.flows {
			if f.starts == 0 || f.ends == 0 {
				c.fault("flow %d has %d starts and %d ends", id, f.starts, f.ends)
			}
		}
	}
	return errors.Join(c.faults...)
}

// String is what a fault says of an event.
func (e *Event) String() string {
	return fmt.Sprintf("%c %q of process %d, thread %d, at %v", e.Phase, e.Name, e.Process, e.Thread, e.Time)
}

type flow struct{ starts, ends int }

// checker has the spans that are open on each thread, the innermost last.
type checker struct {
	threads map[threadKey][]Event
	flows   map[uint64]*flow
	faults  []error
}

func (c *checker) fault(format string, args ...any) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, fmt.Errorf(format, args...))
	}
}

func (c *checker) event(e *Event) {
	key := threadKey{e.Process, e.Thread}
	open, known := c.threads[key]
	if !known {
		c.fault("%v: no such process and thread is listed", e)
		return
	}
	if e.Time < 0 || e.Duration < 0 || e.End() < e.Time {
		c.fault("%v: it lasts %v", e, e.Duration)
		return
	}
	point := e.Phase != Complete // at the end of a span it is still inside
	for n := len(open); n > 0 && (open[n-1].End() < e.Time || !point && open[n-1].End() == e.Time); n-- {
		open = open[:n-1]
	}
	c.threads[key] = open
	switch e.Phase {
	case Complete:
		if n := len(open); n > 0 && open[n-1].End() < e.End() {
			c.fault("%v lasts until %v, beyond the end at %v of %v, in which it begins", e, e.End(), open[n-1].End(), &open[n-1])
			return
		}
		c.threads[key] = append(open, *e)
	case FlowStart, FlowEnd:
		c.flow(e, len(open) > 0)
	case Instant, Counter:
	}
}

func (c *checker) flow(e *Event, inside bool) {
	f := c.flows[e.Flow]
	if f == nil {
		f = &flow{}
		c.flows[e.Flow] = f
	}
	if e.Phase == FlowStart {
		f.starts++
	} else {
		f.ends++
	}
	if f.starts > 1 {
		c.fault("%v: flow %d begins a second time", e, e.Flow)
	}
	if !inside {
		c.fault("%v: flow %d is outside of any span", e, e.Flow)
	}
}
