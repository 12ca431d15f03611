package shard

import (
	"fmt"
	"time"

	"hcclps/internal/trace"
	"hcclps/ps/wire"
)

// tracks are the lines of a group in a profile.
type tracks struct {
	pushes  *trace.Track // of pushes, from their arrival to the answer
	pulls   *trace.Track // of pulls, the same
	waits   *trace.Track // of either, for other workers
	entries *trace.Track // of entries, from their proposal to their answers
	applies *trace.Track // of entries that are applied
}

func newTracks(rec *trace.Recorder, group uint32) tracks {
	name := func(what string) string { return fmt.Sprintf("shard %d %s", group-1, what) }
	return tracks{
		pushes: rec.Lanes("server", name("push")), pulls: rec.Lanes("server", name("pull")), waits: rec.Lanes("server", name("wait")),
		entries: rec.Lanes("server", name("propose")), applies: rec.Track("server", name("apply")),
	}
}

// waited records a wait for other workers, and returns its microseconds for an Answer.
func (t *tracks) waited(step uint64, from, to time.Time) uint32 {
	d := to.Sub(from)
	if d <= 0 {
		return 0
	}
	s := t.waits.BeginAt("wait", from)
	s.Step = int64(step)
	s.EndAt(to)
	return uint32(min(d.Microseconds(), 1<<32-1))
}

// answering begins the span of a push. It ties itself to the worker's span, whose end it makes possible.
func (g *Group) answering(m *wire.Push, n int) trace.Span {
	s := g.tracks.pushes.Begin("push")
	if s.Active() {
		s.Peer, s.Step, s.Bytes = m.Worker, int64(m.Step), int64(n)
		s.Out = g.flow("answer", m.Job, m.Worker, m.Incarnation, m.Step, m.Part)
	}
	return s
}

// applying begins the span of an entry. At the leader the pushes in it lead there.
func (g *Group) applying(p *prepared) trace.Span {
	s := g.tracks.applies.Begin("apply")
	if !s.Active() {
		return s
	}
	leads := g.IsLeader()
	for i := range p.entry.Steps {
		it := &p.entry.Steps[i]
		s.Step = int64(it.Step)
		for _, payload := range it.Payloads {
			s.Bytes += int64(len(payload))
		}
		for j := range it.Contributors {
			if c := &it.Contributors[j]; leads {
				s.Join(g.flow("push", it.Job, c.Worker, c.Incarnation, it.Step, it.Part))
			}
		}
	}
	return s
}

// flow numbers a flow of a part of a push, as the worker that sends it does.
func (g *Group) flow(kind, job, worker string, incarnation, step uint64, part uint32) uint64 {
	return trace.FlowID(kind, trace.Key(job, worker), incarnation, step, uint64(part), uint64(g.cfg.Group))
}
