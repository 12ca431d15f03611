package worker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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
			if stop > 0 && p.Step >= stop {
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
			if _, err := worker.Connect(t.Context(), worker.Config{Mode: worker.AllReduce, Job: "half", Checkpoints: worker.Checkpoints{Dir: cfg.Checkpoints.Dir}}); err == nil || !strings.Contains(err.Error(), "resume goes on with it (Resume, --resume)") {
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

// A folder that cannot be written ends no training, and is told of.
func TestCheckpointThatFails(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := model.Options{Model: model.NameLR, Optimizer: worker.Optimizer{Name: "sgd"}}
	cfg := worker.Config{Mode: worker.AllReduce, Job: "fails", Checkpoints: worker.Checkpoints{Dir: file}}
	if _, err := worker.Connect(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file in place of the folder: %v", err)
	}
	cfg.Checkpoints.Dir = filepath.Join(t.TempDir(), "c")
	crew{cfg: cfg, train: func(ctx context.Context, c *worker.Client) error {
		opt := worker.TrainOptions{Epochs: 2, OnStep: func(p worker.Progress) {
			switch p.Step {
			case 2: // something that is no folder takes its place
				if err := errors.Join(os.RemoveAll(cfg.Checkpoints.Dir), os.WriteFile(cfg.Checkpoints.Dir, nil, 0o600)); err != nil {
					t.Error(err)
				}
			case 20:
				if s := c.Stats(); s.Steps != 20 {
					t.Errorf("%+v", s)
				}
			}
		}}
		if err := until(0, 6, o, opt)(ctx, c); err != nil {
			return err
		}
		if s := c.Stats().Checkpoint; s.Made > 0 || s.Failed == 0 || s.Writing || !strings.Contains(s.Why, cfg.Checkpoints.Dir) {
			t.Errorf("checkpoints without a folder: %+v", s)
		}
		return nil
	}}.run(t)
	if _, err := worker.Connect(t.Context(), worker.Config{Mode: worker.AllReduce, Checkpoints: worker.Checkpoints{Resume: true}}); err == nil {
		t.Error("resume without a folder is taken")
	}
	cfg.Checkpoints = worker.Checkpoints{Dir: t.TempDir(), Resume: true}
	if _, err := worker.Connect(t.Context(), cfg); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("resume from an empty folder: %v", err)
	}
}

// Checkpoints by time come, whatever the delay of steps, and a job of other data does not go on from them.
func TestCheckpointsByTime(t *testing.T) {
	t.Parallel()
	o := model.Options{Model: model.NameLR, Optimizer: worker.Optimizer{Name: "sgd"}}
	cfg := worker.Config{Mode: worker.AllReduce, Job: "time", World: 2, Data: "these", Checkpoints: worker.Checkpoints{Dir: filepath.Join(t.TempDir(), "c"), Keep: 1}}
	crew{cfg: cfg, train: func(ctx context.Context, c *worker.Client) error {
		opt := worker.TrainOptions{Epochs: 4, Delay: 1, CheckpointEvery: worker.Interval{Time: time.Nanosecond}}
		if err := fitted(o, stream{rows: 700, batch: 64}, opt)(ctx, c); err != nil {
			return err
		}
		if s := c.Stats().Checkpoint; (s.Made == 0) == (c.Rank() == 0) || s.Failed > 0 {
			t.Errorf("rank %d: %+v", c.Rank(), s)
		}
		return nil
	}}.run(t)
	cfg.World, cfg.Data, cfg.Checkpoints.Resume = 1, "others", true
	if _, err := worker.Connect(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "give the same data") {
		t.Errorf("other data: %v", err)
	}
}

// When rank 0 is lost another writes the checkpoints, and those that there are are whole.
func TestCheckpointsAfterRankZeroIsLost(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "c")
	cfg := worker.Config{Mode: worker.AllReduce, Job: "lost", World: 3, Deadline: 90 * time.Second, Checkpoints: worker.Checkpoints{Dir: dir, Keep: 4}}
	var made atomic.Uint64 // by who was not rank 0 at the beginning
	crew{cfg: cfg, apart: true, train: func(ctx context.Context, c *worker.Client) error {
		m, err := model.NewLR(ctx, c, worker.Optimizer{Name: "adam"})
		if err != nil {
			return err
		}
		first, dead := c.Rank() == 0, false
		opt := worker.TrainOptions{Epochs: 1 << 20, CheckpointEvery: worker.Interval{Steps: 4}, OnStep: func(p worker.Progress) {
			switch s := c.Stats().Checkpoint; {
			case first && s.Made > 0 && !dead:
				dead = true
				c.Abandon()
			case !first && s.Made > 1 && made.CompareAndSwap(0, s.Step):
				if _, err := c.Stop(ctx); err != nil {
					t.Error(err)
				}
			}
		}}
		if _, err = c.Train(ctx, m, &memory{batches: 64, rows: 8}, opt); dead {
			return nil
		}
		return err
	}}.run(t)
	s, err := checkpoint.Open(checkpoint.Config{Dir: dir, Owner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if m := newest(t, dir, "lost"); m.Step < made.Load() || len(m.Workers) != 2 {
		t.Errorf("the newest checkpoint is of step %d with %d workers; one of step %d was made by those that were left", m.Step, len(m.Workers), made.Load())
	}
}
