package meta

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"hcclps/ps/wire"
)

// errDeposed is the error of what was under way when leadership was lost.
var errDeposed = errors.New("no longer the leader of the meta group")

// leader is what a replica knows and does while it leads. All of it is soft: a
// new leader starts with full leases and finishes the plans in flight.
type leader struct {
	g      *Group
	log    *slog.Logger
	tasks  chan task       // to the loop of lead
	over   <-chan struct{} // closed when leadership is
	mu     sync.Mutex      // guards what follows
	lanes  map[string]chan struct{}
	leases map[string]map[string]*lease // by job and worker
	flying map[string]*progress         // by job
	saver  *saver                       // the checkpoint under way
}

// task is work of the leader: a plan on its way, as a rule. Its context is the
// time of leadership, since a plan outlives the request that asked for it.
type task func(ctx context.Context)

// lease is the right of a session to be waited for.
type lease struct {
	incarnation uint64
	until       time.Time // monotonic
	expelling   bool
}

// lead is the leader's work: raftgroup calls it after the barrier. It owns the
// goroutines of all tasks.
func (g *Group) lead(ctx context.Context, term uint64) {
	l := &leader{
		g: g, log: g.cfg.Logger.With("group", 0, "term", term), tasks: make(chan task), over: ctx.Done(),
		lanes: map[string]chan struct{}{}, leases: map[string]map[string]*lease{}, flying: map[string]*progress{},
	}
	if err := l.form(ctx); err != nil {
		return // deposed already
	}
	var work sync.WaitGroup
	defer work.Wait()
	start := func(t task) { work.Go(func() { t(ctx) }) }
	l.resume(start)
	g.leader.Store(l)
	defer g.leader.Store(nil)
	start(l.schedule)
	l.loop(ctx, start)
}

// loop watches leases and starts the tasks of requests until leadership ends.
func (l *leader) loop(ctx context.Context, start func(task)) {
	l.cover()
	tick := time.NewTicker(min(max(l.g.cfg.Lease/10, 10*time.Millisecond), time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-l.tasks:
			start(t)
		case <-tick.C:
			l.cover()
			for _, ref := range l.expired() {
				start(func(ctx context.Context) { l.expire(ctx, ref) })
			}
		}
	}
}

// spawn has the loop start a task; false when leadership is over.
func (l *leader) spawn(t task) bool {
	select {
	case l.tasks <- t:
		return true
	case <-l.over:
		return false
	}
}

// form records the layout the cluster was formed with.
func (l *leader) form(ctx context.Context) error {
	want, have := l.g.cfg.Layout(), uint64(0)
	l.g.read(func(s *state) { have = s.Layout.Epoch })
	if have >= want.Epoch {
		return nil
	}
	r, err := l.commit(ctx, kindLayout, want)
	if err == nil && r.Answer.Status != wire.OK {
		l.log.Error("layout refused by the meta group's own state", "detail", r.Answer.Detail)
	}
	return err
}

// commit proposes an entry of the leader's own until it is committed or
// leadership is lost (errDeposed).
func (l *leader) commit(ctx context.Context, kind string, body any) (result, error) {
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		r, err := l.g.propose(ctx, kind, body)
		switch {
		case err == nil:
			return r, nil
		case ctx.Err() != nil || failed(err).Status == wire.NotLeader:
			return r, errDeposed
		case failed(err).Status != wire.Busy:
			return r, err
		}
		l.log.Warn("entry not committed; trying on", "kind", kind, "err", err)
		if !sleep(ctx, pause) {
			return r, errDeposed
		}
	}
}

// lane is a job's: whoever holds it may change who takes part, or have a plan in flight.
func (l *leader) lane(job string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lanes[job] == nil {
		l.lanes[job] = make(chan struct{}, 1)
	}
	return l.lanes[job]
}

// enter takes a job's lane; the function it returns leaves it.
func (l *leader) enter(ctx context.Context, job string) (leave func(), err error) {
	lane := l.lane(job)
	select {
	case lane <- struct{}{}:
		return func() { <-lane }, nil
	case <-l.over:
		return nil, errDeposed
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a plan of job %q that is in flight: %w", job, context.Cause(ctx))
	}
}

// open gives a worker its next incarnation and, when it had been expelled, a plan that lets it in again.
func (l *leader) open(ctx context.Context, r wire.OpenRequest) (result, error) {
	if l.beginning() {
		return result{Answer: refuse(wire.Pending, "the cluster begins with the checkpoint %s, which is being restored: again soon", l.g.cfg.Restores)}, nil
	}
	leave, err := l.enter(ctx, r.Job)
	if err != nil {
		return result{}, err
	}
	res, err := l.g.propose(ctx, kindOpen, r)
	if err != nil || res.Answer.Status != wire.OK {
		leave()
		return res, err
	}
	reply, ok := res.Reply.(wire.OpenReply)
	if !ok {
		leave()
		return result{}, fmt.Errorf("open worker %q: reply is a %T", r.Worker, res.Reply)
	}
	reply.Lease = l.g.cfg.Lease
	ref := wire.SessionRef{Job: r.Job, Worker: r.Worker, Incarnation: reply.Incarnation}
	l.grant(ref)
	l.log.Info("session opened", "job", r.Job, "worker", r.Worker, "rank", r.Rank, "owner", reply.Owner)
	if !l.expelled(ref) {
		leave()
		return result{Reply: reply}, nil
	}
	plan, err := l.fly(ctx, r.Job, leave, wire.Plan{Kind: wire.PlanJoin, Join: wire.Fence{
		Target: wire.Target{Job: r.Job, Worker: r.Worker, Incarnation: reply.Incarnation},
		Params: reply.Params, Rank: r.Rank, Owner: reply.Owner,
	}})
	if err != nil {
		return result{}, err
	}
	reply.Rejoin = &plan.T
	return result{Reply: reply}, nil
}

func (l *leader) expelled(ref wire.SessionRef) (out bool) {
	l.g.read(func(s *state) {
		if j := s.Jobs[ref.Job]; j != nil {
			w := j.worker(ref.Worker)
			out = w != nil && w.State == sessionExpelled
		}
	})
	return out
}

// check answers whether a session is live.
func (l *leader) check(ref wire.SessionRef) (a wire.Answer) {
	l.g.read(func(s *state) { _, _, a = s.session(ref) })
	return a
}

// renew renews a lease.
func (l *leader) renew(_ context.Context, r wire.RenewRequest) (result, error) {
	a := l.check(r.SessionRef)
	if a.Status == wire.OK {
		l.grant(r.SessionRef)
	}
	return result{Answer: a}, nil
}

// close ends a session: after its last step it is only noted, before it the worker leaves by a plan.
func (l *leader) close(ctx context.Context, r wire.CloseRequest) (result, error) {
	if a := l.check(r.SessionRef); a.Status != wire.OK {
		return result{Answer: a}, nil
	}
	if r.Finished {
		res, err := l.g.propose(ctx, kindFinish, r.SessionRef)
		if err == nil {
			l.revoke(r.SessionRef)
		}
		return res, err
	}
	if l.alone(r.Job, r.Worker) {
		l.revoke(r.SessionRef)
		return result{}, nil
	}
	_, err := l.change(ctx, r.Job, expel(r.SessionRef, "it left"))
	return result{}, err
}

func expel(ref wire.SessionRef, why string) wire.Plan {
	return wire.Plan{Kind: wire.PlanExpel, Worker: ref.Worker, Incarnation: ref.Incarnation, Why: why}
}

// table creates a table, or finds it.
func (l *leader) table(ctx context.Context, r wire.TableRequest) (result, error) {
	if a := l.check(r.SessionRef); a.Status != wire.OK {
		return result{Answer: a}, nil
	}
	p, err := l.change(ctx, r.Job, wire.Plan{Kind: wire.PlanTable, Table: r.Table})
	return result{Reply: p.Table}, err
}

// claim gives out a range of batches.
func (l *leader) claim(ctx context.Context, r wire.ClaimRequest) (result, error) {
	return l.g.propose(ctx, kindClaim, r)
}

// note reads or replaces the note of a job.
func (l *leader) note(ctx context.Context, r wire.NoteRequest) (result, error) {
	return l.g.propose(ctx, kindNote, r)
}

// plan changes the learning rate, stops the job, keeps its state, or adds a forked table, at one step.
func (l *leader) plan(ctx context.Context, r wire.PlanRequest) (result, error) {
	operator := (r.Plan.Kind == wire.PlanCheckpoint || r.Plan.Kind == wire.PlanFork) && r.Worker == ""
	if a := l.check(r.SessionRef); a.Status != wire.OK && !operator {
		return result{Answer: a}, nil
	}
	switch k := r.Plan.Kind; {
	case k == wire.PlanExpel && r.Plan.Worker != r.Worker: // who sums gradients with it knows before its lease ends
		l.log.Warn("a worker is expelled by another", "job", r.Job, "worker", r.Plan.Worker, "by", r.Worker, "why", r.Plan.Why)
	case k != wire.PlanRate && k != wire.PlanStop && k != wire.PlanCheckpoint && k != wire.PlanFork:
		return result{Answer: refuse(wire.Refused, "plan kind %d cannot be asked for: want a rate, a stop, a checkpoint, a fork or that another worker is expelled", k)}, nil
	}
	p, err := l.change(ctx, r.Job, r.Plan)
	return result{Reply: p}, err
}
