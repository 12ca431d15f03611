package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"hcclps/p2p/backend"
	"hcclps/p2p/inproc"
	"hcclps/ps"
	"hcclps/worker"
	"hcclps/worker/dataset"
	"hcclps/worker/model"
)

// crew is the workers of a job in one process, on a network of its own.
type crew struct {
	cfg     worker.Config
	servers *ps.Local // nil: none
	// train is what each rank does; the digest of what is there then is compared with the others'. A rank that returns errDied begins again.
	train func(ctx context.Context, c *worker.Client) error
	apart bool                               // no digests
	noted bool                               // the workers meet by a note at the servers
	set   func(rank int, cfg *worker.Config) // nil: all have cfg
}

// run runs all ranks to their end, and returns the digest of the parameters, which all must agree on.
func (w crew) run(t *testing.T) string {
	t.Helper()
	network := inproc.NewNetwork()
	digests, errs := make([]string, max(w.cfg.World, 1)), make([]error, max(w.cfg.World, 1))
	var wg sync.WaitGroup
	for rank := range digests {
		wg.Go(func() {
			cfg := w.cfg
			cfg.Rank, cfg.Network = rank, network
			cfg.Meet.Master = "rank0:1"
			if rank > 0 {
				cfg.Meet.Listen = fmt.Sprintf("rank%d:0", rank)
			}
			if w.noted {
				cfg.Meet.Master, cfg.Meet.Listen = "", fmt.Sprintf("rank%d:0", rank)
			}
			if w.set != nil {
				w.set(rank, &cfg)
			}
			if w.servers != nil {
				cfg.Servers, cfg.Cluster, cfg.Network = w.servers.Addrs(), w.servers.Cluster(), w.servers.Network()
			}
			digests[rank], errs[rank] = w.one(t.Context(), cfg)
			for errors.Is(errs[rank], errDied) {
				digests[rank], errs[rank] = w.one(t.Context(), cfg)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("%v, %d workers: %v", w.cfg.Mode, w.cfg.World, err)
	}
	for rank, d := range digests {
		if d != digests[0] {
			t.Errorf("%v: rank %d has digest %.8s, rank 0 %.8s", w.cfg.Mode, rank, d, digests[0])
		}
	}
	return digests[0]
}

func (w crew) one(ctx context.Context, cfg worker.Config) (string, error) {
	c, err := worker.Connect(ctx, cfg)
	if err != nil {
		return "", err
	}
	err = w.train(ctx, c)
	var digest string
	if err == nil && !w.apart {
		digest, err = c.Digest(ctx)
	}
	if err != nil {
		c.Abandon()
		return "", fmt.Errorf("rank %d: %w", cfg.Rank, err)
	}
	return digest, c.Close(ctx)
}

// schema is that of the rows of stream.
func schema() *dataset.Schema {
	return &dataset.Schema{Features: []dataset.Feature{
		{Name: "user", Kind: dataset.KindID, Fit: &dataset.Fit{}}, {Name: "items", Kind: dataset.KindIDs, Fit: &dataset.Fit{}},
	}}
}

// fitted trains a built-in model on the rows of stream.
func fitted(o model.Options, src stream, opt worker.TrainOptions) func(ctx context.Context, c *worker.Client) error {
	return func(ctx context.Context, c *worker.Client) error {
		m, err := model.New(ctx, c, schema(), o)
		if err != nil {
			return err
		}
		own := src
		_, err = c.Train(ctx, m, &own, opt)
		return err
	}
}

// Links that are measured change nothing of what is trained.
func TestMeasuredLinksGiveTheSameBits(t *testing.T) {
	t.Parallel()
	train := fitted(model.Options{Model: model.NameDeepFM, Optimizer: worker.Optimizer{Name: "adam"}}, stream{rows: 300, batch: 64}, worker.TrainOptions{Epochs: 1})
	cfg := worker.Config{Job: "plain", World: 3, Seed: 5, Mode: worker.AllReduce, RankOrder: true}
	want := crew{cfg: cfg, train: train}.run(t)
	cfg.Job, cfg.Measure = "measured", true
	if got := (crew{cfg: cfg, train: train}.run(t)); got != want {
		t.Errorf("digest %.8s with measured links, %.8s without", got, want)
	}
}

// Workers that know the servers alone find each other by them.
func TestWorkersMeetAtTheServers(t *testing.T) {
	t.Parallel()
	l := scratch(t)
	cfg := worker.Config{Job: "noted", World: 3, Seed: 5, Mode: worker.Hybrid}
	w := crew{cfg: cfg, servers: l, noted: true, train: fitted(model.Options{Model: model.NameLR, Optimizer: worker.Optimizer{Name: "adagrad"}}, stream{rows: 200, batch: 64}, worker.TrainOptions{Epochs: 1})}
	w.run(t)
}

// TestModesGiveTheSameBits trains with servers and without.
func TestModesGiveTheSameBits(t *testing.T) {
	t.Parallel()
	l := scratch(t)
	for _, name := range []string{model.NameLR, model.NameDeepFM} {
		for world := 1; world <= 3; world++ {
			for _, opt := range []string{"adagrad", "adam"} {
				train := fitted(model.Options{Model: name, Optimizer: worker.Optimizer{Name: opt}}, stream{rows: 700, batch: 64}, worker.TrainOptions{Epochs: 2})
				cfg := worker.Config{Job: fmt.Sprintf("%s/%s/%d", name, opt, world), World: world, Seed: 5, RankOrder: true}
				if opt == "adam" {
					cfg.Bulk.Transport = backend.TCP // else workers of a host share memory
				}
				want := crew{cfg: cfg, servers: l, train: train}.run(t)
				for mode, servers := range map[worker.Mode]*ps.Local{worker.AllReduce: nil, worker.Hybrid: l} {
					cfg.Mode = mode
					cfg.Job = fmt.Sprintf("%s/%v", cfg.Job, mode)
					if got := (crew{cfg: cfg, servers: servers, train: train}.run(t)); got != want {
						t.Errorf("%s, %s, %d workers: digest %.8s with %v, %.8s with servers", name, opt, world, got, mode, want)
					}
				}
			}
		}
	}
}

// Rows of long gradients are summed on their way between workers that share no memory: the bits are those of servers.
func TestLongGradientsGiveTheBitsOfServers(t *testing.T) {
	t.Parallel()
	train := func(ctx context.Context, c *worker.Client) error {
		e, err := c.Embedding(ctx, "long", worker.EmbeddingSpec{Dim: 64, Optimizer: sgd(0.1)})
		if err != nil {
			return err
		}
		for step := range 3 {
			const n = 2500
			g := worker.Gradient{Table: e, Keys: make([]uint64, n), Values: make([]float32, 64*n)}
			for i := range g.Keys {
				g.Keys[i] = uint64((1 + c.Rank()) * (1 + i)) // some are of both
			}
			for i := range g.Values {
				g.Values[i] = float32(i%97+step) / float32(3+c.Rank())
			}
			if err := c.Push(ctx, 10, nil, g); err != nil {
				return err
			}
		}
		return c.Finish(ctx)
	}
	cfg := worker.Config{Job: "long", World: 3, Seed: 5}
	cfg.Bulk.Transport = backend.TCP
	want := crew{cfg: cfg, servers: scratch(t), train: train}.run(t)
	cfg.Mode = worker.AllReduce
	if got := (crew{cfg: cfg, train: train}.run(t)); got != want {
		t.Errorf("digest %.8s, with servers %.8s", got, want)
	}
}
