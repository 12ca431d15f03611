// Lr is the quickest look at hcclps: it writes a seeded LIBSVM data set whose
// best possible AUC is known, starts three replicated servers in this process,
// trains logistic regression on them, and prints the AUC on the test part.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"hcclps/ps"
	"hcclps/worker"
	"hcclps/worker/dataset"
	"hcclps/worker/model"
)

const (
	epochs = 5
	seed   = 1
)

func main() {
	rows := flag.Int("rows", 50_000, "rows of the training file")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "lr: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *rows)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lr:", err)
		os.Exit(1)
	}
}

// run makes the data and the servers, and cleans both up.
func run(ctx context.Context, rows int) (err error) {
	dir, err := os.MkdirTemp("", "hcclps-lr-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	train, test, best, err := generate(dir, seed, rows, max(rows/5, 1))
	if err != nil {
		return err
	}
	local, err := ps.NewLocal(ps.LocalConfig{Servers: 3, Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))})
	if err != nil {
		return err
	}
	return local.With(ctx, func(ctx context.Context) error { return learn(ctx, local, train, test, best) })
}

// learn is what a user of the SDK writes.
func learn(ctx context.Context, local *ps.Local, train, test string, best float64) error {
	c, err := worker.Connect(ctx, worker.Config{Servers: local.Addrs(), Cluster: local.Cluster(), Network: local.Network(), Job: "lr", Seed: seed})
	if err != nil {
		return err
	}
	defer c.Abandon()
	m, err := model.NewLR(ctx, c, worker.Optimizer{Name: "adagrad", Params: map[string]float64{"lr": 0.2, "initial_accumulator": 1e-6}})
	if err != nil {
		return err
	}
	data, err := dataset.Open(dataset.Config{Paths: []string{train}, Seed: seed})
	if err != nil {
		return err
	}
	rows, err := data.Count()
	if err != nil {
		return err
	}
	bar := progressbar.DefaultSilent(int64(epochs*rows), "training on 3 replicated servers")
	if term.IsTerminal(int(os.Stderr.Fd())) {
		bar = progressbar.Default(int64(epochs*rows), "training on 3 replicated servers")
	}
	rep, err := c.Train(ctx, m, data, worker.TrainOptions{Epochs: epochs, OnStep: func(p worker.Progress) { _ = bar.Set64(int64(p.Rows)) }})
	if err != nil {
		return err
	}
	held, err := dataset.Open(dataset.Config{Paths: []string{test}, Batch: 4096, InOrder: true})
	if err != nil {
		return err
	}
	metrics, err := c.Evaluate(ctx, m, held)
	if err != nil {
		return err
	}
	fmt.Printf("\n%d rows in %.1f s, %.0f rows/s\ntest AUC %.4f (best possible %.4f), log loss %.4f\n",
		rep.Rows, rep.Elapsed.Seconds(), float64(rep.Rows)/rep.Elapsed.Seconds(), metrics.AUC(), best, metrics.LogLoss())
	return nil
}
