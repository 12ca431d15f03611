package shard

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"hcclps/ps/table"
	"hcclps/ps/wire"
)

// StateConfig is what a State must know that is not in its entries. HashSeed is
// the same on every replica.
type StateConfig struct {
	HashSeed   uint64
	CopyBudget *table.Budget     // nil: one of its own
	Memory     *table.Memory     // of tables; nil: nobody counts
	Cold       func() table.Cold // makes the store of an embedding's rows that are cold; nil: none are
	Alone      bool              // there is no replica to compare with: the digest leaves rows out
	Logger     *slog.Logger      // nil = discard
	Bugs       Bugs
}

// Bugs are faults that the verifier's own tests plant, to show that it finds
// them. Never set them elsewhere.
type Bugs struct {
	DedupeOff           bool // apply a step again when it comes again
	DedupeNotInSnapshot bool // forget in snapshots how far workers are
	NoFence             bool // accept older incarnations
	NoPartsBitmap       bool // forget which parts of a step are in
	LostLogVotes        bool // start with an empty log where the log is lost, and vote
}

// State is the replicated state of a shard. Its methods may be called
// concurrently as long as Apply, Load and Close are called alone; Group
// guards it with an RWMutex.
type State struct {
	cfg     StateConfig
	jobs    map[string]*job
	slots   uint32       // tables ever made here
	writers []string     // names behind the writer number of a row, from 1
	entries uint64       // applied
	index   uint64       // log position of the last one
	term    uint64       //
	digest  digest       // of all of them
	marks   []wire.Check // the digest at every checkEvery-th entry, newest last
	work    workspace
	// uncooled: it was said that rows do not go cold while pages are loaded.
	uncooled bool
}

const (
	checkEvery = 1024
	keepMarks  = 8
	maxName    = 255
	// openEnd is a step that never comes.
	openEnd = wire.Infinity
)

// job is what a shard knows of one job. The exported fields are the snapshot.
type job struct {
	Name    string
	Params  wire.JobParams // World 0: nobody has opened it here yet
	Begun   bool           // every rank was opened at least once
	Clock   uint64         // bsp: steps complete; else the most steps any worker has completed
	Parts   uint64         // bsp: bitmap of the parts of step Clock that are in
	Workers []*worker      // ascending (rank, name)
	Tables  []*tab         // ascending id
	Rates   []rateFrom     // ascending From
	Stop    uint64         // steps from here on are refused
	Held    *wire.Plan     // a plan that waits for release
	Last    planEnd        // the newest plan that was released or dropped
	Applied uint64         // (worker, step) applied
	Loading uint64         `json:",omitzero"` // the load (wire.Put) that has begun here
	Loaded  bool           `json:",omitzero"` // it is complete
	// Restore is what the job came from a checkpoint by, Restored that all of it did.
	Restore  uint64  `json:",omitzero"`
	Restored bool    `json:",omitzero"`
	Cut      *cut    `json:",omitzero"` // a checkpoint that waits for its capture
	Forks    []*fork `json:",omitzero"` // tables on their way into the job, by ascending slot
	Writers  uint16  `json:",omitzero"` // added to the number of a writer in restored rows
	byName   map[string]*worker
}

type rateFrom struct {
	From uint64
	Rate float32
}

// planEnd remembers how the newest plan ended, so that its messages, coming
// again, change nothing.
type planEnd struct {
	ID, T uint64
	Drop  bool
}

type session uint8

const (
	open session = iota
	finished
	expelled
)

func (s session) String() string { return [...]string{"open", "finished", "expelled"}[s] }

type worker struct {
	Name        string
	Rank        uint32
	Incarnation uint64
	Owner       string
	Session     session
	Why         string // expelled: why
	Done        uint64 // steps complete
	From        uint64 // bsp: required from this step on
	Cursor      []byte // data position after step Done-1
	Next        []byte // the cursor of the step in progress, when its closing part is in
	Parts       uint64 // ssp, asp: bitmap of the parts of step Done that are in
	InStep      bool   // bsp: among the contributors that the first part of step Clock fixed
	Term, Index uint64 // where its newest part was applied: the stored answer's position
	Restores    uint64 `json:",omitzero"` // times the job came from a checkpoint since the worker began
	Writer      uint16 // its number in rows it wrote alone, 0: none left
}

// NewState makes the state before the first entry.
func NewState(cfg StateConfig) *State {
	if cfg.CopyBudget == nil {
		cfg.CopyBudget = table.NewBudget(0)
	}
	return &State{cfg: cfg, jobs: map[string]*job{}}
}

// Applied is the log position of the last entry applied.
func (s *State) Applied() (term, index uint64) { return s.term, s.index }

// Digest is a running hash of every row touched and every answer given: equal
// on two States that were fed the same entries. See StateConfig.Alone.
func (s *State) Digest() uint64 { return uint64(s.digest) }

// Close frees the tables.
func (s *State) Close() error {
	var errs []error
	for _, name := range s.names() {
		for _, t := range s.jobs[name].tabs() {
			errs = append(errs, t.Close())
		}
	}
	return errors.Join(errs...)
}

// names lists the jobs in a fixed order.
func (s *State) names() []string {
	names := make([]string, 0, len(s.jobs))
	for n := range s.jobs {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// jobOf finds a job, or makes it.
func (s *State) jobOf(name string) *job {
	j := s.jobs[name]
	if j == nil {
		j = &job{Name: name, Stop: openEnd, byName: map[string]*worker{}}
		s.jobs[name] = j
	}
	return j
}

func (j *job) table(id uint32) *tab {
	i, ok := slices.BinarySearchFunc(j.Tables, id, func(t *tab, id uint32) int { return cmp.Compare(t.Spec.ID, id) })
	if !ok {
		return nil
	}
	return j.Tables[i]
}

// add puts a new worker in its place.
func (j *job) add(w *worker) {
	i, _ := slices.BinarySearchFunc(j.Workers, w, func(a, b *worker) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Name, b.Name))
	})
	j.Workers = slices.Insert(j.Workers, i, w)
	j.byName[w.Name] = w
}

// expects says whether the next part of step Clock waits for w (bsp).
func (j *job) expects(w *worker) bool {
	if j.Parts != 0 {
		return w.InStep
	}
	return j.requires(w)
}

// requires says whether a new step waits for w.
func (j *job) requires(w *worker) bool {
	return w.Session == open && (j.Params.Sync != wire.BSP || w.From <= j.Clock)
}

// slowest is the least number of steps a required worker has completed;
// Infinity if none is required.
func (j *job) slowest() uint64 {
	done := wire.Infinity
	for _, w := range j.Workers {
		if w.Session == open {
			done = min(done, w.Done)
		}
	}
	return done
}

// over says whether every worker has finished (or was expelled).
func (j *job) over() bool { return j.Begun && j.slowest() == wire.Infinity }

// untouched says whether no part of any step was applied.
func (j *job) untouched() bool {
	if j.Clock != 0 || j.Parts != 0 || j.Applied != 0 {
		return false
	}
	return !slices.ContainsFunc(j.Workers, func(w *worker) bool { return w.Parts != 0 })
}

// allParts is the bitmap of a complete step.
func (j *job) allParts() uint64 { return ^uint64(0) >> (wire.MaxParts - j.Params.Parts) }

// rate is what learning rates are multiplied by at a step.
func (j *job) rate(step uint64) float32 {
	rate := float32(1)
	for _, r := range j.Rates {
		if r.From <= step {
			rate = r.Rate
		}
	}
	return rate
}

// String describes a session for an error.
func (w *worker) String() string {
	return fmt.Sprintf("worker %q (rank %d, incarnation %d, %s, %s)", w.Name, w.Rank, w.Incarnation, w.Owner, w.Session)
}

func clean(s string) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) > 4*maxName {
		s = strings.ToValidUTF8(s[:4*maxName], "")
	}
	return s
}
