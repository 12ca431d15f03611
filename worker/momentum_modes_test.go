package worker_test

import (
	"errors"
	"strings"
	"testing"

	"hcclps/ps/optim"
	"hcclps/worker"
	"hcclps/worker/model"
)

// oneBit is a model whose dense tensors are through with their warm-up after a few steps.
func oneBit(freeze float64) model.Options {
	return model.Options{
		Model: model.NameDeepFM, Optimizer: worker.Optimizer{Name: "adam"},
		Dense: worker.Optimizer{Name: optim.OneBitAdam, Params: map[string]float64{"freeze_step": freeze}},
	}
}

// A job that learns by 1-bit Adam goes on from a checkpoint with the bits it would have had, before its warm-up ends
// and after it, and on more workers with the same bits in all of them.
func TestOneBitAdamGoesOn(t *testing.T) {
	t.Parallel()
	opt := worker.TrainOptions{Epochs: 2}
	for _, c := range []struct {
		mode   worker.Mode
		freeze float64
	}{{worker.AllReduce, 2}, {worker.AllReduce, 9}, {worker.Hybrid, 2}} {
		cfg, o := worker.Config{Mode: c.mode, Job: "job", World: 2, Seed: 3}, oneBit(c.freeze)
		run := crew{cfg: cfg, train: until(0, 0, o, opt)}
		if c.mode != worker.AllReduce {
			run.servers = scratch(t)
		}
		want, dir := run.run(t), interrupted(t, cfg, o, opt)
		if got := resumed(t, cfg, dir, o, opt); got != want {
			t.Errorf("%v, a warm-up of %v steps: digest %.8s after going on, %.8s without a break", c.mode, c.freeze, got, want)
		}
		if cfg.World = 3; c.mode == worker.AllReduce {
			resumed(t, cfg, dir, o, opt)
		}
	}
}

// Servers hold tensors that learn by 1-bit Adam, so that a model can be judged there, and say who can train them.
func TestServersDoNotTrainOneBitAdam(t *testing.T) {
	t.Parallel()
	l := scratch(t)
	c, err := worker.Connect(t.Context(), worker.Config{Servers: l.Addrs(), Cluster: l.Cluster(), Network: l.Network(), Job: "job"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abandon()
	err = fitted(oneBit(2), stream{rows: 100, batch: 64}, worker.TrainOptions{})(t.Context(), c)
	if _, refused := errors.AsType[*worker.RefusedError](err); !refused || !strings.Contains(err.Error(), "allreduce or hybrid") {
		t.Errorf("training on servers: %v", err)
	}
}
