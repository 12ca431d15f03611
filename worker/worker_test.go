package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"hcclps/ps"
	"hcclps/ps/pstest"
	"hcclps/ps/wire"
	"hcclps/worker"
	"hcclps/worker/dataset"
	"hcclps/worker/model"
)

// cluster runs three replicated servers for one test.
func cluster(t *testing.T) *ps.Local {
	t.Helper()
	return leasing(t, time.Minute)
}

// leasing is a cluster that does without a worker when it has not heard of it for so long.
func leasing(t *testing.T, lease time.Duration) *ps.Local {
	t.Helper()
	return pstest.Serve(t, ps.LocalConfig{LogBudget: 4 << 20, Lease: lease})
}

func connect(t *testing.T, l *ps.Local, cfg worker.Config) *worker.Client {
	t.Helper()
	c, err := dial(t.Context(), l, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func dial(ctx context.Context, l *ps.Local, cfg worker.Config) (*worker.Client, error) {
	cfg.Servers, cfg.Cluster, cfg.Network = l.Addrs(), l.Cluster(), l.Network()
	if cfg.Deadline == 0 {
		cfg.Deadline = 90 * time.Second
	}
	return worker.Connect(ctx, cfg)
}

func end(t *testing.T, c *worker.Client) {
	t.Helper()
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// memory is a Source over rows made in memory: batch b of an epoch is a
// function of (epoch, b).
type memory struct {
	batches, rows int
	epoch, at     int
}

func (m *memory) Next(b *dataset.Batch) (bool, error) {
	if m.at >= m.batches {
		m.epoch, m.at = m.epoch+1, 0
		return false, nil
	}
	*b = dataset.Batch{Rows: m.rows}
	bags := dataset.Ragged{Offsets: []int32{0}}
	for i := range m.rows {
		id := uint64(m.epoch*7919 + m.at*131 + i*17)
		b.Label = append(b.Label, float32(id%3&1))
		for j := range uint64(4) {
			bags.Keys = append(bags.Keys, id*(j+3)%97+100*j)
			bags.Weights = append(bags.Weights, 1+float32(j)/4)
		}
		bags.Offsets = append(bags.Offsets, int32(len(bags.Keys)))
	}
	b.Features = []dataset.Column{{Name: dataset.Features, Ragged: bags}}
	m.at++
	return true, nil
}

func (m *memory) Seek(epoch, batch int) error { m.epoch, m.at = epoch, batch; return nil }
func (*memory) Close() error                  { return nil }

// train runs lr over src on one connection and returns the digest of all
// parameters.
func train(t *testing.T, c *worker.Client, src dataset.Source, opt worker.TrainOptions) string {
	t.Helper()
	m, err := model.NewLR(t.Context(), c, worker.Optimizer{Name: "adagrad"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Train(t.Context(), m, src, opt); err != nil {
		t.Fatal(err)
	}
	d, err := c.Digest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestPrefetchPartsAndResumeGiveTheSameBits(t *testing.T) {
	t.Parallel()
	l := cluster(t)
	opt := worker.TrainOptions{Epochs: 3}
	src := func() *memory { return &memory{batches: 20, rows: 8} }

	c := connect(t, l, worker.Config{Job: "plain"})
	want := train(t, c, src(), opt)
	end(t, c)

	c = connect(t, l, worker.Config{Job: "no prefetch"})
	if got := train(t, c, src(), worker.TrainOptions{Epochs: 3, NoPrefetch: true}); got != want {
		t.Errorf("without prefetch: digest %s, want %s", got, want)
	}
	end(t, c)

	c = connect(t, l, worker.Config{Job: "parts", Parts: 4})
	if got := train(t, c, src(), opt); got != want {
		t.Errorf("in 4 parts: digest %s, want %s", got, want)
	}
	end(t, c)

	c = connect(t, l, worker.Config{Job: "resumed"})
	died := errors.New("died here")
	ctx, cancel := context.WithCancelCause(t.Context())
	m, err := model.NewLR(ctx, c, worker.Optimizer{Name: "adagrad"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Train(ctx, m, src(), worker.TrainOptions{Epochs: 3, OnStep: func(p worker.Progress) {
		if p.Step == 23 {
			cancel(died)
		}
	}})
	if !errors.Is(err, died) {
		t.Fatalf("train: %v, want %v", err, died)
	}
	c.Abandon()
	c = connect(t, l, worker.Config{Job: "resumed"})
	if c.Clock() < 23 || c.Clock() > 24 {
		t.Errorf("resumed at step %d, want 23 or 24", c.Clock())
	}
	if got := train(t, c, src(), opt); got != want {
		t.Errorf("resumed: digest %s, want %s", got, want)
	}
	end(t, c)
}

func TestTrainEqualsAPlainLoop(t *testing.T) {
	t.Parallel()
	l := cluster(t)
	c := connect(t, l, worker.Config{Job: "sgd"})
	defer end(t, c)
	m, err := model.NewLR(t.Context(), c, worker.Optimizer{Name: "sgd", Params: map[string]float64{"lr": 0.5}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Train(t.Context(), m, &memory{batches: 10, rows: 8}, worker.TrainOptions{Epochs: 2}); err != nil {
		t.Fatal(err)
	}
	weights, bias := plainLoop(&memory{batches: 10, rows: 8}, 2, 0.5)
	e, err := c.Embedding(t.Context(), "lr.weight", worker.EmbeddingSpec{Dim: 1, Optimizer: worker.Optimizer{Name: "sgd", Params: map[string]float64{"lr": 0.5}}})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	err = c.Scan(t.Context(), e, func(r wire.Row) error {
		seen++
		if r.Values[0] != weights[r.Key] {
			t.Errorf("weight of %d is %v, want %v", r.Key, r.Values[0], weights[r.Key])
		}
		return nil
	})
	if err != nil || seen != len(weights) {
		t.Errorf("%d rows, want %d: %v", seen, len(weights), err)
	}
	d, err := c.Dense(t.Context(), "lr.bias", []int{1}, worker.DenseSpec{Optimizer: worker.Optimizer{Name: "sgd", Params: map[string]float64{"lr": 0.5}}})
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, 1)
	if err := c.PullFinal(t.Context(), worker.Read{Table: d, Out: got}); err != nil || got[0] != bias {
		t.Errorf("bias %v, want %v: %v", got[0], bias, err)
	}
}

// plainLoop is logistic regression by sgd, in memory.
func plainLoop(src dataset.Source, epochs int, rate float32) (map[uint64]float32, float32) {
	weights := map[uint64]float32{}
	var bias float32
	var b dataset.Batch
	for range epochs {
		for {
			if ok, _ := src.Next(&b); !ok {
				break
			}
			grads := map[uint64]float32{}
			var biasGrad float32
			bags := b.Column(dataset.Features)
			for i := range b.Rows {
				var sum float32
				for j := bags.Offsets[i]; j < bags.Offsets[i+1]; j++ {
					sum += float32(bags.Weights[j] * weights[bags.Keys[j]])
				}
				g := float32(1/(1+math.Exp(-(float64(sum)+float64(bias))))) - b.Label[i]
				for j := bags.Offsets[i]; j < bags.Offsets[i+1]; j++ {
					grads[bags.Keys[j]] += float32(bags.Weights[j] * g)
				}
				biasGrad += g
			}
			for k, g := range grads {
				weights[k] -= float32(rate * (g / float32(b.Rows)))
			}
			bias -= float32(rate * (biasGrad / float32(b.Rows)))
		}
	}
	return weights, bias
}

func TestScaleRateTakesEffectAtItsStep(t *testing.T) {
	t.Parallel()
	l := cluster(t)
	c := connect(t, l, worker.Config{Job: "rate"})
	defer end(t, c)
	e, err := c.Embedding(t.Context(), "e", worker.EmbeddingSpec{Optimizer: worker.Optimizer{Name: "sgd", Params: map[string]float64{"lr": 1}}})
	if err != nil {
		t.Fatal(err)
	}
	push := func() float32 {
		t.Helper()
		if err := c.Push(t.Context(), 1, nil, worker.Gradient{Table: e, Keys: []uint64{5}, Values: []float32{1}}); err != nil {
			t.Fatal(err)
		}
		out := make([]float32, 1)
		if err := c.Pull(t.Context(), worker.Read{Table: e, Keys: []uint64{5}, Out: out}); err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	push()
	at, err := c.ScaleRate(t.Context(), 0.25)
	if err != nil {
		t.Fatal(err)
	}
	want := float32(-1)
	for c.Clock() < at+3 {
		rate := float32(1)
		if c.Clock() >= at {
			rate = 0.25
		}
		want -= rate
		if got := push(); got != want {
			t.Errorf("after step %d (rate changes at %d): %v, want %v", c.Clock()-1, at, got, want)
		}
	}
}

func ExampleClient_Push() {
	ctx := context.Background()
	local, err := ps.NewLocal(ps.LocalConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- local.Run(serving) }()
	defer func() {
		stop()
		if err := <-served; err != nil {
			fmt.Println(err)
		}
	}()
	if err := local.Ready(ctx); err != nil {
		fmt.Println(err)
		return
	}
	c, err := worker.Connect(ctx, worker.Config{Servers: local.Addrs(), Cluster: local.Cluster(), Network: local.Network()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Abandon()
	item, err := c.Embedding(ctx, "item", worker.EmbeddingSpec{Dim: 2, Optimizer: worker.Optimizer{Name: "sgd", Params: map[string]float64{"lr": 1}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	keys := []uint64{3, 1 << 40}
	if err := c.Push(ctx, 1, nil, worker.Gradient{Table: item, Keys: keys, Values: []float32{1, 2, 3, 4}}); err != nil {
		fmt.Println(err)
		return
	}
	rows := make([]float32, 4)
	if err := c.Pull(ctx, worker.Read{Table: item, Keys: keys, Out: rows}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rows, "after step", c.Clock())
	// Output: [-1 -2 -3 -4] after step 1
}
