package worker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"hcclps/ps"
	"hcclps/worker"
	"hcclps/worker/metric"
	"hcclps/worker/model"
)

func TestAccumulatedBatchesHaveTheBitsOfALargeOne(t *testing.T) {
	t.Parallel()
	l := scratch(t)
	for _, opt := range []worker.Optimizer{sgd(0.1), {Name: "adam"}} {
		for world := 1; world <= 3; world++ {
			digests := map[int]string{}
			for _, n := range []int{1, 2, 4} {
				job := fmt.Sprintf("%s/%d/%d", opt.Name, world, n)
				digests[n] = workers(t, l, worker.Config{Job: job, World: world, Seed: 7}, opt, func(_ int, c *worker.Client, m *shared) error {
					src := &stream{rows: 2000, batch: 256 / n}
					rep, err := c.Train(t.Context(), m, src, worker.TrainOptions{Epochs: 2, Accumulate: n})
					if want := 2 * uint64((2000+256*world-1)/(256*world)); err == nil && rep.Steps != want {
						return fmt.Errorf("%d steps, want %d", rep.Steps, want)
					}
					return err
				})
			}
			if digests[1] == "" || digests[2] != digests[1] || digests[4] != digests[1] {
				t.Errorf("%s, world %d: digests by batches a step: %v", opt.Name, world, digests)
			}
		}
	}
}

func TestAccumulateCountsEveryRowOnceUnderASP(t *testing.T) {
	t.Parallel()
	l := scratch(t)
	var mu sync.Mutex
	var rows, steps uint64
	workers(t, l, worker.Config{Job: "asp", World: 3, Sync: worker.ASP}, sgd(0.1), func(_ int, c *worker.Client, m *shared) error {
		rep, err := c.Train(t.Context(), m, &stream{rows: 1000, batch: 10}, worker.TrainOptions{Epochs: 2, Accumulate: 3})
		mu.Lock()
		defer mu.Unlock()
		rows += rep.Rows
		steps += rep.Steps
		return err
	})
	if rows != 2000 || steps < 67 || steps > 90 {
		t.Errorf("%d rows in %d steps, want 2000 in about 72", rows, steps)
	}
}

func TestSchedulesAreEvaluatedAtTheEntrysStep(t *testing.T) {
	t.Parallel()
	l := scratch(t)
	c := connect(t, l, worker.Config{Job: "schedule"})
	defer end(t, c)
	schedules := []worker.Schedule{{}, {Kind: "cosine", Warmup: 3, Steps: 8, Floor: 0.25}, {Kind: "step", Steps: 2, Decay: 0.5}}
	tables, want := make([]worker.Embedding, len(schedules)), make([]float32, len(schedules))
	for i, s := range schedules {
		opt := sgd(1)
		opt.Schedule = s
		var err error
		if tables[i], err = c.Embedding(t.Context(), fmt.Sprint("e", i), worker.EmbeddingSpec{Optimizer: opt}); err != nil {
			t.Fatal(err)
		}
	}
	changed, scale := ^uint64(0), float32(1)
	for c.Clock() < 14 {
		if c.Clock() == 5 {
			var err error
			if changed, err = c.ScaleRate(t.Context(), 0.5); err != nil {
				t.Fatal(err)
			}
		}
		if c.Clock() >= changed {
			scale = 0.5
		}
		var grads []worker.Gradient
		for i, e := range tables {
			want[i] -= float32(scale * schedules[i].At(c.Clock()))
			grads = append(grads, worker.Gradient{Table: e, Keys: []uint64{5}, Values: []float32{1}})
		}
		if err := c.Push(t.Context(), 1, nil, grads...); err != nil {
			t.Fatal(err)
		}
		for i, e := range tables {
			got := make([]float32, 1)
			if err := c.Pull(t.Context(), worker.Read{Table: e, Keys: []uint64{5}, Out: got}); err != nil || got[0] != want[i] {
				t.Errorf("%v after step %d: %v, want %v: %v", schedules[i], c.Clock()-1, got[0], want[i], err)
			}
		}
	}
	_, err := c.Embedding(t.Context(), "bad", worker.EmbeddingSpec{Optimizer: worker.Optimizer{Schedule: worker.Schedule{Kind: "cosnie"}}})
	if err == nil || !strings.Contains(err.Error(), "cosnie") || !strings.Contains(err.Error(), "cosine") {
		t.Errorf("an unknown schedule: %v", err)
	}
	_, err = c.Embedding(t.Context(), "e1", worker.EmbeddingSpec{Optimizer: sgd(1)})
	if err == nil || !strings.Contains(err.Error(), "cosine") {
		t.Errorf("a differing schedule: %v", err)
	}
}

func TestClipBoundsTheMeanGradient(t *testing.T) {
	t.Parallel()
	l := scratch(t)
	moved := func(job string, clip worker.Clip, sum bool) float64 {
		var first, last []float32
		workers(t, l, worker.Config{Job: job, Sum: sum}, sgd(1), func(_ int, c *worker.Client, m *shared) error {
			read := func() []float32 {
				out := make([]float32, sharedDim*17)
				keys := make([]uint64, 17)
				for i := range keys {
					keys[i] = uint64(i)
				}
				dense := make([]float32, sharedDim)
				if err := c.Pull(t.Context(), worker.Read{Table: m.rows, Keys: keys, Out: out}, worker.Read{Table: m.weight, Out: dense}); err != nil {
					t.Error(err)
				}
				return slices.Concat(out, dense)
			}
			first = read()
			// Rows 0 to 16: their users and items have keys below 17 only in part; a
			// step of the first four has no others.
			_, err := c.Train(t.Context(), m, &stream{rows: 2, batch: 2}, worker.TrainOptions{Clip: clip, OnStep: func(worker.Progress) { last = read() }})
			return err
		})
		var squares, most float64
		for i := range first {
			d := math.Abs(float64(last[i] - first[i]))
			squares += d * d
			most = max(most, d)
		}
		if clip.Value > 0 {
			return most
		}
		return math.Sqrt(squares)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-5 {
			t.Errorf("%s: moved by %v, want %v", what, got, want)
		}
	}
	free := moved("free", worker.Clip{}, false)
	if free < 0.1 {
		t.Fatalf("moved by %v only", free)
	}
	near("norm", moved("norm", worker.Clip{Norm: 0.05}, false), 0.05)
	near("norm of a sum", moved("norm sum", worker.Clip{Norm: 0.05}, true), 0.05)
	near("value", moved("value", worker.Clip{Value: 0.01}, false), 0.01)
	near("a norm that is large enough", moved("large", worker.Clip{Norm: 100}, false), free)
}

func TestPredictAndEvaluateOfValues(t *testing.T) {
	t.Parallel()
	l := scratch(t)
	rating := func(row int) float32 { return float32(row*row%17) / 4 }
	workers(t, l, worker.Config{Job: "values"}, sgd(0.1), func(_ int, c *worker.Client, m *shared) error {
		m.values = true
		src := &stream{rows: 300, batch: 32, label: rating}
		if _, err := c.Train(t.Context(), m, src, worker.TrainOptions{Epochs: 8}); err != nil {
			return err
		}
		src = &stream{rows: 300, batch: 7, label: rating}
		got, err := c.Evaluate(t.Context(), m, src, "ndcg@5:user")
		if err != nil {
			return err
		}
		var want metric.Regression
		row := 0
		err = c.Predict(t.Context(), m, src, func(scores []float32) error {
			for _, s := range scores {
				want.Add(s, rating(row))
				row++
			}
			return nil
		})
		if err != nil {
			return err
		}
		if row != 300 || got.Rows() != 300 || got.RMSE() != want.RMSE() || !(got.RMSE() < 1) || !math.IsNaN(got.AUC()) {
			t.Errorf("rmse %v of %d rows, by predictions %v of %d", got.RMSE(), got.Rows(), want.RMSE(), row)
		}
		if v, err := got.Value("ndcg@5:user"); err != nil || !(v > 0 && v <= 1) {
			t.Errorf("ndcg %v, %v", v, err)
		}
		stop := errors.New("enough")
		if err := c.Predict(t.Context(), m, &stream{rows: 300, batch: 7}, func([]float32) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("the sink's error came back as %v", err)
		}
		_, err = c.Evaluate(t.Context(), m, src, "gauc:nobody")
		if err == nil || !strings.Contains(err.Error(), "nobody") {
			t.Errorf("a metric by an absent feature: %v", err)
		}
		return nil
	})
}

func TestMetricNames(t *testing.T) {
	for name, good := range map[string]bool{
		"auc": true, "logloss": true, "rmse": true, "gauc:user": true, "hr@10:user": true, "ndcg@1:a:b": true,
		"": false, "acu": false, "gauc": false, "gauc:": false, "hr:user": false, "hr@0:user": false, "hr@x:user": false, "auc:user": false, "gauc@3:user": false, "auc@3": false,
	} {
		_, err := (&worker.Metrics{}).Value(name)
		if asked := err == nil || strings.Contains(err.Error(), "not asked for"); asked != good {
			t.Errorf("%q: %v, want a name: %v", name, err, good)
		}
	}
}

// patience trains two workers that stop early on held data whose labels are
// noise, and reports where each stopped, and rank 0's evaluations. Rank 0 dies
// once, before step dieAt is reported, if that is not 0.
func patience(t *testing.T, l *ps.Local, job string, dieAt uint64) (reports [2]worker.Report, values map[uint64]float64, digest string) {
	t.Helper()
	values = map[uint64]float64{}
	digest = workers(t, l, worker.Config{Job: job, World: 2, Seed: 3}, sgd(0.5), func(rank int, c *worker.Client, m *shared) error {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		var err error
		reports[rank], err = c.Train(ctx, m, &stream{rows: 400, batch: 20}, worker.TrainOptions{
			Epochs: 100000, EvalEvery: 5, EvalOn: &stream{rows: 100, batch: 30, label: func(row int) float32 { return float32(row & 1) }},
			Metrics: []string{"accuracy", "auc"}, EarlyStop: worker.EarlyStop{Patience: 3},
			OnStep: func(p worker.Progress) {
				if p.Metrics != nil {
					values[p.Step] = p.Metrics["logloss"]
				}
				if rank == 0 && p.Step == dieAt {
					cancel(errDied)
				}
			},
		})
		return err
	})
	return reports, values, digest
}

func TestEarlyStopEndsAllWorkersAtOneStep(t *testing.T) {
	t.Parallel()
	l := scratch(t)
	reports, values, want := patience(t, l, "patience", 0)
	a, b := reports[0], reports[1]
	if !a.Stopped || !b.Stopped || a.Steps != b.Steps {
		t.Fatalf("rank 0 %+v, rank 1 %+v: want both stopped at one step", a, b)
	}
	steps := slices.Sorted(maps.Keys(values))
	best := steps[0]
	for _, s := range steps {
		if values[s] < values[best] {
			best = s
		}
	}
	last := steps[len(steps)-1]
	if a.BestStep != best || a.Best != values[best] || last != best+15 || a.Steps < last || a.Steps > last+3 {
		t.Errorf("best %v at step %d, stopped at %d; evaluations %v", a.Best, a.BestStep, a.Steps, values)
	}
	_, again, digest := patience(t, l, "patience of one that dies", best+5)
	if !maps.Equal(again, values) {
		t.Errorf("evaluations %v, of a rank 0 that was restarted %v", values, again)
	}
	if digest != want {
		t.Errorf("digest %s, of a rank 0 that was restarted %s", want, digest)
	}
	if len(a.Metrics) != 3 || b.Metrics != nil || b.BestStep != 0 {
		t.Errorf("metrics of rank 0 %v, of rank 1 %v", a.Metrics, b.Metrics)
	}
}

func TestTrainOptionsAreChecked(t *testing.T) {
	t.Parallel()
	l := scratch(t)
	c := connect(t, l, worker.Config{Job: "bad"})
	defer c.Abandon()
	m, err := model.NewLR(t.Context(), c, worker.Optimizer{})
	if err != nil {
		t.Fatal(err)
	}
	for want, opt := range map[string]worker.TrainOptions{
		"EvalOn":        {EvalEvery: 1},
		"need EvalEver": {EarlyStop: worker.EarlyStop{Patience: 1}},
		`"acu"`:         {EvalEvery: 1, EvalOn: &memory{}, Metrics: []string{"acu"}},
		`calibration`:   {EvalEvery: 1, EvalOn: &memory{}, EarlyStop: worker.EarlyStop{Metric: "calibration"}},
		"clip value":    {Clip: worker.Clip{Value: -1}},
		"patience -1":   {EvalEvery: 1, EvalOn: &memory{}, EarlyStop: worker.EarlyStop{Patience: -1}},
	} {
		_, err := c.Train(t.Context(), m, &memory{batches: 1, rows: 1}, opt)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", opt, err, want)
		}
	}
}
