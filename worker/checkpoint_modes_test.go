package worker_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"hcclps/ps"
	"hcclps/worker"
	"hcclps/worker/model"
)

// keeping is servers that keep checkpoints in a folder, and begin with the newest there if restore says so.
func keeping(t *testing.T, dir string, restore bool) *ps.Local {
	t.Helper()
	cfg := ps.LocalConfig{Servers: 1, Replicas: 1, Shards: 2, Checkpoint: ps.CheckpointConfig{Dir: dir, Rate: -1}}
	if restore {
		cfg.Restore = dir
	}
	l, err := ps.NewLocal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l)
	return l
}

// asking trains to step 12; after step 3 rank 0 asks for a checkpoint.
func asking(t *testing.T, o model.Options, opt worker.TrainOptions) func(ctx context.Context, c *worker.Client) error {
	return func(ctx context.Context, c *worker.Client) error {
		own, at := opt, uint64(0)
		own.OnStep = func(p worker.Progress) {
			if p.Step != 3 || c.Rank() != 0 {
				return
			}
			var err error
			if at, err = c.Checkpoint(ctx); err != nil {
				t.Error(err)
			}
		}
		err := until(12, 0, o, own)(ctx, c)
		if s := c.Stats().Checkpoint; c.Rank() == 0 && (s.Made != 1 || s.Step != at || at < 5 || s.Writing) {
			t.Errorf("%v: a checkpoint of step %d was asked for, there is %+v", c.Params(), at, s)
		}
		return err
	}
}

// A job goes on from its checkpoint with the bits it would have had, with servers and without, also by the other road, and with what codecs held back.
func TestCheckpointsOfAllModes(t *testing.T) {
	t.Parallel()
	o := model.Options{Model: model.NameDeepFM, Optimizer: worker.Optimizer{Name: "adam"}}
	opt := worker.TrainOptions{Epochs: 3}
	for _, codec := range []string{"", "onebit"} {
		want := map[worker.Mode]string{}
		for _, from := range []worker.Mode{worker.PS, worker.Hybrid, worker.AllReduce} {
			cfg := worker.Config{Mode: from, Job: "job", World: 2, Seed: 3, RankOrder: true, Compress: worker.Compression{All: codec}}
			name := fmt.Sprintf("%v %s", from, codec)
			var l *ps.Local
			if from != worker.AllReduce {
				l = scratch(t)
			}
			want[from] = crew{cfg: cfg, servers: l, train: until(0, 0, o, opt)}.run(t)

			dir := filepath.Join(t.TempDir(), "c")
			if from == worker.AllReduce {
				cfg.Checkpoints.Dir = dir
			} else {
				l = keeping(t, dir, false)
			}
			crew{cfg: cfg, servers: l, train: asking(t, o, opt), apart: true}.run(t)
			m := newest(t, dir, "job")

			if from != worker.AllReduce {
				l = keeping(t, dir, true)
			}
			cfg.Checkpoints.Resume = from == worker.AllReduce
			if got := (crew{cfg: cfg, servers: l, train: until(0, 0, o, opt)}.run(t)); got != want[from] {
				t.Errorf("%s: digest %.8s after going on from step %d, %.8s without a break", name, got, m.Step, want[from])
			}
		}
	}
}
