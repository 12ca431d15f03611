package pstest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// History is what was asked and answered in a run. Moments are counted, not
// measured: the smaller one was earlier, and 0 is never.
type History struct {
	Seed     uint64
	Layout   layout.Layout
	Jobs     []Job
	Opens    []Open
	Pushes   []Push
	Resends  []Resend
	Pulls    []Pull
	Changes  []Change
	Rows     []Rows              // at the end
	Servers  []wire.ServerStatus // at the end, those that are up
	Failures []string            // what no client of a sound cluster sees
}

// Job is one job of a history.
type Job struct {
	Name   string
	Params wire.JobParams
	Tables []wire.Table
}

// Who is one life of a worker: the process that ran from one Connect to the
// next. Lives count from 0.
type Who struct {
	Job    string
	Worker string
	Rank   uint32
	Life   int
}

// Open is a session that was opened.
type Open struct {
	Who
	Call, Return uint64
	Clock        uint64
	Cursor       []byte
	Absent       bool // the worker was away for longer than a lease: it may have been expelled, and have joined again
}

// Outcome is what a caller knows about its request.
type Outcome string

// Outcomes.
const (
	Acked   Outcome = "acked"
	Refused Outcome = "refused" // a definite no, of at least one shard
	Unknown Outcome = "unknown" // a deadline or a lost connection
)

// Gradient is a step's gradient of rows of a table, or rows that were read.
type Gradient struct {
	Table  uint32
	Keys   []uint64
	Values []float32
}

// Push is one try at a step: the parts that it names (all if none) on every
// shard.
type Push struct {
	Who
	Step         uint64
	Rows         uint32
	Call, Return uint64
	Outcome      Outcome
	Status       wire.Status // of a refusal
	Detail       string
	Grads        []Gradient
}

// Resend is one part of a step that was sent to one shard by hand.
type Resend struct {
	Who
	Step         uint64
	Shard, Part  uint32
	Why          string
	Call, Return uint64
	Known        bool // an answer came
	Want         Want
	Answer       wire.Answer
}

// Want is what a resend must be answered, if it is answered.
type Want string

// Wants.
const (
	WantDuplicate Want = "duplicate"  // the stored answer
	WantApplied   Want = "applied"    // it counts, now or before
	WantNonFinite Want = "non-finite" // refused for its values
)

// Pull is one read.
type Pull struct {
	Who
	Step         uint64 // clock of the read; wire.Infinity: after everybody's last step
	First        bool   // nothing was pushed by this life yet: shards may be one step ahead
	Fresh        bool   // linearizable
	Call, Return uint64
	Rows         []Gradient
}

// Change is a plan that was asked for.
type Change struct {
	Who
	Call, Return uint64
	Known        bool // the plan's step is known: the answer came
	Plan         wire.Plan
}

// Rows are all rows of a table.
type Rows struct {
	Job   string
	Table uint32
	Rows  []wire.Row
}

func (w Who) String() string {
	return fmt.Sprintf("worker %s of job %s, life %d", w.Worker, w.Job, w.Life)
}

// String counts what is in the history.
func (h *History) String() string {
	outcomes := map[Outcome]int{}
	for _, p := range h.Pushes {
		outcomes[p.Outcome]++
	}
	duplicates, fresh, known := 0, 0, 0
	for _, r := range h.Resends {
		if r.Known && r.Answer.Duplicate {
			duplicates++
		}
	}
	for _, p := range h.Pulls {
		if p.Fresh {
			fresh++
		}
	}
	for _, c := range h.Changes {
		if c.Known {
			known++
		}
	}
	return fmt.Sprintf("%d opens; pushes: %d acknowledged, %d refused, %d unknown; %d parts by hand, %d duplicates; %d pulls, %d linearizable; %d plans, %d known; %d servers at the end",
		len(h.Opens), outcomes[Acked], outcomes[Refused], outcomes[Unknown], len(h.Resends), duplicates, len(h.Pulls), fresh, len(h.Changes), known, len(h.Servers))
}

// recorder collects a history. Its methods may be called concurrently.
type recorder struct {
	mu  sync.Mutex
	now uint64
	h   History
}

// tick is the next moment.
func (r *recorder) tick() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now++
	return r.now
}

// add edits the history.
func (r *recorder) add(edit func(h *History)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	edit(&r.h)
}

func (r *recorder) fail(format string, args ...any) {
	r.add(func(h *History) { h.Failures = append(h.Failures, fmt.Sprintf(format, args...)) })
}

// historyFile is the name of a history in its folder.
const historyFile = "history.json"

// Save writes the history into a folder.
func (h *History) Save(dir string) error {
	b, err := json.MarshalIndent(h, "", " ")
	if err == nil {
		err = errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, historyFile), b, 0o600))
	}
	if err != nil {
		return fmt.Errorf("save history in %s: %w", dir, err)
	}
	return nil
}

// LoadHistory reads what Save wrote.
func LoadHistory(dir string) (*History, error) {
	b, err := os.ReadFile(filepath.Join(dir, historyFile))
	if err != nil {
		return nil, fmt.Errorf("load history: %w", err)
	}
	h := new(History)
	if err := json.Unmarshal(b, h); err != nil {
		return nil, fmt.Errorf("load history %s: %w", filepath.Join(dir, historyFile), err)
	}
	return h, nil
}
