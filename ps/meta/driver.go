package meta

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// The driver carries one plan through its stages: all shards hold it, or it is
// dropped and tried with a later step; then it is in force, and released on all.
// Every message and entry may be repeated, so a new leader goes on from the
// stage it finds in the log.

const (
	margin    = 2 // a plan takes effect this many steps ahead; doubled when that was too late
	maxMargin = 1 << 12
	tryFor    = 10 * time.Second // bound of one message to a shard; a shard without leader is asked on
	pauseMin  = 20 * time.Millisecond
	pauseMax  = 500 * time.Millisecond
)

// errLate says that a shard was past the plan's step already.
var errLate = errors.New("a shard is past the plan's step")

// progress is what status shows of a plan under way.
type progress struct {
	mu    sync.Mutex
	what  string
	since time.Time
	on    []uint32 // groups that have not answered yet
}

// change makes one plan and waits until it is in force everywhere. The answer is
// the plan as it came into force; its id is 0 when nothing had to be changed.
func (l *leader) change(ctx context.Context, job string, p wire.Plan) (wire.Plan, error) {
	leave, err := l.enter(ctx, job)
	if err != nil {
		return p, err
	}
	return l.fly(ctx, job, leave, p)
}

// fly drives a plan whose lane the caller has entered; it leaves the lane when
// the plan is over, which may be after ctx has ended.
func (l *leader) fly(ctx context.Context, job string, leave func(), p wire.Plan) (wire.Plan, error) {
	type outcome struct {
		plan wire.Plan
		err  error
	}
	over := make(chan outcome, 1)
	if !l.spawn(func(ctx context.Context) {
		defer leave()
		got, err := l.drive(ctx, job, p)
		over <- outcome{got, err}
	}) {
		leave()
		return p, errDeposed
	}
	select {
	case o := <-over:
		return o.plan, o.err
	case <-ctx.Done():
		return p, fmt.Errorf("wait for a plan of job %q: %w", job, context.Cause(ctx))
	}
}

// drive takes a new plan from the probe to its end.
func (l *leader) drive(ctx context.Context, job string, p wire.Plan) (wire.Plan, error) {
	for ahead := uint64(margin); ; ahead = min(2*ahead, maxMargin) {
		clock, err := l.probe(ctx, job)
		if err != nil {
			return p, err
		}
		e := planEntry{Job: job, Plan: p}
		e.Plan.T = l.stepOf(job, p, clock, ahead)
		if p.Kind == wire.PlanCheckpoint {
			if e.Plan.Base, e.Above, err = l.foundation(ctx, job); err != nil {
				return p, err
			}
		}
		res, err := l.commit(ctx, kindPlan, e)
		if err != nil {
			return p, err
		}
		if res.Answer.Status != wire.OK {
			return p, refused{res.Answer}
		}
		got, ok := res.Reply.(wire.Plan)
		if !ok || got.ID == 0 {
			return got, nil
		}
		if err = l.carry(ctx, job, got); !errors.Is(err, errLate) {
			return got, err
		}
		l.log.Debug("plan was late", "job", job, "plan", got.ID, "step", got.T)
	}
}

// stepOf is the step at which a plan takes effect, when some shard has completed clock steps.
func (l *leader) stepOf(job string, p wire.Plan, clock, ahead uint64) uint64 {
	switch {
	case p.Kind == wire.PlanCheckpoint && !l.bsp(job):
		return 0 // each worker has its own
	case p.Kind == wire.PlanCheckpoint && p.Every > 1:
		return (clock + ahead + p.Every - 1) / p.Every * p.Every
	case p.Kind != wire.PlanCheckpoint && clock == 0 && ahead == margin:
		return 0 // nothing has begun
	default:
		return clock + ahead
	}
}

func (l *leader) bsp(job string) (yes bool) {
	l.g.read(func(s *state) {
		j := s.Jobs[job]
		yes = j == nil || j.Params.Sync == wire.BSP
	})
	return yes
}

// resume finishes the plans that the leader before left in flight.
func (l *leader) resume(start func(task)) {
	flights := map[string]flight{}
	l.g.read(func(s *state) {
		for name, j := range s.Jobs {
			if j.Plan != nil {
				flights[name] = *j.Plan
			}
		}
	})
	for job, f := range flights {
		lane := l.lane(job)
		lane <- struct{}{} // nobody else has it: requests are not served yet
		start(func(ctx context.Context) {
			defer func() { <-lane }()
			var err error
			if f.Stage == holding {
				err = l.carry(ctx, job, f.Plan)
			} else {
				err = l.land(ctx, job, f.Plan, f.Stage)
			}
			l.log.Info("plan of an earlier leader finished", "job", job, "plan", f.Plan.ID, "stage", f.Stage, "err", err)
			l.inherit(ctx, job)
		})
	}
	l.orphan(start, flights)
}

// carry has every shard hold a plan and puts it in force, or drops it.
func (l *leader) carry(ctx context.Context, job string, p wire.Plan) error {
	answers, err := l.all(ctx, job, "hold", p, func(group uint32) wire.Message { return &wire.Hold{Group: group, Job: job, Plan: p} })
	stage := releasing
	switch {
	case ctx.Err() != nil:
		return errDeposed // the next leader goes on
	case err != nil:
		stage = dropping
	}
	if p.Kind == wire.PlanCheckpoint && stage == releasing {
		if p.Cuts, err = agreed(answers); err != nil {
			stage = dropping
		}
	}
	if serr := l.move(ctx, job, p, stage, least(answers).Cursor); serr != nil {
		return serr
	}
	if serr := l.land(ctx, job, p, stage); serr != nil {
		return serr
	}
	if err == nil {
		l.log.Info("plan in force", "job", job, "plan", p.ID, "kind", p.Kind, "step", p.T)
	}
	if err == nil && p.Kind == wire.PlanCheckpoint {
		l.spawn(func(ctx context.Context) { l.save(ctx, job, p) })
	}
	return err
}

// agreed is up to where each worker goes before its state is kept: the steps it
// has begun on any shard.
func agreed(answers []wire.Answer) ([]wire.Cut, error) {
	at := map[string]uint64{}
	for _, a := range answers {
		if len(a.Cursor) == 0 {
			continue // bsp
		}
		cuts, err := wire.DecodeCuts(a.Cursor)
		if err != nil {
			return nil, fmt.Errorf("positions of workers: %w", err)
		}
		for _, c := range cuts {
			at[c.Worker] = max(at[c.Worker], c.Step)
		}
	}
	var out []wire.Cut
	for _, name := range slices.Sorted(maps.Keys(at)) {
		out = append(out, wire.Cut{Worker: name, Step: at[name]})
	}
	return out, nil
}

// land tells every shard what became of the plan and ends its flight.
func (l *leader) land(ctx context.Context, job string, p wire.Plan, stage stage) error {
	_, err := l.all(ctx, job, "release", p, func(group uint32) wire.Message {
		return &wire.Release{Group: group, Job: job, Plan: p.ID, Drop: stage == dropping, Cuts: p.Cuts}
	})
	if err != nil {
		return err
	}
	return l.move(ctx, job, p, done, nil)
}

// move commits a stage.
func (l *leader) move(ctx context.Context, job string, p wire.Plan, stage stage, cursor []byte) error {
	e := stageEntry{Job: job, ID: p.ID, Stage: stage, Cuts: p.Cuts}
	if p.Kind == wire.PlanExpel {
		e.Cursor = cursor
	}
	_, err := l.commit(ctx, kindStage, e)
	return err
}

// least is the answer of the shard that has completed the fewest steps.
func least(answers []wire.Answer) wire.Answer {
	return slices.MinFunc(answers, func(a, b wire.Answer) int { return cmp.Compare(a.Done, b.Done) })
}

// probe asks every shard how far the job is; the answer is the highest clock.
func (l *leader) probe(ctx context.Context, job string) (uint64, error) {
	var mu sync.Mutex
	var clock uint64
	tasks, ctx := errgroup.WithContext(ctx)
	for _, group := range l.groups() {
		tasks.Go(func() error {
			a, err := l.ask(ctx, group, &wire.Probe{Group: group, Job: job})
			mu.Lock()
			defer mu.Unlock()
			clock = max(clock, a.Clock)
			return err
		})
	}
	err := tasks.Wait()
	return clock, err
}

func (l *leader) groups() []uint32 {
	var n uint32
	l.g.read(func(s *state) { n = s.Layout.Groups() })
	groups := make([]uint32, 0, n)
	for group := uint32(1); group < n; group++ {
		groups = append(groups, group)
	}
	return groups
}

// all sends a plan's message to every shard at the same time. errLate wins over
// nothing but is told from a refusal, which ends the plan for good.
func (l *leader) all(ctx context.Context, job, what string, p wire.Plan, message func(group uint32) wire.Message) ([]wire.Answer, error) {
	groups := l.groups()
	pr := &progress{what: fmt.Sprintf("%s of plan %d (%s)", what, p.ID, nameOf(p)), since: time.Now(), on: slices.Clone(groups)}
	l.show(job, pr)
	defer l.show(job, nil)
	errs := make([]error, len(groups))
	answers := make([]wire.Answer, len(groups))
	var tasks errgroup.Group
	for i, group := range groups {
		tasks.Go(func() error {
			a, err := l.ask(ctx, group, message(group))
			if err == nil {
				err = verdict(group, p, a)
			}
			answers[i], errs[i] = a, err
			pr.answered(group)
			return nil
		})
	}
	_ = tasks.Wait() // tasks keep their errors in errs
	late := false
	for _, err := range errs {
		if err != nil && !errors.Is(err, errLate) {
			return answers, err
		}
		late = late || err != nil
	}
	if late {
		return answers, errLate
	}
	return answers, nil
}

// verdict reads a shard's answer to a hold or a release.
func verdict(group uint32, p wire.Plan, a wire.Answer) error {
	switch {
	case a.Status == wire.OK:
		return nil
	case a.Status == wire.Late:
		return errLate
	case a.Status == wire.Unknown && (p.Kind == wire.PlanExpel || p.Kind == wire.PlanJoin):
		return nil // it never came to that shard
	default:
		return refused{refuse(a.Status, "%s: %s", layout.GroupName(group), a.Detail)}
	}
}

// ask gets a shard's definite answer, however long that takes; only the end of
// leadership ends it.
func (l *leader) ask(ctx context.Context, group uint32, m wire.Message) (wire.Answer, error) {
	a, _, err := l.inquire(ctx, group, m)
	return a, err
}

// inquire is ask for an answer with a body.
func (l *leader) inquire(ctx context.Context, group uint32, m wire.Message) (wire.Answer, []byte, error) {
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		try, cancel := context.WithTimeout(ctx, tryFor)
		a, body, err := l.g.cfg.Shards.Call(try, group, m)
		cancel()
		switch {
		case err == nil && a.Status != wire.Pending && a.Status != wire.Lost && a.Status != wire.NotLeader && a.Status != wire.Busy:
			return a, body, nil
		case ctx.Err() != nil:
			return wire.Answer{}, nil, errDeposed
		case err != nil:
			l.log.Warn("shard group does not answer; asking on", "shard_group", group, "err", err)
		}
		if !sleep(ctx, pause) {
			return wire.Answer{}, nil, errDeposed
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// refused is a definite no, as an error.
type refused struct{ answer wire.Answer }

func (r refused) Error() string { return fmt.Sprintf("%v: %s", r.answer.Status, r.answer.Detail) }

func nameOf(p wire.Plan) string {
	switch p.Kind {
	case wire.PlanTable, wire.PlanFork:
		return "table " + p.Table.Name
	case wire.PlanJoin:
		return "join of " + p.Join.Worker
	case wire.PlanExpel:
		return "expel " + p.Worker
	case wire.PlanRate:
		return fmt.Sprintf("rate %v", p.Rate)
	case wire.PlanStop:
		return "stop"
	case wire.PlanCheckpoint:
		return fmt.Sprintf("checkpoint %d", p.Checkpoint)
	default:
		return fmt.Sprintf("kind %d", p.Kind)
	}
}
