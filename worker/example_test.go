package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

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
