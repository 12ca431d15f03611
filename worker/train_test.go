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
	"hcclps/worker/dataset"
	"hcclps/worker/metric"
	"hcclps/worker/model"
)

// scratch runs one server without replication for one test.
func scratch(t *testing.T) *ps.Local {
	t.Helper()
	l, err := ps.NewLocal(ps.LocalConfig{Servers: 1, Scratch: true, Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l)
	return l
}

// serve runs a cluster until the test ends.
func serve(t *testing.T, l *ps.Local) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- l.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("servers: %v", err)
		}
	})
	if err := l.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// stream is a Source of rows that are functions of their number, in batches of
// any size: two sparse features, and a label that the first one decides.
type stream struct {
	rows, batch int
	epoch, at   int // row
	label       func(row int) float32
}

func (s *stream) Next(b *dataset.Batch) (bool, error) {
	if s.at >= s.rows {
		s.epoch, s.at = s.epoch+1, 0
		return false, nil
	}
	*b = dataset.Batch{}
	user, items := dataset.Ragged{Offsets: []int32{0}}, dataset.Ragged{Offsets: []int32{0}}
	for ; s.at < s.rows && b.Rows < s.batch; s.at++ {
		b.Rows++
		label := float32(s.at * 7 % 5 & 1)
		if s.label != nil {
			label = s.label(s.at)
		}
		b.Label, b.Weight = append(b.Label, label), append(b.Weight, 1)
		user.Keys, user.Weights = append(user.Keys, uint64(s.at*s.at%17)), append(user.Weights, 1)
		user.Offsets = append(user.Offsets, int32(len(user.Keys)))
		for j := range s.at % 4 {
			items.Keys = append(items.Keys, uint64((s.at*31+j*j)%23))
			items.Weights = append(items.Weights, 0.3+float32(j))
		}
		items.Offsets = append(items.Offsets, int32(len(items.Keys)))
	}
	b.Features = []dataset.Column{{Name: "user", Ragged: user}, {Name: "items", Ragged: items}}
	return true, nil
}

func (s *stream) Seek(epoch, batch int) error {
	s.epoch, s.at = epoch, min(batch*s.batch, s.rows)
	return nil
}
func (*stream) Close() error { return nil }

// shared is a model whose two features use one table in three ways, beside a
// dense vector: score = dense . (user + mean of items) + sum of items[0].
type shared struct {
	rows   worker.Embedding
	weight worker.Dense
	values bool // the score is a value, not a probability
}

const sharedDim = 3

func newShared(ctx context.Context, c *worker.Client, opt worker.Optimizer) (*shared, error) {
	e, err := c.Embedding(ctx, "rows", worker.EmbeddingSpec{Dim: sharedDim, Optimizer: opt, Init: worker.Init{Name: "uniform", Params: map[string]float64{"low": -0.5, "high": 0.5}}})
	if err != nil {
		return nil, err
	}
	d, err := c.Dense(ctx, "weight", []int{sharedDim}, worker.DenseSpec{Optimizer: opt, Init: worker.Init{Name: "constant", Params: map[string]float64{"value": 0.5}}})
	return &shared{rows: e, weight: d}, err
}

func (m *shared) Regression() bool { return m.values }

func (m *shared) Step(s *worker.Step) error {
	user, err := s.Lookup(m.rows, s.Ragged("user"), worker.Sum)
	if err != nil {
		return err
	}
	items, err := s.Lookup(m.rows, s.Ragged("items"), worker.Mean)
	if err != nil {
		return err
	}
	each, err := s.Lookup(m.rows, s.Ragged("items"), worker.None)
	if err != nil {
		return err
	}
	w, err := s.Value(m.weight)
	if err != nil {
		return err
	}
	var loss float64
	scores, grads := make([]float32, s.Rows()), make([]float32, s.Rows())
	offsets := s.Ragged("items").Offsets
	for i, label := range s.Label() {
		logit := 0.0
		for d := range sharedDim {
			logit += float64(w.Data[d]) * float64(user.Data[i*sharedDim+d]+items.Data[i*sharedDim+d])
		}
		for j := offsets[i]; j < offsets[i+1]; j++ {
			logit += float64(each.Data[j*sharedDim])
		}
		scores[i] = float32(1 / (1 + math.Exp(-logit)))
		if m.values {
			scores[i] = float32(logit)
		}
		grads[i] = scores[i] - label
		loss += float64(grads[i] * grads[i])
	}
	s.Score(scores)
	s.Loss(loss, s.Rows())
	if !s.Training() {
		return nil
	}
	dUser, dEach, dWeight := make([]float32, len(user.Data)), make([]float32, len(each.Data)), s.GradOf(w)
	for i, g := range grads {
		for d := range sharedDim {
			dUser[i*sharedDim+d] = g * w.Data[d]
			dWeight[d] += g * (user.Data[i*sharedDim+d] + items.Data[i*sharedDim+d])
		}
		for j := offsets[i]; j < offsets[i+1]; j++ {
			dEach[j*sharedDim] = g
		}
	}
	return errors.Join(s.Grad(user, dUser), s.Grad(items, dUser), s.Grad(each, dEach))
}

// errDied is what train returns for a worker that is to be started again.
var errDied = errors.New("died here")

// workers runs a job's ranks, each with a client and a model of its own, and
// returns the digest of the parameters.
func workers(t *testing.T, l *ps.Local, cfg worker.Config, opt worker.Optimizer, train func(rank int, c *worker.Client, m *shared) error) string {
	t.Helper()
	var wg sync.WaitGroup
	var digest string
	for rank := range max(cfg.World, 1) {
		wg.Go(func() {
			cfg := cfg
			cfg.Rank = rank
			live := func() error {
				c, err := dial(t.Context(), l, cfg)
				if err != nil {
					return err
				}
				defer c.Abandon()
				m, err := newShared(t.Context(), c, opt)
				if err != nil {
					return err
				}
				if err := train(rank, c, m); err != nil || rank != 0 {
					return err
				}
				digest, err = c.Digest(t.Context())
				return err
			}
			err := live()
			for errors.Is(err, errDied) {
				err = live()
			}
			if err != nil {
				t.Errorf("job %s, rank %d: %v", cfg.Job, rank, err)
			}
		})
	}
	wg.Wait()
	return digest
}

func sgd(lr float64) worker.Optimizer {
	return worker.Optimizer{Name: "sgd", Params: map[string]float64{"lr": lr}}
}

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
