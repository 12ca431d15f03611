// Dense is a parameter server without a model around it: two workers pull a tensor of 10^6 floats, push what it lacks, and so on, in a loop of
// their own. Run it, and the workers are goroutines, with a server beside them. With processes and NPUs, or the simulator of them (HCCLPS_CANN_LIB):
//
//	ps-worker launch -n 2 --servers 1 --devices 0,1 --server-devices 2 --transport hccl -- ./dense
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"hcclps/p2p/backend"
	"hcclps/p2p/world"
	"hcclps/ps"
	"hcclps/worker"
)

const (
	floats  = 1_000_000
	workers = 2
	steps   = 20
)

// work is one worker's loop. It returns how far the tensor is from what is wanted: 1 everywhere.
func work(ctx context.Context, cfg worker.Config) (distance float64, err error) {
	c, err := worker.Connect(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	tensor, err := c.Dense(ctx, "tensor", []int{floats}, worker.DenseSpec{Optimizer: worker.Optimizer{Name: "sgd", Params: map[string]float64{"lr": 0.5}}})
	if err != nil {
		return 0, err
	}
	now, grad := make([]float32, floats), make([]float32, floats)
	for range steps {
		if err := c.Pull(ctx, worker.Read{Table: tensor, Out: now}); err != nil {
			return 0, err
		}
		for i, v := range now {
			grad[i] = v - 1
		}
		if err := c.Push(ctx, 1, nil, worker.Gradient{Table: tensor, Values: grad}); err != nil {
			return 0, err
		}
	}
	if err := c.Finish(ctx); err != nil {
		return 0, err
	}
	if err := c.PullFinal(ctx, worker.Read{Table: tensor, Out: now}); err != nil {
		return 0, err
	}
	for _, v := range now {
		distance = max(distance, float64(1-v))
	}
	return distance, nil
}

// run is this process's worker, where launch has started it, or a server without replicas and all workers.
func run(ctx context.Context) (distance float64, err error) {
	if servers := os.Getenv("HCCLPS_SERVERS"); servers != "" {
		cfg, err := launched(servers)
		if err != nil {
			return 0, err
		}
		return work(ctx, cfg)
	}
	local, err := ps.NewLocal(ps.LocalConfig{Servers: 1, Scratch: true})
	if err != nil {
		return 0, err
	}
	err = local.With(ctx, func(ctx context.Context) error {
		distances, errs := make([]float64, workers), make([]error, workers)
		var wg sync.WaitGroup
		for rank := range workers {
			cfg := worker.Config{Job: "dense", Rank: rank, World: workers, Parts: 4, Servers: local.Addrs(), Cluster: local.Cluster(), Network: local.Network()}
			wg.Go(func() { distances[rank], errs[rank] = work(ctx, cfg) })
		}
		wg.Wait()
		distance = max(distances[0], distances[1])
		return errors.Join(errs...)
	})
	return distance, err
}

// launched is the worker that the environment describes.
func launched(servers string) (worker.Config, error) {
	at, err := world.Env(os.LookupEnv)
	if err != nil {
		return worker.Config{}, err
	}
	cfg := worker.Config{
		Servers: strings.Split(servers, ","), Cluster: os.Getenv("HCCLPS_CLUSTER"), Job: os.Getenv("HCCLPS_JOB"), Rank: at.Rank, World: at.Size, Parts: 4,
		Bulk: backend.Config{Transport: backend.Transport(os.Getenv("HCCLPS_TRANSPORT")), Device: os.Getenv("HCCLPS_DEVICE")},
	}
	cfg.Network, err = backend.OpenSockets(backend.Sockets{Local: cfg.Cluster, TokenFile: os.Getenv("HCCLPS_TOKEN_FILE")})
	return cfg, err
}

func main() {
	flag.Parse() // there are none
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "dense: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	began := time.Now()
	distance, err := run(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "dense:", err)
		os.Exit(1)
	}
	took := time.Since(began)
	fmt.Printf("%d floats pulled and pushed %d times in %.2f s: the tensor is within %.1g of what was wanted\n", floats, steps, took.Seconds(), distance)
}
