package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"hcclps/worker/dataset"
)

// TrainOptions says how long to train and how.
type TrainOptions struct {
	Epochs     int            // 1
	NoPrefetch bool           // read a batch's rows when its step begins, not one step ahead; the bits under bsp are the same
	OnStep     func(Progress) // called after every step
}

// Progress is where training is.
type Progress struct {
	Step  uint64 // steps completed by this worker, of all its sessions
	Epoch int
	Rows  uint64  // rows trained on by this session
	Loss  float64 // mean over the rows of the last step, 0 without any
}

// Report is what Train did in this session.
type Report struct {
	Resumed uint64        // step the session resumed at
	Steps   uint64        // steps completed when it ended, of all sessions of this worker
	Rows    uint64        // rows trained on
	Loss    float64       // mean training loss over those rows
	Elapsed time.Duration // wall time
}

// Train runs the model over the source's batches, from where this worker's
// last session left off, and finishes. Each worker of a job calls it with the
// same model, source and options. While a step is computed the rows of the next
// batch are asked for; servers answer when the step's push has been applied.
//
// A stop plan ends training at the same step on every worker: Train then
// returns what it did and ErrStopped.
func (c *Client) Train(ctx context.Context, m Model, src dataset.Source, opt TrainOptions) (Report, error) {
	t := &trainer{c: c, m: m, opt: opt, feed: c.newFeed(src, max(opt.Epochs, 1)), start: time.Now()}
	t.rep.Resumed, t.rep.Steps = c.Clock(), c.Clock()
	t.step = Step{c: c, training: true}
	err := t.run(ctx)
	if err == nil {
		err = c.Finish(ctx)
	}
	t.rep.Elapsed = time.Since(t.start)
	if t.rep.Rows > 0 {
		t.rep.Loss = t.loss / float64(t.rep.Rows)
	}
	if err != nil {
		return t.rep, fmt.Errorf("train: %w", err)
	}
	return t.rep, nil
}

type trainer struct {
	c     *Client
	m     Model
	opt   TrainOptions
	feed  feed
	step  Step
	batch [2]dataset.Batch
	rep   Report
	loss  float64
	start time.Time
}

// ahead is a read of the next batch's rows, under way.
type ahead struct {
	uses []*operand
	done chan error
}

func (t *trainer) run(ctx context.Context) error {
	if err := t.feed.resume(t.c.session.cursor); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errors.New("training ended"))
	t.step.begun(ctx)
	cur, next := &t.batch[0], &t.batch[1]
	more, err := t.feed.next(ctx, cur)
	var pre *ahead
	for ; more && err == nil; cur, next = next, cur {
		cursor := t.feed.cursor()
		ready, perr := pre.wait(ctx)
		if perr != nil {
			return perr
		}
		t.step.begin(cur, ready)
		if cur.Rows > 0 {
			if err := t.step.forward(t.m); err != nil {
				return fmt.Errorf("model at step %d: %w", t.c.Clock(), err)
			}
		}
		if more, err = t.feed.next(ctx, next); err != nil {
			return err
		}
		pre = nil
		if more && !t.opt.NoPrefetch {
			pre = t.readAhead(ctx, next)
		}
		if err := t.c.Push(ctx, cur.Rows, cursor, t.step.gradients()...); err != nil {
			cancel(err)
			pre.settle(t.c.cfg.Logger)
			return err
		}
		t.finishStep(cur)
	}
	return err
}

// readAhead repeats the step's uses of tables on the next batch.
func (t *trainer) readAhead(ctx context.Context, next *dataset.Batch) *ahead {
	if next.Rows == 0 {
		return nil
	}
	s := &t.step
	a := &ahead{done: make(chan error, 1)}
	for _, o := range s.operands {
		bags, ok := ragged(next, o.bags.feature)
		if !ok && !dense(o.table) {
			continue // bags of the model's making: nobody can foresee them
		}
		a.uses = append(a.uses, s.newOperand(o.table, bags))
	}
	if len(a.uses) == 0 {
		return nil
	}
	at := t.c.Clock() + 1
	go func() { a.done <- s.read(ctx, at, a.uses) }()
	return a
}

func (a *ahead) wait(ctx context.Context) ([]*operand, error) {
	if a == nil {
		return nil, nil
	}
	select {
	case err := <-a.done:
		return a.uses, err
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), <-a.done)
	}
}

// settle waits for a cancelled read; its error says nothing new.
func (a *ahead) settle(log *slog.Logger) {
	if a == nil {
		return
	}
	if err := <-a.done; err != nil {
		log.Debug("read ahead given up", "err", err)
	}
}

func (t *trainer) finishStep(b *dataset.Batch) {
	s := &t.step
	t.rep.Steps = t.c.Clock()
	t.rep.Rows += uint64(b.Rows)
	t.loss += s.lossSum
	if t.opt.OnStep != nil {
		p := Progress{Step: t.c.Clock(), Rows: t.rep.Rows}
		if d, ok := t.feed.(*dealt); ok {
			p.Epoch = d.epoch
		}
		if s.lossRows > 0 {
			p.Loss = s.lossSum / float64(s.lossRows)
		}
		t.opt.OnStep(p)
	}
	s.end()
}
