// Allreduce trains without servers: each of four workers holds all parameters, and gradients are summed between them. Run it, and the workers are
// goroutines; run it as `ps-worker launch -n 4 --servers 0 -- ./allreduce`, and they are processes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync"

	"hcclps/p2p/inproc"
	"hcclps/p2p/world"
	"hcclps/worker"
	"hcclps/worker/dataset"
)

const (
	workers  = 4
	features = 2000
	batch    = 250
	batches  = 80 // an epoch
)

// logistic is a model of one dense tensor: the score of a row is weight . x.
type logistic struct{ weight worker.Dense }

// Step implements worker.Model.
func (m *logistic) Step(s *worker.Step) error {
	w, err := s.Value(m.weight)
	if err != nil {
		return err
	}
	x, grad, scores := s.Ragged(dataset.Features), make([]float32, features), make([]float32, s.Rows())
	for row, label := range s.Label() {
		var logit float32
		keys := x.Keys[x.Offsets[row]:x.Offsets[row+1]]
		for _, k := range keys {
			logit += w.Data[k]
		}
		scores[row] = float32(1 / (1 + math.Exp(-float64(logit))))
		s.Loss(math.Log1p(math.Exp(float64((1-2*label)*logit))), 1)
		for _, k := range keys {
			grad[k] += scores[row] - label
		}
	}
	s.Score(scores)
	if !s.Training() {
		return nil
	}
	return s.Grad(w, grad) // it leaves at once
}

// rows is a source whose batches are functions of their number: 20 features a row, each of which has a hidden weight.
type rows struct {
	seed  uint64
	epoch int
	at    int
}

// Next implements dataset.Source.
func (r *rows) Next(b *dataset.Batch) (bool, error) {
	if r.at >= batches {
		r.epoch, r.at = r.epoch+1, 0
		return false, nil
	}
	rng := rand.New(rand.NewPCG(r.seed, uint64(r.at)))
	*b = dataset.Batch{Rows: batch}
	x := dataset.Ragged{Offsets: []int32{0}}
	for range batch {
		logit := 0.0
		for range 20 {
			k := rng.Uint64N(features)
			logit += math.Sin(float64(k)) // the hidden weight
			x.Keys, x.Weights = append(x.Keys, k), append(x.Weights, 1)
		}
		x.Offsets = append(x.Offsets, int32(len(x.Keys)))
		b.Label, b.Weight = append(b.Label, map[bool]float32{true: 1}[rng.Float64() < 1/(1+math.Exp(-logit))]), append(b.Weight, 1)
	}
	b.Features = []dataset.Column{{Name: dataset.Features, Ragged: x}}
	r.at++
	return true, nil
}

// Seek implements dataset.Source.
func (r *rows) Seek(epoch, batch int) error {
	r.epoch, r.at = epoch, batch
	return nil
}

// Close implements dataset.Source.
func (r *rows) Close() error { return nil }

// result is what a worker ends with.
type result struct {
	rank   int
	rows   uint64
	auc    float64
	digest string // of all parameters
}

// work is one worker.
func work(ctx context.Context, cfg worker.Config) (r result, err error) {
	c, err := worker.Connect(ctx, cfg)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	w, err := c.Dense(ctx, "weight", []int{features}, worker.DenseSpec{Optimizer: worker.Optimizer{Name: "adam", Params: map[string]float64{"lr": 0.03}}})
	if err != nil {
		return r, err
	}
	m := &logistic{w}
	rep, err := c.Train(ctx, m, &rows{seed: 1}, worker.TrainOptions{Epochs: 6})
	if err != nil {
		return r, err
	}
	judged, err := c.Evaluate(ctx, m, &rows{seed: 2}) // each worker has all there is to judge
	if err != nil {
		return r, err
	}
	digest, err := c.Digest(ctx)
	return result{c.Rank(), rep.Rows, judged.AUC(), digest}, err
}

// run is this process's worker, where the environment says that it is one of several processes, or all of them.
func run(ctx context.Context) ([]result, error) {
	cfg := worker.Config{Mode: worker.AllReduce, Job: os.Getenv("HCCLPS_JOB")}
	if _, launched := os.LookupEnv("RANK"); launched {
		var err error
		if cfg.Meet, err = world.Env(os.LookupEnv); err != nil {
			return nil, err
		}
		cfg.Rank, cfg.World = cfg.Meet.Rank, cfg.Meet.Size
		r, err := work(ctx, cfg)
		return []result{r}, err
	}
	cfg.World, cfg.Network, cfg.Meet.Master = workers, inproc.NewNetwork(), "worker0:1"
	results, errs := make([]result, workers), make([]error, workers)
	var wg sync.WaitGroup
	for rank := range workers {
		own := cfg
		own.Rank, own.Meet.Listen = rank, fmt.Sprintf("worker%d:1", rank)
		wg.Go(func() { results[rank], errs[rank] = work(ctx, own) })
	}
	wg.Wait()
	return results, errors.Join(errs...)
}

func main() {
	flag.Parse() // there are none
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "allreduce: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	results, err := run(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "allreduce:", err)
		os.Exit(1)
	}
	for _, r := range results {
		fmt.Printf("worker %d: trained on %d rows, test AUC %.4f, parameters %.12s\n", r.rank, r.rows, r.auc, r.digest)
	}
}
