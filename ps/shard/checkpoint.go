package shard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"hcclps/checkpoint"
	"hcclps/ps/wire"
)

// Folder is where checkpoints are written: a *checkpoint.Store.
type Folder interface {
	Begin(ctx context.Context, spec checkpoint.Spec) (*checkpoint.Writer, error)
}

// saving is the part of a checkpoint that a leader writes; soft state. The
// capture is made where the entry before the cut is applied (Group.cut); a
// goroutine of Run writes it (Group.save).
type saving struct {
	work chan *part

	mu      sync.Mutex
	leading bool
	part    *part           // the newest one
	bases   map[uint64]base // by committed checkpoint, those that the next one of a job may stand on
}

// base is what a committed checkpoint reaches.
type base struct {
	job    string
	epochs map[uint32]uint32 // of its tables, by slot
}

// part is one capture on its way into the folder.
type part struct {
	head  head
	cut   cut
	since map[uint32]uint32 // epochs of the base, by slot; nil: every page
	pages *capture
	total int64

	ended chan struct{} // closed when nothing is written any more

	mu     sync.Mutex
	given  error                   // up: why
	out    bool                    // all pages are written, if not synced
	cancel context.CancelCauseFunc // of the writing, once it has begun
	state  wire.CheckpointPart
	writer *checkpoint.Writer // once it has begun
}

var (
	errDropped = errors.New("the checkpoint is abandoned")
	errSlow    = errors.New("its pages are written so slowly that steps had no room for copies of theirs: is the folder slow?")
)

// dropFor is how long a part that was given up may take to its next page before nobody waits for it any more.
const dropFor = 5 * time.Second

func newSaving() *saving {
	return &saving{work: make(chan *part, 1), bases: map[uint64]base{}}
}

// holds is the checkpoint whose pages are being read, 0: none.
func (s *saving) holds() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.part; p != nil && p.reads() {
		return p.cut.ID
	}
	return 0
}

// reads says whether there are pages to be read.
func (p *part) reads() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.over() && !p.out && p.given == nil
}

// letGo is called when all pages are out: the tables are free, for the next snapshot, while what is written is synced.
func (p *part) letGo() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out = true
	p.pages.Release()
}

func (p *part) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// lead says whether this replica leads. What a deposed leader writes is of no use.
func (s *saving) lead(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leading = yes
	if p := s.part; p != nil && !yes {
		p.giveUp(errors.New("the leader of the group has changed"))
	}
}

// slow gives up the part whose pages are being read, if there is one: steps wait for it.
func (s *saving) slow(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.part; p != nil && p.reads() {
		p.giveUp(why)
	}
}

// forget is called when the tables were replaced: their epochs began anew.
func (s *saving) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.bases)
}

// takeOver begins a leader's soft state: a cut whose moment has come is captured
// now, unless it has passed.
func (g *Group) takeOver() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.saving.lead(true)
	g.cut()
}

// cut captures each job whose moment has come. The caller holds State's lock for
// writing.
func (g *Group) cut() {
	for _, j := range g.state.jobs {
		if j.Cut == nil || !j.atCut() {
			continue
		}
		if err := g.take(j); err != nil {
			g.cfg.Logger.Warn("state not captured", "group", g.cfg.Group, "job", j.Name, "checkpoint", j.Cut.ID, "err", err)
		}
	}
}

// take captures one job, once a cut.
func (g *Group) take(j *job) error {
	s := g.saving
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.part
	if !s.leading || old != nil && old.cut.ID >= j.Cut.ID {
		return nil
	}
	p := &part{cut: *j.Cut, since: s.since(j), ended: make(chan struct{})}
	p.state = wire.CheckpointPart{Group: g.cfg.Group, State: wire.PartWriting}
	s.part = p
	fail := func(err error) error {
		p.fail(err)
		close(p.ended)
		return err
	}
	switch {
	case g.cfg.Folder == nil:
		return fail(errors.New("this server has no folder for checkpoints: start it with --checkpoint-dir"))
	case old != nil && !old.over():
		return fail(fmt.Errorf("checkpoint %d is being written", old.cut.ID))
	case j.beyond():
		return fail(fmt.Errorf("the leader of the group has changed, and steps after %d are applied", j.Cut.T))
	}
	if g.shot != nil {
		g.shot.Release() // a capture is the only one of its table; the snapshot is taken later
		g.shot = nil
	}
	var err error
	if p.pages, err = g.state.captureJob(j, g.mu.RLocker()); err != nil {
		return fail(err)
	}
	p.head, p.total = g.state.headOf(j), j.bytes()
	p.state.Total = p.total
	s.work <- p // there is room: the one before is over
	return nil
}

// since is what the checkpoint that a job's next one stands on reaches; nil: that is not known here.
func (s *saving) since(j *job) map[uint32]uint32 {
	if b := s.bases[j.Cut.Base]; b.job == j.Name {
		return b.epochs
	}
	return nil
}

// captureJob is capture of one job's tables.
func (s *State) captureJob(j *job, lock sync.Locker) (*capture, error) {
	c := &capture{lock: lock}
	for _, t := range j.stores() {
		pages := t.rows.Capture()
		if pages == nil {
			c.Release()
			return nil, fmt.Errorf("capture table %d of job %q: a snapshot is being written", t.id, j.Name)
		}
		c.tables = append(c.tables, captured{slot: t.slot, id: t.id, pages: pages})
	}
	return c, nil
}

// bytes is about what the pages of a job's tables come to.
func (j *job) bytes() (n int64) {
	for _, t := range j.stores() {
		n += t.rows.Stats().Rows * int64(t.rows.Spec().Stride())
	}
	return n
}

// begin begins the writing, unless the part was given up before.
func (p *part) begin(ctx context.Context) (context.Context, context.CancelCauseFunc, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancel = cancel
	if p.given != nil {
		cancel(p.given)
	}
	return ctx, cancel, p.given
}

// giveUp ends the writing at the next page. The tables are free at once: snapshots go on also if the folder hangs.
func (p *part) giveUp(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.given = cmp.Or(p.given, why); p.cancel != nil {
		p.cancel(why)
	}
	if p.pages != nil {
		p.pages.Release()
	}
}

func (p *part) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.State, p.state.Why = wire.PartFailed, clean(err.Error())
}

func (p *part) progress(done checkpoint.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Pages, p.state.Bytes, p.state.New = done.Pages, done.Bytes, done.New
}

// finish says that a part is done.
func (p *part) finish(made checkpoint.Part) error {
	b, err := json.Marshal(p.head.result(made))
	if err != nil {
		return fmt.Errorf("encode what was written: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.given != nil {
		return p.given
	}
	p.state.State, p.state.Result = wire.PartDone, b
	return nil
}

// leads says whether captures are made here: a new leader begins a moment after it may answer.
func (s *saving) leads() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leading
}

func (s *saving) find(id uint64) *part {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.part; p != nil && p.cut.ID == id {
		return p
	}
	return nil
}

// keep remembers what a committed checkpoint reaches, and what the one before it did of that job.
func (s *saving) keep(p *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, b := range s.bases {
		if b.job == p.head.Job.Name && id != p.cut.Base {
			delete(s.bases, id)
		}
	}
	epochs := map[uint32]uint32{}
	for _, t := range p.pages.tables {
		epochs[t.slot] = t.pages.Epoch()
	}
	s.bases[p.cut.ID] = base{job: p.head.Job.Name, epochs: epochs}
}
