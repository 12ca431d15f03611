package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"hcclps/worker"
	"hcclps/worker/model"
)

// A plan that was on its way with a step that is lost comes into force after it.
func TestStopOutlivesALostStep(t *testing.T) {
	t.Parallel()
	const at = 20
	w := crew{apart: true, cfg: worker.Config{Mode: worker.AllReduce, Job: "stop", World: 3, Deadline: 90 * time.Second}}
	w.train = func(ctx context.Context, c *worker.Client) error {
		m, err := model.NewLR(ctx, c, sgd(0.1))
		if err != nil {
			return err
		}
		first, last := c.Rank() == 0, c.Rank() == 2
		var fault error
		done := false
		rep, err := c.Train(ctx, m, &memory{batches: 64, rows: 8}, worker.TrainOptions{Epochs: 20, OnStep: func(p worker.Progress) {
			if done || p.Step < at { // the step after which a worker is lost may be left out
				return
			}
			done = true
			switch {
			case first:
				_, fault = c.Stop(ctx)
			case last:
				c.Abandon()
			}
		}})
		if last {
			return nil
		}
		if err == nil && (!rep.Stopped || rep.Steps > at+10) {
			err = fmt.Errorf("stopped: %v, at step %d", rep.Stopped, rep.Steps)
		}
		return errors.Join(fault, err)
	}
	w.run(t)
}

// A worker goes in mid-training, and comes again: the others go on without it, and with it.
func TestTrainingGoesOnWithoutAWorkerAndWithIt(t *testing.T) {
	t.Parallel()
	for delay := range 2 {
		t.Run(fmt.Sprintf("delay=%d", delay), func(t *testing.T) {
			t.Parallel()
			goesOn(t, delay, crew{cfg: worker.Config{Mode: worker.AllReduce, Job: "lost", World: 3, Deadline: 90 * time.Second}})
		})
	}
	for _, noted := range []bool{false, true} {
		t.Run(fmt.Sprintf("hybrid, noted=%v", noted), func(t *testing.T) {
			t.Parallel()
			goesOn(t, 0, crew{cfg: worker.Config{Mode: worker.Hybrid, Job: "lost", World: 3, Deadline: 90 * time.Second}, servers: scratch(t), noted: noted})
		})
	}
}

func goesOn(t *testing.T, delay int, w crew) {
	t.Helper()
	var begun, gone, back atomic.Bool
	w.train = func(ctx context.Context, c *worker.Client) error {
		m, err := model.NewLR(ctx, c, worker.Optimizer{Name: "adam", Params: map[string]float64{}}) // an empty map, as programs make it
		if err != nil {
			return err
		}
		dies := c.Rank() == 1 && begun.CompareAndSwap(false, true)
		returns := gone.Load() && back.CompareAndSwap(false, true)
		left, faults := 5, []error(nil)
		rep, err := c.Train(ctx, m, &memory{batches: 64, rows: 8}, worker.TrainOptions{Epochs: 1 << 20, Delay: delay, OnStep: func(p worker.Progress) {
			switch {
			case dies && p.Step >= 20:
				if gone.CompareAndSwap(false, true) {
					c.Abandon()
				}
			case returns && p.Step >= 20:
				if left--; left == 0 {
					_, err := c.Stop(ctx) // the others have gone on as long as it took
					faults = append(faults, err)
				}
			}
		}})
		if dies {
			return errDied
		}
		a, aerr := c.Audit(ctx)
		if faults = append(faults, aerr); a.Rebuilds < 1 {
			faults = append(faults, errors.New("nothing was rebuilt"))
		}
		if returns && rep.Resumed < uint64(20-delay) || !rep.Stopped {
			faults = append(faults, fmt.Errorf("came in at step %d, stopped: %v", rep.Resumed, rep.Stopped))
		}
		return errors.Join(append(faults, err)...)
	}
	w.run(t)
}
