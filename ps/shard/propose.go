package shard

import (
	"context"
	"fmt"
	"sync"
	"time"

	"hcclps/internal/trace"
	"hcclps/ps/update"
	"hcclps/ps/wire"
)

const (
	// entrySize is about how many bytes of pushes share a log entry.
	entrySize = 1 << 20
	// flights is how many entries may be proposed and not yet applied.
	flights = 32
	// proposeTimeout bounds the wait for raft to take a proposal.
	proposeTimeout = 10 * time.Second
)

// flight is an entry on its way through the log.
type flight struct {
	future  outcome
	entry   []byte
	batches []batch
	message *request // nil: batches, or a check
	span    trace.Span
}

// want is how many answers the entry has.
func (f *flight) want() int {
	if f.message != nil {
		return 1
	}
	n := 0
	for _, b := range f.batches {
		n += len(b.from)
	}
	return n
}

// lead is the leader's work: one goroutine proposes, one completes in order.
// raftgroup calls it when everything earlier leaders committed is applied.
func (g *Group) lead(ctx context.Context, _ uint64) {
	g.inbox.begin()
	g.takeOver()
	air := make(chan flight, flights)
	var wg sync.WaitGroup
	wg.Go(func() {
		for f := range air {
			g.land(f)
		}
	})
	g.propose(ctx, air)
	close(air)
	wg.Wait()
	g.inbox.end(g.elsewhere())
	g.saving.lead(false)
	g.wake() // pulls that only a leader answers
}

// propose turns what the inbox has into log entries, until ctx ends.
func (g *Group) propose(ctx context.Context, air chan<- flight) {
	p := proposer{g: g, follow: func(f flight) { air <- f }}
	for ctx.Err() == nil {
		some, changed := p.round()
		if some {
			continue
		}
		select {
		case <-g.inbox.ready:
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// round proposes what there is. It says whether there was something, and what to wait for if there was not.
func (p *proposer) round() (some bool, changed <-chan struct{}) {
	g := p.g
	g.mu.RLock()
	changed = g.changed
	messages, batches := g.inbox.collect(g.state, entrySize)
	check, due := g.state.due(p.checked)
	g.mu.RUnlock()
	for _, m := range messages {
		p.send(flight{message: m}, proposal{entry: wire.Entry{Message: m.message}})
	}
	if due && !g.state.cfg.Alone {
		p.checked = check.Index
		p.send(flight{}, proposal{entry: wire.Entry{Check: &check}})
	}
	if len(batches) > 0 {
		p.steps(batches)
	}
	return len(messages)+len(batches) > 0, changed
}

// due is the newest digest, if it is newer than what was checked.
func (s *State) due(checked uint64) (wire.Check, bool) {
	if n := len(s.marks); n > 0 && s.marks[n-1].Index > checked {
		return s.marks[n-1], true
	}
	return wire.Check{}, false
}

// proposer encodes entries. One goroutine uses it at a time.
type proposer struct {
	g       *Group
	follow  func(flight) // sees to the answers of what was proposed
	reducer update.Reducer
	checked uint64
}

// steps logs batches as one entry; an item that is too large on its own is
// refused, since it could never be logged.
func (p *proposer) steps(batches []batch) {
	p.reducer.Reset()
	var next proposal
	good, size := batches[:0], 0
	for _, b := range batches {
		it, sum, err := p.item(b)
		n := itemSize(&it)
		if err == nil && n > p.g.maxEntry {
			err = fmt.Errorf("step %d, part %d of job %q is %d bytes, a log entry at most %d: use more parts a step, or raise --log-budget", b.step, b.part, it.Job, n, p.g.maxEntry)
		}
		if err != nil {
			p.g.inbox.settled(b.from, refuseAll(b, err))
			continue
		}
		if size += n; size > p.g.maxEntry {
			p.send(flight{batches: good}, next)
			next, good, size = proposal{}, nil, n
		}
		next.entry.Steps, next.sums = append(next.entry.Steps, it), append(next.sums, sum)
		good = append(good, b)
	}
	if len(good) > 0 {
		p.send(flight{batches: good}, next)
	}
}

func refuseAll(b batch, err error) []wire.Answer {
	answers := make([]wire.Answer, len(b.from))
	for i := range answers {
		answers[i] = wire.Answer{Status: wire.Refused, Detail: err.Error()}
	}
	return answers
}

// item makes the item of a batch, and what it adds up to: of several contributions it logs the sum or
// the contributions themselves, whichever is smaller; apply makes the same bits
// of both.
func (p *proposer) item(b batch) (wire.Item, []wire.Section, error) {
	it := wire.Item{Job: b.from[0].ref.job, Step: b.step, Part: b.part, Rate: b.rate}
	it.Rates = p.g.rates(it.Job, it.Step)
	bodies := make([][]wire.Section, 0, len(b.from))
	total := 0
	for _, c := range b.from {
		it.Contributors = append(it.Contributors, wire.Contributor{Worker: c.ref.worker, Incarnation: c.ref.incarnation, Rows: c.rows, Cursor: c.cursor})
		it.Payloads = append(it.Payloads, c.body)
		it.Divisor += uint64(c.rows)
		bodies = append(bodies, c.sections)
		total += len(c.body)
	}
	if b.sum {
		it.Divisor = 1
	}
	if len(bodies) == 1 {
		return it, bodies[0], nil
	}
	sum, err := p.reducer.Merge(bodies)
	if err != nil {
		return it, nil, fmt.Errorf("add the contributions to step %d of job %q: %w", b.step, it.Job, err)
	}
	size := 0
	for _, s := range sum {
		size += wire.SectionSize(len(s.Keys), s.Dim)
	}
	if size < total && !p.g.scratch {
		body := make([]byte, 0, size)
		for _, s := range sum {
			body = wire.AppendSection(body, s)
		}
		it.Payloads = [][]byte{body}
	}
	return it, sum, nil
}

// rates asks the schedules of a job's tables for their rates at a step.
func (g *Group) rates(job string, step uint64) []wire.TableRate {
	g.mu.RLock()
	defer g.mu.RUnlock()
	var rates []wire.TableRate
	for _, t := range g.state.jobs[job].Tables {
		if !t.Spec.Schedule.Constant() {
			rates = append(rates, wire.TableRate{Table: t.Spec.ID, Rate: t.Spec.Schedule.At(step)})
		}
	}
	return rates
}

// itemSize is an upper bound of an item's bytes in an entry.
func itemSize(it *wire.Item) int {
	n := 64 + len(it.Job) + 8*len(it.Rates)
	for i := range it.Contributors {
		n += 24 + len(it.Contributors[i].Worker) + len(it.Contributors[i].Cursor)
	}
	for _, p := range it.Payloads {
		n += 16 + len(p)
	}
	return n
}

// send proposes one entry.
func (p *proposer) send(f flight, next proposal) {
	next.size = 64
	if m, ok := next.entry.Message.(*wire.Put); ok {
		next.size += entryHead + len(m.Rows)
	}
	if m, ok := next.entry.Message.(*wire.Restore); ok {
		next.size += entryHead + len(m.Data)
	}
	for i := range next.entry.Steps {
		next.size += itemSize(&next.entry.Steps[i])
	}
	if !p.g.scratch {
		f.span = p.g.tracks.entries.Begin("propose")
		f.span.Bytes = int64(next.size)
	}
	f.future, f.entry = p.g.log.propose(next)
	p.follow(f)
}

// land hands the answers of an applied entry to those who wait.
func (g *Group) land(f flight) {
	err := f.future.Error()
	f.span.End()
	answers, ok := f.future.Response().([]wire.Answer)
	if err == nil {
		g.memory.Put(f.entry) // the log has its copy
	}
	if err != nil || !ok || len(answers) != f.want() {
		a := g.elsewhere()
		a.Detail = fmt.Sprintf("the entry may be lost: %v", err)
		if f.message != nil {
			f.message.resolve(a)
		}
		for _, b := range f.batches {
			for _, c := range b.from {
				g.inbox.drop(c, a)
			}
		}
		return
	}
	if f.message != nil {
		f.message.resolve(answers[0])
		return
	}
	for _, b := range f.batches {
		n := len(b.from)
		g.inbox.settled(b.from, answers[:n])
		answers = answers[n:]
	}
}
