package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"

	"hcclps/p2p/inproc"
	"hcclps/p2p/world"
	"hcclps/ps"
	"hcclps/worker"
	"hcclps/worker/dataset"
	"hcclps/worker/model"
)

// Train a built-in model on three replicated servers of this process, then
// judge it. On a real cluster only Servers changes.
func Example() {
	if err := example(); err != nil {
		log.Fatal(err)
	}
	// Output: 10 steps, 40 rows, AUC 1.00
}

func example() (err error) {
	dir, err := os.MkdirTemp("", "hcclps-example-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "train.libsvm")
	if err := os.WriteFile(file, []byte("1 1:1\n0 2:1\n1 1:1 3:0.5\n0 2:1 3:0.5\n"), 0o600); err != nil {
		return err
	}

	ctx, stop := context.WithCancel(context.Background())
	local, err := ps.NewLocal(ps.LocalConfig{})
	if err != nil {
		stop()
		return err
	}
	served := make(chan error, 1)
	go func() { served <- local.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-served)
	}()
	if err := local.Ready(ctx); err != nil {
		return err
	}

	c, err := worker.Connect(ctx, worker.Config{Servers: local.Addrs(), Cluster: local.Cluster(), Network: local.Network(), Job: "example"})
	if err != nil {
		return err
	}
	defer c.Abandon()
	m, err := model.NewLR(ctx, c, worker.Optimizer{Name: "adagrad", Params: map[string]float64{"lr": 0.5}})
	if err != nil {
		return err
	}
	data, err := dataset.Open(dataset.Config{Paths: []string{file}, Batch: 4})
	if err != nil {
		return err
	}
	rep, err := c.Train(ctx, m, data, worker.TrainOptions{Epochs: 10})
	if err != nil {
		return err
	}
	if err := data.Seek(0, 0); err != nil {
		return err
	}
	scores, err := c.Evaluate(ctx, m, data)
	if err != nil {
		return err
	}
	fmt.Printf("%d steps, %d rows, AUC %.2f\n", rep.Steps, rep.Rows, scores.AUC())
	return data.Close()
}

// Train with a warm-up and a cosine, evaluate every five steps, keep the best
// parameters, and bring them back into another job.
func ExampleClient_Load() {
	dir, err := os.MkdirTemp("", "hcclps-example-")
	if err != nil {
		log.Fatal(err)
	}
	err = exampleLoad(dir)
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
	// Output: the best: lr of step 10, AUC 1.00
}

func exampleLoad(dir string) error {
	file, best := filepath.Join(dir, "train.libsvm"), filepath.Join(dir, "best")
	if err := os.WriteFile(file, []byte("1 1:1\n0 2:1\n1 1:1 3:0.5\n0 2:1 3:0.5\n"), 0o600); err != nil {
		return err
	}
	data, err := dataset.Open(dataset.Config{Paths: []string{file}, Batch: 2})
	if err != nil {
		return err
	}
	held, err := dataset.Open(dataset.Config{Paths: []string{file}, InOrder: true})
	if err != nil {
		return err
	}
	opt := worker.Optimizer{Name: "sgd", Params: map[string]float64{"lr": 0.5}, Schedule: worker.Schedule{Kind: "cosine", Warmup: 3, Steps: 100}}
	local, err := ps.NewLocal(ps.LocalConfig{})
	if err != nil {
		return err
	}
	return local.With(context.Background(), func(ctx context.Context) error {
		servers := worker.Config{Servers: local.Addrs(), Cluster: local.Cluster(), Network: local.Network()}
		c, m, err := exampleModel(ctx, servers, "train", opt, "")
		if err != nil {
			return err
		}
		defer c.Abandon()
		_, err = c.Train(ctx, m, data, worker.TrainOptions{
			Epochs: 10, Accumulate: 2, Clip: worker.Clip{Norm: 10},
			EvalEvery: 5, EvalOn: held, KeepBest: best, About: worker.About{Model: "lr"},
		})
		if err != nil {
			return err
		}
		kept, err := worker.ReadManifest(best)
		if err != nil {
			return err
		}
		again, m, err := exampleModel(ctx, servers, "serve", opt, best)
		if err != nil {
			return err
		}
		defer again.Abandon()
		if err := held.Seek(0, 0); err != nil {
			return err
		}
		scores, err := again.Evaluate(ctx, m, held)
		if err != nil {
			return err
		}
		fmt.Printf("the best: %s of step %d, AUC %.2f\n", kept.About.Model, kept.Step, scores.AUC())
		return nil
	})
}

// exampleModel opens a job and makes its model, on parameters from dir if that is
// given.
func exampleModel(ctx context.Context, cfg worker.Config, job string, opt worker.Optimizer, dir string) (*worker.Client, worker.Model, error) {
	cfg.Job = job
	c, err := worker.Connect(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	if dir != "" {
		if _, err := c.Load(ctx, dir); err != nil {
			return nil, nil, err
		}
	}
	m, err := model.NewLR(ctx, c, opt)
	return c, m, err
}

// Two workers without servers: each holds all parameters, and they end with the same. Workers in processes of their own leave Network out, and Meet.Listen.
func ExampleConnect_allReduce() {
	network := inproc.NewNetwork()
	rank := func(rank int) (string, error) {
		ctx := context.Background()
		c, err := worker.Connect(ctx, worker.Config{
			Mode: worker.AllReduce, Rank: rank, World: 2, Network: network,
			Meet: world.Config{Master: "worker0:1", Listen: fmt.Sprintf("worker%d:1", rank)},
		})
		if err != nil {
			return "", err
		}
		w, err := c.Dense(ctx, "w", []int{2}, worker.DenseSpec{Optimizer: worker.Optimizer{Name: "sgd", Params: map[string]float64{"lr": 1}}})
		if err != nil {
			return "", err
		}
		// A gradient is a sum over rows, of which this worker has one: the mean over both is applied.
		if err := c.Push(ctx, 1, nil, worker.Gradient{Table: w, Values: []float32{-2, float32(-4 * rank)}}); err != nil {
			return "", err
		}
		now := make([]float32, 2)
		if err := c.Pull(ctx, worker.Read{Table: w, Out: now}); err != nil {
			return "", err
		}
		return fmt.Sprintf("rank %d of %d has %v", c.Rank(), c.World(), now), c.Close(ctx)
	}
	said, errs := make([]string, 2), make([]error, 2)
	var all sync.WaitGroup
	for r := range said {
		all.Go(func() { said[r], errs[r] = rank(r) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		log.Fatal(err)
	}
	fmt.Println(said[0])
	fmt.Println(said[1])
	// Output:
	// rank 0 of 2 has [2 2]
	// rank 1 of 2 has [2 2]
}

// Gradients of the table user travel in one bit an element, all others in eight.
func ExampleParseCompression() {
	c, err := worker.ParseCompression("int8,user=onebit")
	fmt.Println(c.All, c.Tables["user"], err)
	_, err = worker.ParseCompression("onebitt")
	fmt.Println(err)
	// Output:
	// int8 onebit <nil>
	// parse codec "onebitt": want one of none, bf16, fp16, int8, twobit, onebit, topk, randomk; nearest is "onebit"
}
