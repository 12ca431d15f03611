// Hybrid keeps an embedding table on three servers, and the dense layer above it in both workers, which sum its gradients between themselves: what
// recommenders do whose tables are too large for a worker. The model is the one that ps and allreduce would train.
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

	"hcclps/ps"
	"hcclps/worker"
	"hcclps/worker/dataset"
)

const (
	workers = 2
	ids     = 5000
	dim     = 8 // floats of an id's vector
	batch   = 256
	batches = 100 // an epoch
)

// pooled scores a row by dense . (sum of the vectors of its ids).
type pooled struct {
	ids   worker.Embedding // on the servers
	dense worker.Dense     // in the workers
}

// Step implements worker.Model.
func (m *pooled) Step(s *worker.Step) error {
	sum, err1 := s.Lookup(m.ids, s.Ragged("ids"), worker.Sum)
	dense, err2 := s.Value(m.dense)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	scores, dSum, dDense := make([]float32, s.Rows()), make([]float32, len(sum.Data)), make([]float32, dim)
	for row, label := range s.Label() {
		at, logit := row*dim, float32(0)
		for k, w := range dense.Data {
			logit += w * sum.Data[at+k]
		}
		scores[row] = float32(1 / (1 + math.Exp(-float64(logit))))
		s.Loss(math.Log1p(math.Exp(float64((1-2*label)*logit))), 1)
		d := scores[row] - label
		for k, w := range dense.Data {
			dSum[at+k], dDense[k] = d*w, dDense[k]+d*sum.Data[at+k]
		}
	}
	s.Score(scores)
	if !s.Training() {
		return nil
	}
	return errors.Join(s.Grad(dense, dDense), s.Grad(sum, dSum))
}

// rows is a source whose batches are functions of their number: 15 ids a row, each of which has a hidden weight.
type rows struct {
	seed uint64
	at   int
}

// Next implements dataset.Source.
func (r *rows) Next(b *dataset.Batch) (bool, error) {
	if r.at >= batches {
		r.at = 0
		return false, nil
	}
	rng := rand.New(rand.NewPCG(r.seed, uint64(r.at)))
	*b = dataset.Batch{Rows: batch}
	bags := dataset.Ragged{Offsets: []int32{0}}
	for range batch {
		logit := 0.0
		for range 15 {
			id := rng.Uint64N(ids)
			logit += math.Sin(float64(id)) // the hidden weight
			bags.Keys, bags.Weights = append(bags.Keys, id), append(bags.Weights, 1)
		}
		bags.Offsets = append(bags.Offsets, int32(len(bags.Keys)))
		label := float32(0)
		if rng.Float64() < 1/(1+math.Exp(-logit)) {
			label = 1
		}
		b.Label, b.Weight = append(b.Label, label), append(b.Weight, 1)
	}
	b.Features = []dataset.Column{{Name: "ids", Ragged: bags}}
	r.at++
	return true, nil
}

// Seek implements dataset.Source: all epochs are alike.
func (r *rows) Seek(_, batch int) error {
	r.at = batch
	return nil
}

// Close implements dataset.Source.
func (r *rows) Close() error { return nil }

// work is one worker; rank 0 judges.
func work(ctx context.Context, cfg worker.Config) (auc float64, err error) {
	c, err := worker.Connect(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	start := worker.Init{Name: "normal", Params: map[string]float64{"std": 0.3}}
	adam := worker.Optimizer{Name: "adam", Params: map[string]float64{"lr": 0.02}}
	table, err1 := c.Embedding(ctx, "ids", worker.EmbeddingSpec{Dim: dim, Init: start, Optimizer: adam})
	dense, err2 := c.Dense(ctx, "dense", []int{dim}, worker.DenseSpec{Init: start, Optimizer: adam})
	if err := errors.Join(err1, err2); err != nil {
		return 0, err
	}
	m := &pooled{table, dense}
	if _, err := c.Train(ctx, m, &rows{seed: 1}, worker.TrainOptions{Epochs: 6}); err != nil || c.Rank() != 0 {
		return 0, err
	}
	judged, err := c.Evaluate(ctx, m, &rows{seed: 2})
	if err != nil {
		return 0, err
	}
	return judged.AUC(), nil
}

// run returns the AUC on rows that were not trained on.
func run(ctx context.Context) (auc float64, err error) {
	local, err := ps.NewLocal(ps.LocalConfig{})
	if err != nil {
		return 0, err
	}
	err = local.With(ctx, func(ctx context.Context) error {
		aucs, errs := make([]float64, workers), make([]error, workers)
		var wg sync.WaitGroup
		for rank := range workers {
			cfg := worker.Config{
				Mode: worker.Hybrid, Job: "hybrid", Rank: rank, World: workers,
				Servers: local.Addrs(), Cluster: local.Cluster(), Network: local.Network(),
			}
			cfg.Meet.Master, cfg.Meet.Listen = "worker0:1", fmt.Sprintf("worker%d:1", rank)
			wg.Go(func() { aucs[rank], errs[rank] = work(ctx, cfg) })
		}
		wg.Wait()
		auc = aucs[0]
		return errors.Join(errs...)
	})
	return auc, err
}

func main() {
	flag.Parse() // there are none
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "hybrid: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	auc, err := run(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "hybrid:", err)
		os.Exit(1)
	}
	fmt.Printf("test AUC %.4f\n", auc)
}
