package worker

import (
	"sync"
	"sync/atomic"
	"time"

	"hcclps/internal/trace"
)

// phase is what the goroutine that trains does.
type phase uint8

const (
	other    phase = iota // OnStep, and what nobody else is named for
	compute               // the model
	fetching              // waits for a batch
	pulling               // waits for rows
	pushing               // waits for the servers to take a step, or for gradients to be summed
	waiting               // that part of the last two that was for other workers
	evaluate              // with all that belongs to it
	phases
)

// name is that of the phase's spans.
func (ph phase) name() string {
	return [phases]string{"other", "compute", "read", "pull", "push", "wait", "evaluate"}[ph]
}

// Times is where the time of training went, as its own goroutine saw it: what goes on beside it costs nothing until it is waited for.
type Times struct {
	Compute  time.Duration // the model, forward and backward
	Read     time.Duration // waiting for the next batch
	Pull     time.Duration // waiting for rows, but not for other workers
	Push     time.Duration // waiting until a step was taken, but not for other workers
	Wait     time.Duration // waiting for other workers, in pulls and pushes
	Evaluate time.Duration
	Other    time.Duration
}

// Sum is all of it.
func (t Times) Sum() time.Duration {
	return t.Compute + t.Read + t.Pull + t.Push + t.Wait + t.Evaluate + t.Other
}

// Minus is what was spent since an earlier Times.
func (t Times) Minus(o Times) Times {
	return Times{
		Compute: t.Compute - o.Compute, Read: t.Read - o.Read, Pull: t.Pull - o.Pull, Push: t.Push - o.Push,
		Wait: t.Wait - o.Wait, Evaluate: t.Evaluate - o.Evaluate, Other: t.Other - o.Other,
	}
}

// profile is where a client's time goes: always in numbers, and in spans while the recorder is on.
type profile struct {
	rec    *trace.Recorder
	train  *trace.Track // of the goroutine that trains
	data   *trace.Track // of the one that takes batches
	pulls  *trace.Track // of each shard's part of a pull
	pushes *trace.Track // of each part of a push
	marks  *trace.Track // the user's

	spent [phases]atomic.Int64 // nanoseconds
}

func newProfile(rec *trace.Recorder) *profile {
	return &profile{
		rec: rec, train: rec.Track(trace.StepCategory, "train"), data: rec.Track("data", "data"),
		pulls: rec.Lanes("pull", "pull"), pushes: rec.Lanes("push", "push"), marks: rec.Lanes("user", "user"),
	}
}

func (p *profile) times() Times {
	of := func(ph phase) time.Duration { return time.Duration(p.spent[ph].Load()) }
	return Times{of(compute), of(fetching), of(pulling), of(pushing), of(waiting), of(evaluate), of(other)}
}

// Profiler records what this client does, and what else writes to the same recorder, while it is started:
//
//	c.Profiler().Start()
//	...
//	err := c.Profiler().Trace().WriteFile("out.json")
//
// Memory is sampled as well; of a recorder that was given as Config.Trace, whoever made it runs it for that.
func (c *Client) Profiler() *trace.Recorder { return c.prof.rec }

// Mark puts a mark of the user's into the profile.
func (c *Client) Mark(name string) { c.prof.marks.Mark(name) }

// Span puts a span of the user's into the profile, until its End. Few different names are best: they are counted by.
func (c *Client) Span(name string) trace.Span { return c.prof.marks.Begin(name) }

// stopwatch divides the time of one goroutine among phases. A nil one does nothing.
type stopwatch struct {
	p     *profile
	now   phase
	since time.Time
}

// stage is a phase that lasts until leave.
type stage struct {
	w     *stopwatch
	phase phase
	outer phase
	span  trace.Span
	since time.Time
}

// enter begins a phase; the one around it goes on when it is left. All that happens while the model is evaluated belongs to that.
func (w *stopwatch) enter(ph phase, step uint64) stage {
	if w == nil || w.now == evaluate {
		return stage{}
	}
	s := stage{w: w, phase: ph, outer: w.now}
	s.since = w.turn(ph)
	s.span = w.p.train.BeginAt(ph.name(), s.since)
	s.span.Step = int64(step)
	return s
}

// turn changes the phase.
func (w *stopwatch) turn(ph phase) time.Time {
	now := time.Now()
	w.p.spent[w.now].Add(int64(now.Sub(w.since)))
	w.now, w.since = ph, now
	return now
}

// begin begins a span inside of the phase.
func (w *stopwatch) begin(name string) trace.Span {
	if w == nil || w.now == evaluate {
		return trace.Span{}
	}
	return w.p.train.Begin(name)
}

// turn is called with each gradient: the first one is where the model goes from forward to backward.
func (s *Step) turn() {
	if s.half.Name == "forward" {
		s.half.End()
		s.half = s.clock.begin("backward")
	}
}

// leave ends a phase. What of it passed until other workers were there is time of waiting.
func (s *stage) leave(others time.Time) {
	if s.w == nil {
		return
	}
	now := s.w.turn(s.outer)
	s.span.EndAt(now)
	if others.After(now) {
		others = now
	}
	if d := others.Sub(s.since); d > 0 {
		s.w.p.spent[waiting].Add(int64(d))
		s.w.p.spent[s.phase].Add(-int64(d))
		span := s.w.p.train.BeginAt(waiting.name(), s.since)
		span.Step = s.span.Step
		span.EndAt(others)
	}
}

// latest is the latest of some moments, told by several goroutines. A nil one is not told.
type latest struct {
	mu sync.Mutex
	t  time.Time
}

func (l *latest) tell(t time.Time) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.After(l.t) {
		l.t = t
	}
}

func (l *latest) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.t = time.Time{}
}

func (l *latest) time() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.t
}
