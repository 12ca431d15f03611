package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hcclps/internal/trace"
	"hcclps/worker/dataset"
)

// TrainOptions says how long to train and how. Every worker of a job gives the
// same, but for EvalOn, KeepBest, About and OnStep. How a learning rate changes
// is part of a table: Optimizer.Schedule.
type TrainOptions struct {
	Epochs     int  // 1
	NoPrefetch bool // read a batch's rows when its step begins, not one step ahead; the bits under bsp are the same
	// Accumulate is the number of batches whose gradients are one push; 1. A step
	// of n batches of m rows has the rows of one batch of n x m, in their order,
	// and gradients go on adding where the batch before left off: where a model
	// sums its dense gradients with GradOf, row by row, the bits are those of that
	// batch.
	Accumulate int
	Clip       Clip
	// Delay is 0, or 1: of AllReduce, the next batch is computed while the gradients of this step are on their way to the other workers, and so
	// from parameters that lag one step.
	Delay int

	// EvalEvery makes rank 0 evaluate after each so many steps, and at the end; 0:
	// never. It reads the parameters as of its clock: under bsp exactly those
	// after that step, since the others wait for its next push, for which
	// their Config.Deadline must leave time.
	EvalEvery int
	EvalOn    dataset.Source // rank 0's data for that, from its start each time
	Metrics   []string       // to report (see Metrics); default logloss and auc, or rmse and mae
	// EarlyStop ends training for all workers at one step.
	EarlyStop EarlyStop
	// KeepBest names a folder where rank 0 saves the model whenever EarlyStop's
	// metric is better than ever before; Load brings it back.
	KeepBest string
	About    About // of the model that KeepBest and checkpoints save

	// CheckpointEvery makes rank 0 ask for checkpoints (Client.Checkpoint), of the step after which one is due, or a later one while another is
	// still being written.
	CheckpointEvery Interval

	// OnStep is called after every step, but for one after which the workers are others (ErrRebuilt): that one may be left out here, and be told
	// of at another worker. Who waits for a step waits for that or a later one.
	OnStep func(Progress)
}

func (opt *TrainOptions) defaults() error {
	opt.Epochs, opt.Accumulate = max(opt.Epochs, 1), max(opt.Accumulate, 1)
	return opt.Clip.validate()
}

// Progress is where training is.
type Progress struct {
	Step    uint64 // steps completed by this worker, of all its sessions
	Epoch   int
	Rows    uint64             // rows trained on by this session
	Loss    float64            // mean over the rows of the last step, 0 without any
	Metrics map[string]float64 // of the evaluation after this step; nil without one
}

// Report is what Train did in this session.
type Report struct {
	Resumed  uint64             // step the session resumed at
	Steps    uint64             // steps completed when it ended, of all sessions of this worker
	Rows     uint64             // rows trained on
	Loss     float64            // mean training loss over those rows
	Elapsed  time.Duration      // wall time
	Stopped  bool               // a stop plan ended training, EarlyStop's for instance
	Best     float64            // best value of EarlyStop's metric
	BestStep uint64             // the step it belongs to; 0: nothing was evaluated here
	Metrics  map[string]float64 // of the last evaluation
}

// Train runs the model over the source's batches, from where this worker's
// last session left off, and finishes. Each worker of a job calls it with the
// same model, source and options. While the model is at one batch the next one is
// taken from the source, by a goroutine of Train's own, and its keys are made
// ready; its rows are asked for when the step is pushed, and servers answer when
// that push has been applied.
//
// A stop plan (Stop, EarlyStop) ends training at the same step on every worker:
// each Train then finishes, and says so in its report.
func (c *Client) Train(ctx context.Context, m Model, src dataset.Source, opt TrainOptions) (Report, error) {
	t := &trainer{c: c, m: m, opt: opt, start: time.Now()}
	err := t.run(ctx, src)
	if err == nil {
		err = c.Finish(ctx)
	}
	t.rep.Elapsed = time.Since(t.start)
	if t.rep.Rows > 0 {
		t.rep.Loss = t.loss / float64(t.rep.Rows)
	}
	if w := t.watch; w != nil {
		t.rep.Best, t.rep.BestStep, t.rep.Metrics = w.best, w.at, w.values
	}
	if err != nil {
		c.ended = err
		return t.rep, fmt.Errorf("train: %w", err)
	}
	return t.rep, nil
}

type trainer struct {
	c     *Client
	m     Model
	opt   TrainOptions
	feed  feed
	pacer pacer
	watch *watch // nil: nothing is evaluated here
	step  Step
	batch [2]dataset.Batch
	pre   *ahead // of the batch after the one under way
	rep   Report
	loss  float64
	start time.Time

	// Of the step under way.
	rows     int
	lossSum  float64
	lossRows int
	span     trace.Span
	clock    *stopwatch
}

func (t *trainer) run(ctx context.Context, src dataset.Source) error {
	if err := t.opt.defaults(); err != nil {
		return err
	}
	if _, err := newWatch(&t.opt, t.c.Rank(), regression(t.m)); err != nil {
		return err
	}
	if t.c.local != nil {
		t.c.local.terms = t.opt.terms()
	}
	if err := t.c.meet(ctx); err != nil {
		return err
	}
	if err := t.c.cfg.Compress.known(t.c.tables); err != nil {
		return err
	}
	if err := t.c.lag(t.opt.Delay); err != nil {
		return err
	}
	t.pacer = pacer{every: t.opt.CheckpointEvery, since: time.Now()}
	if t.c.about = t.opt.About; t.c.local != nil {
		t.c.local.about = t.opt.About
	}
	t.rep.Resumed, t.rep.Steps = t.c.Clock(), t.c.Clock()
	t.clock = &stopwatch{p: t.c.prof, since: time.Now()}
	defer t.clock.turn(other)
	err := t.sitting(ctx, src)
	for errors.Is(err, ErrRebuilt) {
		t.c.cfg.Logger.Warn("training goes on with other workers", "rank", t.c.Rank(), "workers", t.c.World(), "step", t.c.Clock(), "why", err)
		err = t.sitting(ctx, src)
	}
	switch {
	case errors.Is(err, ErrStopped):
		t.rep.Stopped = true
		return nil
	case err == nil && t.watch != nil && t.watch.last < t.c.Clock():
		_, err = t.watch.evaluate(ctx, t.c, t.m)
	}
	return err
}

// sitting trains from where the parameters are until the end, or until the workers are others.
func (t *trainer) sitting(ctx context.Context, src dataset.Source) (err error) {
	if t.watch, err = newWatch(&t.opt, t.c.Rank(), regression(t.m)); err != nil {
		return err
	}
	t.feed = t.c.newFeed(src, t.opt.Epochs, t.opt.Accumulate)
	t.step = Step{c: t.c, training: true, accumulates: t.opt.Accumulate > 1, clock: t.clock}
	if t.c.local != nil {
		t.step.out = t.c.local.leaves(&t.opt)
	}
	t.rows, t.lossSum, t.lossRows = 0, 0, 0
	if err := t.feed.resume(t.watch.resume(t.c.cursor)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errors.New("training ended"))
	t.step.begun(ctx)
	if err = t.judge(ctx); err == nil { // the step that a session before this one has not got to judge
		err = t.loop(ctx)
	}
	if err == nil {
		err = t.c.settle(ctx)
	}
	if err != nil {
		cancel(err)
	}
	t.pre.settle(t.c.cfg.Logger)
	t.pre = nil
	return err
}

// loop computes batch after batch and pushes where a step ends. Beside that the
// next batch is fetched; its rows are asked for when the step's gradients are
// known, so that its push is waited for, not the model.
func (t *trainer) loop(ctx context.Context) error {
	cur, next := &t.batch[0], &t.batch[1]
	got, err := t.feed.next(ctx, cur, false)
	for ; got != over && err == nil; cur, next = next, cur {
		if err := t.take(ctx, cur); err != nil {
			return err
		}
		cursor, epoch := t.feed.cursor(), t.feed.at()
		fill := func() (bool, error) {
			span := t.c.prof.data.Begin("read")
			defer span.End()
			var err error
			got, err = t.feed.next(ctx, next, true)
			return !t.opt.NoPrefetch && (got == another || got == fresh), err
		}
		first := len(t.step.habits) == 0 // what a batch uses is not known
		if !first {
			t.pre = t.step.fetch(ctx, next, fill)
		}
		if err := t.compute(cur); err != nil {
			return err
		}
		if first {
			t.pre = t.step.fetch(ctx, next, fill)
		}
		if err := t.filled(); err != nil {
			return err
		}
		if got == another {
			t.pre.send(t.c.Clock())
			t.step.carry()
			continue
		}
		t.pre.send(t.c.Clock() + 1)
		if err := t.commit(ctx, cursor, epoch); err != nil {
			return err
		}
		if got == later {
			got, err = t.feed.next(ctx, next, false)
		}
	}
	return err
}

// take begins a batch when what was read ahead for it is there.
func (t *trainer) take(ctx context.Context, b *dataset.Batch) error {
	if t.rows == 0 {
		t.begin()
	}
	pre := t.pre
	t.pre = nil
	stage := t.clock.enter(pulling, t.c.Clock())
	err := pre.wait(ctx)
	stage.leave(pre.others())
	if err != nil {
		return err
	}
	t.step.begin(b, pre)
	return nil
}

// begin begins a step's span.
func (t *trainer) begin() {
	t.span = t.c.prof.train.Begin(trace.StepName)
	t.span.Step = int64(t.c.Clock())
}

// filled waits until the next batch has been taken.
func (t *trainer) filled() error {
	stage := t.clock.enter(fetching, t.c.Clock())
	defer stage.leave(time.Time{})
	return <-t.pre.filled
}

// compute runs the model over a batch.
func (t *trainer) compute(b *dataset.Batch) error {
	if b.Rows == 0 {
		return nil
	}
	s := &t.step
	stage := t.clock.enter(compute, t.c.Clock())
	err := s.forward(t.m)
	stage.leave(time.Time{})
	if err != nil {
		return fmt.Errorf("model at step %d: %w", t.c.Clock(), err)
	}
	t.rows += b.Rows
	t.lossSum += s.lossSum
	t.lossRows += s.lossRows
	return nil
}

// commit pushes the step, evaluates if that is due, and reports.
func (t *trainer) commit(ctx context.Context, cursor []byte, epoch int) error {
	grads := t.step.gradients()
	t.opt.Clip.apply(grads, t.divisor())
	stage, before := t.clock.enter(pushing, t.c.Clock()), t.c.Clock()
	all, err := t.c.push(ctx, &commit{rows: t.rows, cursor: t.watch.append(cursor), grads: grads, loss: loss{t.lossSum, t.lossRows}})
	stage.leave(all.others)
	if err != nil && t.c.Clock() == before {
		return err
	}
	t.step.pushed()
	t.rep.Steps = t.c.Clock()
	t.rep.Rows += uint64(t.rows)
	t.loss += t.lossSum
	p := Progress{Step: t.c.Clock(), Epoch: epoch, Rows: t.rep.Rows, Loss: all.loss.mean()}
	t.rows, t.lossSum, t.lossRows = 0, 0, 0
	if err != nil {
		return err // the workers are others, after this step: it is left out of OnStep
	}
	t.pacer.step(ctx, t.c)
	if t.watch.due(t.c.Clock()) {
		if err := t.judge(ctx); err != nil {
			return err
		}
		p.Metrics = t.watch.values
	}
	if t.opt.OnStep != nil {
		t.opt.OnStep(p)
	}
	t.span.End()
	return nil
}

// divisor is what the servers would divide this worker's gradients by, were it
// alone.
func (t *trainer) divisor() int {
	if t.c.params.Sum {
		return 1
	}
	return t.rows
}

// judge evaluates, if that is due, and ends the job for all workers when it has
// been enough.
func (t *trainer) judge(ctx context.Context) error {
	if !t.watch.due(t.c.Clock()) {
		return nil
	}
	if err := t.c.settle(ctx); err != nil {
		return err
	}
	stage := t.clock.enter(evaluate, t.c.Clock())
	enough, err := t.watch.evaluate(ctx, t.c, t.m)
	stage.leave(time.Time{})
	if err != nil || !enough {
		return err
	}
	t.watch.ending = true
	at, err := t.c.Stop(ctx)
	if err != nil {
		return err
	}
	t.c.cfg.Logger.Info("no improvement: training ends", "metric", t.watch.metric, "best", t.watch.best, "best_step", t.watch.at, "last_step", at)
	return nil
}
