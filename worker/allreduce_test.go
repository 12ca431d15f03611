package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"hcclps/worker"
)

// ends trains shared in all ranks of an AllReduce job.
func ends(opt worker.TrainOptions, tune func(rank int, o *worker.TrainOptions)) func(ctx context.Context, c *worker.Client) error {
	return func(ctx context.Context, c *worker.Client) error {
		m, err := newShared(ctx, c, sgd(0.1))
		if err != nil {
			return err
		}
		own := opt
		if tune != nil {
			tune(c.Rank(), &own)
		}
		_, err = c.Train(ctx, m, &stream{rows: 900, batch: 32}, own)
		return err
	}
}

// fickle gives a dense gradient in one piece or in several, by turns.
type fickle struct {
	weight worker.Dense
	first  worker.Dense
	step   int
	turns  bool
}

func (m *fickle) Step(s *worker.Step) error {
	w, err := s.Value(m.weight)
	if err != nil {
		return err
	}
	f, err := s.Value(m.first)
	if err != nil {
		return err
	}
	loss := 0.0
	g, h := make([]float32, len(w.Data)), make([]float32, len(f.Data))
	for i, y := range s.Label() {
		at := i % len(w.Data)
		d := w.Data[at] + f.Data[0] - y
		loss += float64(d * d)
		g[at] += d
		h[0] += d
	}
	s.Loss(loss, s.Rows())
	m.step++
	if m.turns && m.step%3 == 0 {
		return errors.Join(s.Grad(w, g), s.Grad(f, h), s.Grad(w, make([]float32, len(g))), s.Grad(w, g))
	}
	if m.turns && m.step%3 == 1 {
		copy(s.GradOf(f), h)
		s.Ready(f)
		return s.Grad(w, g)
	}
	return errors.Join(s.Grad(f, h), s.Grad(w, g))
}

func newFickle(ctx context.Context, c *worker.Client, turns bool) (*fickle, error) {
	opt := worker.DenseSpec{Optimizer: sgd(0.05), Init: worker.Init{Name: "uniform", Params: map[string]float64{"low": -1, "high": 1}}}
	a, err := c.Dense(ctx, "a", []int{3000}, opt) // whole and part of a block
	if err != nil {
		return nil, err
	}
	b, err := c.Dense(ctx, "b", []int{1}, opt)
	return &fickle{weight: a, first: b, turns: turns}, err
}

// A gradient that leaves early, with what is given after it has left, is the gradient.
func TestGradientsLeaveEarlyAndLate(t *testing.T) {
	t.Parallel()
	run := func(opt worker.TrainOptions, turns bool) string {
		return crew{cfg: worker.Config{Mode: worker.AllReduce, Job: "early", World: 3, RankOrder: true}, train: func(ctx context.Context, c *worker.Client) error {
			m, err := newFickle(ctx, c, turns)
			if err != nil {
				return err
			}
			_, err = c.Train(ctx, m, &stream{rows: 700, batch: 20}, opt)
			return err
		}}.run(t)
	}
	// Value bounds nothing here, but gradients wait to be bounded.
	held := worker.TrainOptions{Clip: worker.Clip{Value: 1e6}}
	if early, late := run(worker.TrainOptions{}, false), run(held, false); early != late {
		t.Errorf("digest %.8s where gradients leave early, %.8s where they do not", early, late)
	}
	run(worker.TrainOptions{}, true) // all ranks agree, whatever the order in which a model gives
}

func TestDelayLagsOneStep(t *testing.T) {
	t.Parallel()
	run := func(world, delay int) string {
		return crew{cfg: worker.Config{Mode: worker.AllReduce, Job: "delay", World: world}, train: ends(worker.TrainOptions{Epochs: 2, Delay: delay}, nil)}.run(t)
	}
	if run(1, 0) != run(1, 1) {
		t.Error("a worker that is alone lags")
	}
	if run(2, 0) == run(2, 1) {
		t.Error("two workers do not lag")
	}
	c, err := worker.Connect(t.Context(), worker.Config{Mode: worker.AllReduce, Job: "delay"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abandon()
	m, err := newShared(t.Context(), c, sgd(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Train(t.Context(), m, &stream{rows: 10, batch: 5}, worker.TrainOptions{Delay: 2}); err == nil || !strings.Contains(err.Error(), "delay of 2 steps") {
		t.Errorf("a delay of 2: %v", err)
	}
}

// All of TrainOptions give what they give with servers.
func TestOptionsGiveTheBitsOfServers(t *testing.T) {
	t.Parallel()
	l := scratch(t)
	for name, opt := range map[string]worker.TrainOptions{
		"accumulate":  {Epochs: 2, Accumulate: 3},
		"clip":        {Clip: worker.Clip{Norm: 0.05, Value: 0.5}},
		"no prefetch": {NoPrefetch: true},
	} {
		cfg := worker.Config{Job: name, World: 2, RankOrder: true, Seed: 3}
		want := crew{cfg: cfg, servers: l, train: ends(opt, nil)}.run(t)
		cfg.Mode = worker.AllReduce
		if got := (crew{cfg: cfg, train: ends(opt, nil)}.run(t)); got != want {
			t.Errorf("%s: digest %.8s, %.8s with servers", name, got, want)
		}
	}
}

// Rank 0 evaluates, keeps the best, and ends training for all; the step is that of servers.
func TestEarlyStopOfAllWorkers(t *testing.T) {
	t.Parallel()
	for _, mode := range []worker.Mode{worker.PS, worker.AllReduce} {
		w := crew{cfg: worker.Config{Mode: mode, Job: "stop", World: 2, RankOrder: true}}
		if mode == worker.PS {
			w.servers = scratch(t)
		}
		best := t.TempDir()
		var steps [2]atomic.Uint64
		w.train = func(ctx context.Context, c *worker.Client) error {
			m, err := newShared(ctx, c, sgd(0.5))
			if err != nil {
				return err
			}
			opt := worker.TrainOptions{Epochs: 50, EvalEvery: 4, EarlyStop: worker.EarlyStop{Patience: 1, MinDelta: 10}}
			if c.Rank() == 0 {
				opt.EvalOn, opt.KeepBest = &stream{rows: 100, batch: 50}, best
			}
			rep, err := c.Train(ctx, m, &stream{rows: 900, batch: 32}, opt)
			if err == nil && !rep.Stopped {
				return errors.New("it was not stopped")
			}
			steps[c.Rank()].Store(rep.Steps)
			return err
		}
		w.run(t)
		if a, b := steps[0].Load(), steps[1].Load(); a != 10 || b != 10 { // no improvement at 8; two steps on
			t.Errorf("%v: ended after %d and %d steps, want 10", mode, a, b)
		}
		if _, err := worker.ReadManifest(best); err != nil {
			t.Errorf("%v: the best was not kept: %v", mode, err)
		}
	}
}

// A model that rank 0 has loaded is what all go on from.
func TestLoadOfRankZeroReachesAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := crew{cfg: worker.Config{Mode: worker.AllReduce, Job: "first", World: 2, Seed: 1}, train: func(ctx context.Context, c *worker.Client) error {
		if err := ends(worker.TrainOptions{}, nil)(ctx, c); err != nil || c.Rank() != 0 {
			return err
		}
		return c.Save(ctx, dir, worker.About{})
	}}
	saved := first.run(t)
	for _, onlyZero := range []bool{true, false} {
		second := crew{cfg: worker.Config{Mode: worker.AllReduce, Job: "second", World: 3, Seed: 2}, train: func(ctx context.Context, c *worker.Client) error {
			if c.Rank() == 0 || !onlyZero {
				if _, err := c.Load(ctx, dir); err != nil {
					return err
				}
			}
			e, err := c.Embedding(ctx, "rows", worker.EmbeddingSpec{Dim: sharedDim, Optimizer: sgd(0.1), Init: worker.Init{Name: "uniform", Params: map[string]float64{"low": -0.5, "high": 0.5}}})
			if err != nil {
				return err
			}
			return c.Pull(ctx, worker.Read{Table: e, Keys: []uint64{1}, Out: make([]float32, sharedDim)})
		}}
		if got := second.run(t); got != saved {
			t.Errorf("only rank 0 loads: %v: digest %.8s, saved %.8s", onlyZero, got, saved)
		}
	}
	for _, mode := range []worker.Mode{worker.PS, worker.Hybrid} {
		third := crew{servers: scratch(t), cfg: worker.Config{Mode: mode, Job: "third", World: 2, Seed: 2}, train: func(ctx context.Context, c *worker.Client) error {
			if _, err := c.Load(ctx, dir); err != nil {
				return err
			}
			if err := c.Pull(ctx); err != nil { // workers meet
				return err
			}
			return c.Finish(ctx)
		}}
		if got := third.run(t); got != saved {
			t.Errorf("digest %.8s with %v, saved %.8s with allreduce", got, mode, saved)
		}
	}
}

func TestWorkersWithOtherTablesAreTold(t *testing.T) {
	t.Parallel()
	for _, differ := range []string{"optimizer", "name", "reduce", "data", "seed"} {
		errs := make([]error, 2)
		set := func(rank int, cfg *worker.Config) {
			cfg.Sum = rank == 1 && differ == "reduce"
			if rank == 1 && differ == "data" {
				cfg.Data = "others"
			}
			if rank == 1 && differ == "seed" {
				cfg.Seed = 1
			}
		}
		crew{apart: true, cfg: worker.Config{Mode: worker.AllReduce, Job: "differ", World: 2}, set: set, train: func(ctx context.Context, c *worker.Client) error {
			name, opt := "x", sgd(0.1)
			if c.Rank() == 1 && differ == "name" {
				name = "y"
			} else if c.Rank() == 1 {
				opt = sgd(0.2)
			}
			d, err := c.Dense(ctx, name, []int{3}, worker.DenseSpec{Optimizer: opt})
			if err != nil {
				return err
			}
			errs[c.Rank()] = c.Push(ctx, 1, nil, worker.Gradient{Table: d, Values: []float32{1, 2, 3}})
			return nil
		}}.run(t)
		for rank, err := range errs {
			if err == nil || !strings.Contains(err.Error(), "give all workers the same model") {
				t.Errorf("another %s, rank %d: %v", differ, rank, err)
			}
		}
	}
}

// The gradient of a dense tensor is whole: one of some blocks is refused, with any number of workers.
func TestDenseGradientWithKeysIsRefused(t *testing.T) {
	t.Parallel()
	for world := 1; world <= 2; world++ {
		crew{cfg: worker.Config{Mode: worker.AllReduce, Job: "keys", World: world, Sum: true}, train: func(ctx context.Context, c *worker.Client) error {
			d, err := c.Dense(ctx, "w", []int{2}, worker.DenseSpec{Optimizer: sgd(1)})
			if err != nil {
				return err
			}
			if err := c.Push(ctx, 1, nil, worker.Gradient{Table: d, Values: []float32{1, 1}}); err != nil {
				return err
			}
			if err := c.Push(ctx, 1, nil, worker.Gradient{Table: d, Keys: []uint64{0}, Values: []float32{0, 0}}); err == nil || !strings.Contains(err.Error(), "without keys") {
				return fmt.Errorf("a gradient with keys: %w", err)
			}
			if err := c.Push(ctx, 1, nil, worker.Gradient{Table: d, Values: []float32{1, 1}}); err != nil {
				return err
			}
			out := make([]float32, 2)
			if err := c.Pull(ctx, worker.Read{Table: d, Out: out}); err != nil {
				return err
			}
			if sum := float32(-2 * world); !slices.Equal(out, []float32{sum, sum}) {
				return fmt.Errorf("parameters %v, want %v", out, sum)
			}
			return nil
		}}.run(t)
	}
}

func TestNonFiniteGradientsAreRefusedByName(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"reject", "zero"} {
		errs := make([]error, 3)
		crew{apart: true, cfg: worker.Config{Mode: worker.AllReduce, Job: "nan", World: 3}, train: func(ctx context.Context, c *worker.Client) error {
			d, err := c.Dense(ctx, "w", []int{2}, worker.DenseSpec{Optimizer: sgd(1), NonFinite: policy})
			if err != nil {
				return err
			}
			for step := range 3 {
				g := []float32{1, 1}
				if step == 1 && c.Rank() == 1 {
					g[1] = float32(math.NaN())
				}
				if errs[c.Rank()] == nil {
					errs[c.Rank()] = c.Push(ctx, 1, nil, worker.Gradient{Table: d, Values: g})
				}
			}
			out := make([]float32, 2)
			if err := c.Pull(ctx, worker.Read{Table: d, Out: out}); err != nil {
				return err
			}
			if policy == "zero" && !slices.Equal(out, []float32{-3, -1 - 2.0/3 - 1}) {
				return fmt.Errorf("parameters %v", out)
			}
			return nil
		}}.run(t)
		for rank, err := range errs {
			if policy == "reject" && (!errors.Is(err, worker.ErrNonFinite) || !strings.Contains(err.Error(), `rank 1: worker "worker-1": table "w", key 0: the gradient is NaN`)) ||
				policy == "zero" && err != nil {
				t.Errorf("%s, rank %d: %v", policy, rank, err)
			}
		}
	}
}
