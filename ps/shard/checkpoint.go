package shard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"hcclps/checkpoint"
	"hcclps/ps/raftgroup"
	"hcclps/ps/table"
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
	cancel context.CancelCauseFunc // of the writing, once it has begun
	state  wire.CheckpointPart
	writer *checkpoint.Writer // once it has begun
}

var errDropped = errors.New("the checkpoint is abandoned")

// dropFor is how long a part that was given up may take to its next page before nobody waits for it any more.
const dropFor = 5 * time.Second

func newSaving() *saving {
	return &saving{work: make(chan *part, 1), bases: map[uint64]base{}}
}

// holds is the checkpoint whose pages are being read, 0: none.
func (s *saving) holds() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.part; p != nil && !p.over() && !p.isGivenUp() {
		return p.cut.ID
	}
	return 0
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

// save writes parts, one after the other, until ctx ends.
func (g *Group) save(ctx context.Context) {
	var before *part
	for {
		select {
		case p := <-g.saving.work:
			if before != nil {
				g.clear(before) // the meta group is past it
			}
			before = p
			g.write(ctx, p)
		case <-ctx.Done():
			g.leave()
			return
		}
	}
}

// leave gives up a part that is captured and not begun.
func (g *Group) leave() {
	select {
	case p := <-g.saving.work:
		p.fail(errors.New("the server is stopping"))
		p.pages.Release()
		close(p.ended)
	default:
	}
}

// clear takes back what is left of a part.
func (g *Group) clear(p *part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writer == nil {
		return
	}
	if err := p.writer.Cancel(); err != nil {
		g.cfg.Logger.Warn("files of a checkpoint not removed", "group", g.cfg.Group, "checkpoint", p.cut.ID, "err", err)
	}
	p.writer = nil
}

// write brings a part into the folder. A part that is not done is taken back;
// one that is may be committed any moment.
func (g *Group) write(ctx context.Context, p *part) {
	defer close(p.ended)
	defer p.pages.Release()
	began := time.Now()
	inner, cancel, err := p.begin(ctx)
	defer cancel(nil)
	if err == nil {
		err = g.writePart(inner, p)
	}
	if err != nil {
		p.fail(cmp.Or(context.Cause(inner), err))
		if !errors.Is(context.Cause(ctx), raftgroup.ErrCrash) {
			g.clear(p)
		}
		g.cfg.Logger.Warn("part of a checkpoint not written", "group", g.cfg.Group, "job", p.head.Job.Name, "checkpoint", p.cut.ID, "err", err)
		return
	}
	g.cfg.Logger.Info("part of a checkpoint written", "group", g.cfg.Group, "job", p.head.Job.Name, "checkpoint", p.cut.ID,
		"step", p.head.Job.Clock, "bytes", p.state.Bytes, "new", p.state.New, "took", time.Since(began))
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

func (p *part) isGivenUp() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.given != nil
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

func (g *Group) writePart(ctx context.Context, p *part) error {
	l := g.cfg.Layout()
	w, err := g.cfg.Folder.Begin(ctx, checkpoint.Spec{
		ID: p.cut.ID, Job: p.head.Job.Name, Group: g.cfg.Group, Shards: len(l.Shards), HashSeed: l.HashSeed,
		Tables: p.head.tables(), Base: p.cut.Base, Progress: p.progress,
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.writer = w
	p.mu.Unlock()
	pace := pace{rate: g.cfg.Rate, hurry: g.hurries}
	for _, t := range p.pages.tables {
		from, known := p.since[t.slot]
		err := t.pages.Pages(!known, from, func(id table.PageID, data []byte) error {
			at := checkpoint.PageID{Table: t.id, Partition: id.Partition, Page: id.Page}
			if len(data) <= 2 { // its rows are gone
				return w.Drop(at)
			}
			if err := pace.wait(ctx, len(data)); err != nil {
				return err
			}
			return w.WritePage(ctx, checkpoint.Page{PageID: at, Data: data})
		}, p.pages.lock)
		if err != nil {
			return err
		}
	}
	if p.since == nil {
		if err := w.DropRest(); err != nil {
			return err
		}
	}
	b, err := json.Marshal(p.head)
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	if err := w.WriteBlob(ctx, HeadBlob, bytes.NewReader(b)); err != nil {
		return err
	}
	made, err := w.Finish(ctx)
	if err != nil {
		return err
	}
	return p.finish(made)
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

// hurries says that a snapshot is due, which waits for the pages: they are read as fast as they can be.
func (g *Group) hurries() bool {
	if g.scratch {
		return false
	}
	used, budget := g.cfg.Log.Bytes()
	return used > budget/2
}

// checkpoint answers how far this shard's part is, or ends it.
func (g *Group) checkpoint(ctx context.Context, m *wire.Checkpoint) (wire.Answer, []byte) {
	if m.Do == wire.CheckpointGo {
		return g.submit(ctx, m), nil
	}
	if !g.IsLeader() {
		return g.elsewhere(), nil
	}
	p, waits := g.partOf(m)
	switch {
	case p == nil && m.Do != wire.CheckpointReport:
		return wire.Answer{}, nil
	case p == nil && waits:
		return g.reported(m.Job, wire.CheckpointPart{Group: g.cfg.Group, State: wire.PartWaiting})
	case p == nil:
		return g.reported(m.Job, wire.CheckpointPart{Group: g.cfg.Group, State: wire.PartFailed, Why: "the leader of the group has changed"})
	case m.Do != wire.CheckpointReport:
		return g.close(ctx, p, m.Do), nil
	}
	p.mu.Lock()
	state := p.state
	p.mu.Unlock()
	return g.reported(m.Job, state)
}

// close ends a part, committed or abandoned.
func (g *Group) close(ctx context.Context, p *part, do wire.CheckpointDo) wire.Answer {
	if do == wire.CheckpointDrop {
		p.giveUp(errDropped)
		wait, cancel := context.WithTimeout(ctx, dropFor)
		defer cancel()
		ctx = wait
	}
	select {
	case <-p.ended:
	case <-ctx.Done():
		if do == wire.CheckpointDrop {
			return wire.Answer{} // the folder hangs; write takes it back once that has an end
		}
		return wire.Answer{Status: wire.Busy, Detail: "the part is still being written"}
	}
	if do == wire.CheckpointKeep {
		g.saving.keep(p)
	}
	g.clear(p)
	return wire.Answer{}
}

// partOf is this shard's part of a checkpoint, nil if there is none; then waits says whether its moment is still to come, which this
// replica would capture. One lock for both: a capture may be made between two looks.
func (g *Group) partOf(m *wire.Checkpoint) (p *part, waits bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if p = g.saving.find(m.ID); p != nil {
		return p, false
	}
	j := g.state.jobs[m.Job]
	return nil, j != nil && j.Cut != nil && j.Cut.ID == m.ID && (!j.atCut() || !g.saving.leads())
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

func (g *Group) reported(job string, state wire.CheckpointPart) (wire.Answer, []byte) {
	b, err := json.Marshal(state)
	if err != nil {
		return wire.Answer{Status: wire.Refused, Detail: err.Error()}, nil
	}
	a := wire.Answer{}
	g.mu.RLock()
	defer g.mu.RUnlock()
	if j := g.state.jobs[job]; j != nil {
		a.Clock, a.Done = j.Clock, j.Applied
	}
	return a, b
}
