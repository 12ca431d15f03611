package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hcclps/p2p/collective"
	"hcclps/p2p/inproc"
	"hcclps/worker"
	"hcclps/worker/model"
)

// What all workers must have alike is compared when they meet: the error has both values and both ranks, on every worker.
func TestWhatDiffersBetweenWorkersIsNamed(t *testing.T) {
	t.Parallel()
	for want, odd := range map[string]func(cfg *worker.Config, o *worker.TrainOptions){
		"epochs 2, rank 0 * has 1":                     func(_ *worker.Config, o *worker.TrainOptions) { o.Epochs = 2 },
		"accumulate 3, rank 0 * has 1":                 func(_ *worker.Config, o *worker.TrainOptions) { o.Accumulate = 3 },
		"delay 1, rank 0 * has 0":                      func(_ *worker.Config, o *worker.TrainOptions) { o.Delay = 1 },
		"clip norm=1,value=0, rank 0 * has norm=0":     func(_ *worker.Config, o *worker.TrainOptions) { o.Clip.Norm = 1 },
		"reduce sum, rank 0 * has mean":                func(cfg *worker.Config, _ *worker.TrainOptions) { cfg.Sum = true },
		"reduce-order rank, rank 0 * has any":          func(cfg *worker.Config, _ *worker.TrainOptions) { cfg.RankOrder = true },
		`data "b", rank 0 * has "a"`:                   func(cfg *worker.Config, _ *worker.TrainOptions) { cfg.Data = "b" },
		"algo map[allreduce:ring], rank 0 * has map[]": func(cfg *worker.Config, _ *worker.TrainOptions) { cfg.Algorithms = ring },
		"max-rebuilds 0, rank 0 * has 3":               func(cfg *worker.Config, _ *worker.TrainOptions) { cfg.MaxRebuilds = worker.NoRebuilds },
	} {
		errs := make([]error, 2)
		opts := [2]worker.TrainOptions{{Epochs: 1}, {Epochs: 1}}
		set := func(rank int, cfg *worker.Config) {
			if rank == 1 {
				odd(cfg, &opts[1])
			}
		}
		crew{apart: true, cfg: worker.Config{Mode: worker.AllReduce, Job: "odd", World: 2, Data: "a"}, set: set, train: func(ctx context.Context, c *worker.Client) error {
			m, err := model.NewLR(ctx, c, sgd(0.1))
			if err != nil {
				return err
			}
			rank := c.Rank()
			_, errs[rank] = c.Train(ctx, m, &memory{batches: 4, rows: 8}, opts[rank])
			return nil
		}}.run(t)
		for rank, err := range errs {
			for _, part := range append(strings.Split(want, "*"), "rank 1 (worker-1", "(worker-0", "give all workers the same model and options") {
				if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(part)) {
					t.Errorf("%s, rank %d: %q is not in %v", want, rank, part, err)
				}
			}
		}
	}
}

var ring = collective.Algorithms{collective.AllReduce: {Level1: collective.Ring}}

// Without some things alike workers cannot even meet: then the rendezvous says so.
func TestWorkersThatMeasureAloneAreRefused(t *testing.T) {
	t.Parallel()
	network := inproc.NewNetwork()
	errs := make([]error, 2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for rank := range errs {
		wg.Go(func() {
			defer cancel() // rank 0 would wait for another
			cfg := worker.Config{Mode: worker.AllReduce, Job: "odd", World: 2, Rank: rank, Network: network, Measure: rank == 1, Deadline: 90 * time.Second}
			cfg.Meet.Master, cfg.Meet.Listen = "rank0:1", fmt.Sprintf("rank%d:%d", rank, 1-rank)
			_, errs[rank] = worker.Connect(ctx, cfg)
		})
	}
	wg.Wait()
	err := fmt.Sprint(errors.Join(errs...))
	for _, want := range []string{"rank 1 (worker-1", "has measure true, rank 0 (worker-0", "has measure false"} {
		if !strings.Contains(err, want) {
			t.Errorf("%q is not in %s", want, err)
		}
	}
}

// A worker that comes to others and does not fit is sent away; they go on. One of a rank that lives is too.
func TestNewcomersThatDoNotFitAreSentAway(t *testing.T) {
	t.Parallel()
	for name, hybrid := range map[string]bool{"allreduce": false, "hybrid": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := crew{apart: true, cfg: worker.Config{Mode: worker.AllReduce, Job: "odd", World: 3, Deadline: 90 * time.Second}}
			if hybrid {
				w.cfg.Mode, w.servers = worker.Hybrid, scratch(t)
			}
			unfit(t, w, "epochs 7")
		})
	}
	t.Run("model", func(t *testing.T) {
		t.Parallel()
		unfit(t, crew{apart: true, cfg: worker.Config{Mode: worker.AllReduce, Job: "odd", World: 3, Deadline: 90 * time.Second}}, "give all workers the same model")
	})
}

// unfit has a worker come with other epochs, or, where it is to be told so, another model.
func unfit(t *testing.T, w crew, told string) {
	t.Helper()
	var died, over atomic.Bool
	w.train = func(ctx context.Context, c *worker.Client) error {
		late, rate := died.Load(), 0.1 // the one that comes in
		opt := worker.TrainOptions{Epochs: 1 << 20}
		switch {
		case !late:
		case strings.Contains(told, "epochs"):
			opt.Epochs = 7
		default:
			rate = 0.2
		}
		m, err := model.NewLR(ctx, c, sgd(rate))
		if err != nil {
			return err
		}
		first := c.Rank() == 1 && !late
		opt.OnStep = func(p worker.Progress) {
			switch {
			case first && p.Step >= 10:
				if died.CompareAndSwap(false, true) {
					c.Abandon()
				}
			case over.Load() && c.Rank() == 0:
				_, _ = c.Stop(ctx) // once more each time, until it is in force
			}
		}
		rep, err := c.Train(ctx, m, &memory{batches: 64, rows: 8}, opt)
		switch {
		case first:
			return errDied
		case late:
			if err == nil || !strings.Contains(err.Error(), told) {
				t.Errorf("who does not fit: %v", err)
			}
			over.Store(true)
			return nil
		case err == nil && !rep.Stopped:
			return errors.New("it was not stopped")
		}
		return err
	}
	w.run(t)
}
