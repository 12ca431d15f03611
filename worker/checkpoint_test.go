package worker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hcclps/checkpoint"
	"hcclps/worker"
	"hcclps/worker/model"
)

var errEnough = errors.New("enough")

// until trains with checkpoints each so many steps, and ends in an error after a step.
func until(stop uint64, every uint64, o model.Options, opt worker.TrainOptions) func(ctx context.Context, c *worker.Client) error {
	opt.CheckpointEvery = worker.Interval{Steps: every}
	opt.About = about()
	return func(ctx context.Context, c *worker.Client) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		own := opt
		own.OnStep = func(p worker.Progress) {
			if opt.OnStep != nil {
				opt.OnStep(p)
			}
			if p.Step == stop {
				cancel(errEnough)
			}
		}
		err := fitted(o, stream{rows: 700, batch: 64}, own)(ctx, c)
		if stop > 0 && errors.Is(err, errEnough) {
			return c.Finish(context.WithoutCancel(ctx)) // waits for what is being written
		}
		return err
	}
}

// newest describes the newest checkpoint of a folder.
func newest(t *testing.T, dir, job string) *checkpoint.Manifest {
	t.Helper()
	s, err := checkpoint.Open(checkpoint.Config{Dir: dir, Owner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m, err := s.Newest(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Training that goes on from a checkpoint has the bits of training that was not interrupted.
func TestResumedTrainingHasTheSameBits(t *testing.T) {
	t.Parallel()
	for _, o := range []model.Options{
		{Model: model.NameLR, Optimizer: worker.Optimizer{Name: "adagrad"}, Admit: worker.Admit{Kind: "count", Count: 12}, Evict: worker.Evict{HalfLife: 4}},
		{Model: model.NameDeepFM, Optimizer: worker.Optimizer{Name: "adam"}},
	} {
		for _, world := range []int{1, 3} {
			opt := worker.TrainOptions{Epochs: 4}
			cfg := worker.Config{Mode: worker.AllReduce, Job: "whole", World: world, Seed: 3}
			want := crew{cfg: cfg, train: until(0, 0, o, opt)}.run(t)

			cfg.Job, cfg.Checkpoints = "half", worker.Checkpoints{Dir: filepath.Join(t.TempDir(), "c"), Keep: 2}
			crew{cfg: cfg, train: until(9, 2, o, opt), apart: true}.run(t)
			m := newest(t, cfg.Checkpoints.Dir, "half")
			if m.Step < 4 || m.Step > 9 || len(m.Workers) != world || len(m.Tables) < 2 {
				t.Fatalf("newest checkpoint: step %d, %d workers, %d tables", m.Step, len(m.Workers), len(m.Tables))
			}
			if _, err := worker.Connect(t.Context(), worker.Config{Mode: worker.AllReduce, Job: "half", Checkpoints: worker.Checkpoints{Dir: cfg.Checkpoints.Dir}}); err == nil || !strings.Contains(err.Error(), "resume goes on with it") {
				t.Errorf("a folder with checkpoints of the job: %v", err)
			}
			cfg.Checkpoints.Resume = true
			resumed := func(ctx context.Context, c *worker.Client) error {
				if c.Clock() != m.Step {
					t.Errorf("rank %d resumes at step %d, not %d", c.Rank(), c.Clock(), m.Step)
				}
				return until(0, 5, o, opt)(ctx, c)
			}
			if got := (crew{cfg: cfg, train: resumed}.run(t)); got != want {
				t.Errorf("%s, %d workers: digest %.8s after going on from step %d, %.8s without a break", o.Model, world, got, m.Step, want)
			}
			files, err := os.ReadDir(cfg.Checkpoints.Dir)
			if err != nil || len(files) > 9 {
				t.Errorf("%d files of two checkpoints (%v)", len(files), err)
			}
		}
	}
}
