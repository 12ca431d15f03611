package shard

import (
	"context"
	"fmt"
	"sync"
	"time"

	"hcclps/internal/vec"
	"hcclps/ps/wire"
)

const (
	// maxParked bounds the pulls that a session may have waiting here.
	maxParked = 64
	// maxGather bounds the body of an answer.
	maxGather = 128 << 20
)

// need is what a pull waits for: put into words only when someone asks.
type need struct {
	what   string // "" if nothing
	n      uint64
	others bool // it is other workers that keep it waiting, and not this worker's own push
}

func (w need) String() string { return fmt.Sprintf("%s %d", w.what, w.n) }

// readable decides whether the applied state may answer a pull: ready, or
// refused (answer.Status), or it must wait (for what). All zero: only the leader
// may answer. leader is needed under asp alone.
func (s *State) readable(m *wire.Pull, leader bool) (ready bool, wait need, answer wire.Answer) {
	if s.index < m.Index {
		return false, need{what: "entry", n: m.Index}, answer
	}
	j, w := s.jobs[m.Job], (*worker)(nil)
	if m.Worker != "" {
		a := s.session(m.Job, m.Worker, m.Incarnation)
		if a.answer.Status != wire.OK {
			return false, wait, a.answer
		}
		w = a.worker
	}
	if j == nil {
		return false, wait, wire.Answer{Status: wire.Unknown, Detail: fmt.Sprintf("job %q is unknown here: open it first", m.Job)}
	}
	sync := j.Params.Sync
	switch {
	case w != nil && w.Done < m.Own:
		return false, need{what: "own step", n: m.Own - 1}, answer
	case m.Step == wire.Infinity:
		return j.over(), need{"the last step of all after clock", j.Clock, true}, answer
	case sync == wire.BSP && j.Clock > m.Step:
		return false, wait, j.answer(wire.Past, fmt.Sprintf("pull of step %d: the shard's clock is %d", m.Step, j.Clock))
	case sync == wire.BSP:
		return j.Clock == m.Step, need{what: "clock", n: m.Step}, answer
	case sync == wire.SSP && w != nil && w.Done < m.Step:
		return false, need{what: "own step", n: m.Step - 1}, answer
	case sync == wire.SSP:
		lag := min(m.Step, uint64(j.Params.Staleness))
		return j.slowest() >= m.Step-lag, need{"completed steps of all:", m.Step - lag, true}, answer
	}
	return leader, wait, answer
}

// pull answers one pull. Prefetch sends keys early: the pull is parked until
// its clock is there.
func (g *Group) pull(ctx context.Context, m *wire.Pull, bodyLen int, r Request) {
	span := g.tracks.pulls.Begin("pull")
	if span.Peer = m.Worker; m.Step != wire.Infinity {
		span.Step = int64(m.Step)
	}
	defer span.End()
	body, err := g.body(ctx, bodyLen, r)
	if body.kept {
		defer g.memory.Put(body.body)
	}
	if err != nil {
		g.reply(r, wire.Answer{Status: wire.Busy, Detail: fmt.Sprintf("receive keys: %v", err)})
		return
	}
	sections, err := wire.DecodeSections(body.body)
	if err == nil {
		err = g.checkKeys(sections)
	}
	if err != nil {
		g.reply(r, wire.Answer{Status: wire.Refused, Detail: fmt.Sprintf("pull of step %d: %v", m.Step, err)})
		return
	}
	spot := g.parked.enter(m)
	if spot == nil {
		g.reply(r, wire.Answer{Status: wire.Busy, After: 20, Detail: fmt.Sprintf("%d pulls of worker %q wait here", maxParked, m.Worker)})
		return
	}
	defer g.parked.leave(spot)
	if m.Fresh {
		if err := g.fresh.wait(ctx); err != nil {
			g.reply(r, g.elsewhere())
			return
		}
	}
	if err := g.warm(ctx, m.Job, sections); err != nil {
		g.reply(r, wire.Answer{Status: wire.Busy, Detail: fmt.Sprintf("pull of step %d: %v", m.Step, err)})
		return
	}
	patience := time.NewTimer(sayAfter)
	defer patience.Stop()
	for {
		done, changed := g.tryPull(ctx, m, sections, spot, r)
		if done {
			return
		}
		select {
		case <-changed:
		case <-patience.C:
			g.reply(r, wire.Answer{Status: wire.Pending, After: busyAfter, Detail: g.pullWaitsFor(spot)})
			return
		case <-ctx.Done():
			g.reply(r, wire.Answer{Status: wire.Busy, Detail: fmt.Sprintf("pull of step %d: gave up waiting for %s", m.Step, spot.why)})
			return
		}
	}
}

// tryPull answers if it can; otherwise changed is closed when it is worth
// another try.
func (g *Group) tryPull(ctx context.Context, m *wire.Pull, sections []wire.Section, spot *parkedPull, r Request) (done bool, changed <-chan struct{}) {
	leader := g.IsLeader()
	g.mu.RLock()
	if g.ended {
		g.mu.RUnlock()
		g.reply(r, wire.Answer{Status: wire.NotLeader, Detail: "this server is stopping"})
		return true, nil
	}
	ready, wait, a := g.state.readable(m, leader)
	if !ready && a.Status == wire.OK && wait.what != "" {
		changed = g.changed
		g.mu.RUnlock()
		g.parked.wait(spot, wait)
		return false, changed
	}
	if !ready && a.Status == wire.OK {
		g.mu.RUnlock()
		g.reply(r, g.elsewhere())
		return true, nil
	}
	if !spot.parked.IsZero() {
		a.Waited = g.tracks.waited(m.Step, spot.parked, time.Now())
	}
	v := g.views.get()
	defer g.views.free.Put(v)
	if ready {
		waited := a.Waited
		a = g.look(m, sections, v)
		a.Waited = waited
	}
	large := v.size >= viewBytes && !v.spills()
	if large {
		g.views.enter(v)
		defer g.views.leave(v)
	} else {
		v.settle()
	}
	a.Term, a.Index = g.state.Applied()
	fault := g.state.fault()
	g.mu.RUnlock()
	if fault != nil {
		g.log.Fail(fault)
		a = wire.Answer{Status: wire.Busy, Detail: fault.Error()}
	}
	if !leader {
		a.Leader = g.log.Status().Leader // whom to ask next time
	}
	if a.Status == wire.OK {
		g.hand(a, v, large, m.Half, r)
		return true, nil
	}
	if !leader && (a.Status == wire.Unknown || a.Status == wire.Refused) {
		a = g.elsewhere() // a follower may not have heard of it yet
	}
	a.Index = 0 // it did not come from the log
	g.reply(r, g.final(ctx, a))
	return true, nil
}

// hand answers a pull with what v has, in the form asked for; what is large is read where it lies while it is sent.
func (g *Group) hand(a wire.Answer, v *view, large bool, form wire.Half, r Request) {
	switch {
	case large && form != wire.Whole:
		g.said(r.ReplyFrom(wire.AppendAnswer(nil, a), &half{of: v, form: form}))
	case large:
		g.said(r.ReplyFrom(wire.AppendAnswer(nil, a), v))
	case form != wire.Whole:
		values := vec.Floats(v.bytes())
		b := make([]byte, 2*len(values))
		halve(b, values, form)
		g.reply(r, a, b)
	default:
		g.reply(r, a, v.bytes())
	}
}

// look adds the weights of every section to v. State's lock is held for
// reading.
func (g *Group) look(m *wire.Pull, sections []wire.Section, v *view) wire.Answer {
	j := g.state.jobs[m.Job]
	for _, s := range sections {
		t := j.table(s.Table)
		if t == nil {
			v.reset()
			return j.answer(wire.Refused, fmt.Sprintf("pull of step %d: table %d of job %q does not exist here", m.Step, s.Table, m.Job))
		}
		v.add(t.Rows, s.Keys)
	}
	if n := v.size; n > maxGather {
		v.reset()
		return j.answer(wire.Refused, fmt.Sprintf("pull of step %d: %d bytes of weights, at most %d a pull", m.Step, n, maxGather))
	}
	a := j.answer(wire.OK, "")
	if w := j.byName[m.Worker]; w != nil {
		a.Done = w.Done
	}
	return a
}

// parking is the pulls that wait here.
type parking struct {
	mu    sync.Mutex
	pulls map[*parkedPull]struct{}
	count map[parkedSession]int
}

type parkedSession struct{ job, worker string }

type parkedPull struct {
	m      *wire.Pull
	since  time.Time
	why    need
	parked time.Time // since when it waits for other workers; zero: it does not
}

// enter gives a pull a place, or nil when its session has too many.
func (p *parking) enter(m *wire.Pull) *parkedPull {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pulls == nil {
		p.pulls, p.count = map[*parkedPull]struct{}{}, map[parkedSession]int{}
	}
	who := parkedSession{m.Job, m.Worker}
	if p.count[who] >= maxParked {
		return nil
	}
	p.count[who]++
	spot := &parkedPull{m: m, since: time.Now()}
	p.pulls[spot] = struct{}{}
	return spot
}

func (p *parking) wait(spot *parkedPull, why need) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if spot.why = why; why.others && spot.parked.IsZero() {
		spot.parked = time.Now()
	}
}

func (p *parking) leave(spot *parkedPull) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pulls, spot)
	who := parkedSession{spot.m.Job, spot.m.Worker}
	if p.count[who]--; p.count[who] == 0 {
		delete(p.count, who)
	}
}
