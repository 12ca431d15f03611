package worker_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"hcclps/p2p/inproc"
	"hcclps/worker"
)

// denseLoop pushes gradients of some tensors again and again. If they are mixed, some are 16 bits on the way, and some come later.
func denseLoop(ctx context.Context, c *worker.Client, elements []int, steps int, mixed bool) ([]float32, error) {
	opt := worker.Optimizer{Name: "sgd", Params: map[string]float64{"lr": 1}}
	var tables []worker.Dense
	var grads []worker.Gradient
	for i, n := range elements {
		spec := worker.DenseSpec{Optimizer: opt}
		if mixed && i%4 == 1 {
			spec.Compress = "bf16"
		}
		d, err := c.Dense(ctx, fmt.Sprintf("t%d", i), []int{n}, spec)
		if err != nil {
			return nil, err
		}
		tables = append(tables, d)
		grads = append(grads, worker.Gradient{Table: d, Values: make([]float32, n)})
		for k := range grads[i].Values {
			grads[i].Values[k] = -float32((c.Rank() + 1) * (i + 1) * (k%3 + 1))
		}
	}
	for step := range steps {
		now := slices.Clone(grads)
		if mixed && step < 2 {
			now = slices.Delete(now, 2, 4) // nobody has a gradient of these yet
		}
		if err := c.Push(ctx, 1, nil, now...); err != nil {
			return nil, err
		}
	}
	var all []float32
	for i, d := range tables {
		out := make([]float32, elements[i])
		if err := c.Pull(ctx, worker.Read{Table: d, Out: out}); err != nil {
			return nil, err
		}
		all = append(all, out...)
	}
	return all, nil
}

// Sums of tensors that lie one behind the other are those of each for itself, also of tensors that come in a later step.
func TestSumsOfManyTensors(t *testing.T) {
	t.Parallel()
	elements := []int{1, 1000, 3, 70_000, 64, 300_000, 7, 2, 1_200_000, 5}
	const steps, workers = 4, 3
	w := crew{
		cfg: worker.Config{Mode: worker.AllReduce, World: workers, Job: "sums", Sum: true},
		train: func(ctx context.Context, c *worker.Client) error {
			got, err := denseLoop(ctx, c, elements, steps, true)
			if err != nil {
				return err
			}
			for i, n := range elements {
				turns := steps
				if i == 2 || i == 3 {
					turns -= 2
				}
				for k, v := range got[:n] {
					if want := float32(turns * (1 + 2 + 3) * (i + 1) * (k%3 + 1)); v != want {
						return fmt.Errorf("element %d of tensor %d is %v, want %v", k, i, v, want)
					}
				}
				got = got[n:]
			}
			return nil
		},
	}
	w.run(t)
}

// A step of two workers with a hundred dense tensors of 64 KiB.
func BenchmarkDenseStep(b *testing.B) {
	network := inproc.NewNetwork()
	elements := slices.Repeat([]int{16 << 10}, 100)
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for rank := range errs {
		wg.Go(func() {
			cfg := worker.Config{Mode: worker.AllReduce, World: 2, Rank: rank, Job: "bench", Sum: true, Network: network}
			if cfg.Meet.Master = "rank0:1"; rank > 0 {
				cfg.Meet.Listen = fmt.Sprintf("rank%d:0", rank)
			}
			c, err := worker.Connect(b.Context(), cfg)
			if err != nil {
				errs[rank] = err
				return
			}
			if _, errs[rank] = denseLoop(b.Context(), c, elements, 3, false); errs[rank] == nil {
				_, errs[rank] = denseLoop(b.Context(), c, elements, b.N, false)
			}
			c.Abandon()
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			b.Fatal(err)
		}
	}
}
