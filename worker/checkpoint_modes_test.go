package worker_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"hcclps/ps"
	"hcclps/ps/pstest"
	"hcclps/worker"
	"hcclps/worker/model"
)

// keeping is servers that keep checkpoints in a folder, and begin with the newest there for so many workers, unless there are none.
func keeping(t *testing.T, dir string, workers int) *ps.Local {
	t.Helper()
	cfg := ps.LocalConfig{Servers: 1, Replicas: 1, Shards: 2, Checkpoint: ps.CheckpointConfig{Dir: dir, Rate: -1}}
	if workers > 0 {
		cfg.Restore, cfg.RestoreWorld = dir, workers
	}
	return pstest.Serve(t, cfg)
}

// elected is why servers give up a checkpoint when a group elects another leader in the middle, as it may on a busy machine.
const elected = "the leader of the group has changed"

// asking trains to step 12; after step 3 rank 0 asks for a checkpoint. It says whether an election got in the way.
func asking(t *testing.T, o model.Options, opt worker.TrainOptions, again *atomic.Bool) func(ctx context.Context, c *worker.Client) error {
	t.Helper()
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
		s := c.Stats().Checkpoint
		if c.Rank() == 0 && s.Made == 0 && s.Failed == 1 && strings.Contains(s.Why, elected) {
			again.Store(true)
			return err
		}
		if c.Rank() == 0 && (s.Made != 1 || s.Step != at || at < 5 || s.Writing) {
			t.Errorf("%v: a checkpoint of step %d was asked for, there is %+v", c.Params(), at, s)
		}
		return err
	}
}

// interrupted trains to step 12 with a checkpoint on the way, and returns its folder. After an election it begins anew with other servers, a few times.
func interrupted(t *testing.T, cfg worker.Config, o model.Options, opt worker.TrainOptions) string {
	t.Helper()
	for range 5 {
		var l *ps.Local
		var again atomic.Bool
		dir := filepath.Join(t.TempDir(), "c")
		if cfg.Checkpoints.Dir = dir; cfg.Mode != worker.AllReduce {
			l, cfg.Checkpoints.Dir = keeping(t, dir, 0), ""
		}
		crew{cfg: cfg, servers: l, train: asking(t, o, opt, &again), apart: true}.run(t)
		if !again.Load() {
			return dir
		}
		t.Logf("%v: no checkpoint: %s", cfg.Mode, elected)
	}
	t.Fatalf("%v: none of 5 checkpoints was made: %s each time", cfg.Mode, elected)
	return ""
}

// resumed trains from the newest checkpoint to the end.
func resumed(t *testing.T, cfg worker.Config, dir string, o model.Options, opt worker.TrainOptions) string {
	t.Helper()
	var l *ps.Local
	if cfg.Mode == worker.AllReduce {
		cfg.Checkpoints = worker.Checkpoints{Dir: dir, Resume: true}
	} else {
		l = keeping(t, dir, cfg.World)
	}
	return crew{cfg: cfg, servers: l, train: until(0, 0, o, opt)}.run(t)
}

// A job goes on from its checkpoint with the bits it would have had, in all modes, with what codecs have held back.
func TestCheckpointsOfAllModes(t *testing.T) {
	t.Parallel()
	o, opt := model.Options{Model: model.NameDeepFM, Optimizer: worker.Optimizer{Name: "adam"}}, worker.TrainOptions{Epochs: 2}
	for _, codec := range []string{"", "onebit"} {
		for _, mode := range []worker.Mode{worker.PS, worker.Hybrid, worker.AllReduce} {
			t.Run(fmt.Sprintf("%v %s", mode, codec), func(t *testing.T) {
				t.Parallel()
				cfg := worker.Config{Mode: mode, Job: "job", World: 2, Seed: 3, Compress: worker.Compression{All: codec}}
				var l *ps.Local
				if mode != worker.AllReduce {
					l = scratch(t)
				}
				want := crew{cfg: cfg, servers: l, train: until(0, 0, o, opt)}.run(t)
				if got := resumed(t, cfg, interrupted(t, cfg, o, opt), o, opt); got != want {
					t.Errorf("digest %.8s after going on, %.8s without a break", got, want)
				}
			})
		}
	}
}

// A checkpoint that was made with servers is good without, and on another number of workers.
func TestCheckpointsChangeModes(t *testing.T) {
	t.Parallel()
	o, opt := model.Options{Model: model.NameDeepFM, Optimizer: worker.Optimizer{Name: "adam"}}, worker.TrainOptions{Epochs: 2}
	cfg := worker.Config{Job: "job", World: 2, Seed: 3, RankOrder: true}
	want := crew{cfg: cfg, servers: scratch(t), train: until(0, 0, o, opt)}.run(t)
	others := map[uint64]string{}
	for _, from := range []worker.Mode{worker.PS, worker.Hybrid, worker.AllReduce} {
		cfg := cfg
		cfg.Mode = from
		dir := interrupted(t, cfg, o, opt)
		for _, to := range []worker.Mode{worker.AllReduce, worker.PS} {
			if cfg.Mode = to; from == worker.Hybrid && to == worker.PS {
				continue // its dense tensors were on no server
			}
			if got := resumed(t, cfg, dir, o, opt); got != want {
				t.Errorf("from %v to %v: digest %.8s, %.8s without a break", from, to, got, want)
			}
			cfg.World = 3
			got, step := resumed(t, cfg, dir, o, opt), newest(t, dir, "job").Step
			if other := others[step]; other != "" && got != other {
				t.Errorf("from %v to %v on three workers after step %d: digest %.8s, another had %.8s", from, to, step, got, other)
			}
			others[step] = got
			cfg.World = 2
		}
	}
}
