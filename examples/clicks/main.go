// Clicks is the quick start: it writes a click log whose best possible AUC is
// known, starts three replicated servers in this process, trains DeepFM on them
// with two workers, and prints the AUC on the test rows.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"hcclps/ps"
	"hcclps/worker"
	"hcclps/worker/dataset"
	"hcclps/worker/model"
)

const (
	workers = 2
	seed    = 1
)

func main() {
	rows := flag.Int("rows", 200_000, "rows of the training file")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "clicks: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	r, err := run(ctx, *rows)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "clicks:", err)
		os.Exit(1)
	}
	fmt.Printf("\n%d rows in %.1f s, %.0f rows/s\ntest AUC %.4f (best possible %.4f), log loss %.4f\n",
		r.rows, r.took.Seconds(), float64(r.rows)/r.took.Seconds(), r.test.AUC(), r.best, r.test.LogLoss())
}

// result is what a run shows.
type result struct {
	rows int // trained on, by all workers
	took time.Duration
	test *worker.Metrics
	best float64 // AUC nobody can expect to pass
}

// run makes the data and the servers, trains, and cleans both up.
func run(ctx context.Context, rows int) (r result, err error) {
	dir, err := os.MkdirTemp("", "hcclps-clicks-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	train, test, best, err := generate(dir, seed, rows, max(rows/5, 1))
	if err != nil {
		return r, err
	}
	local, err := ps.NewLocal(ps.LocalConfig{Servers: 3, Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))})
	if err != nil {
		return r, err
	}
	err = local.With(ctx, func(ctx context.Context) error {
		r, err = learn(ctx, local, rows, train, test)
		return err
	})
	r.best = best
	return r, err
}

// learn runs the workers side by side, as processes on other machines would.
func learn(ctx context.Context, local *ps.Local, rows int, train, test string) (result, error) {
	options := model.Defaults(model.NameDeepFM)
	r := result{rows: options.Epochs * rows}
	bar := progressbar.DefaultSilent(int64(r.rows), fmt.Sprintf("%d workers, 3 replicated servers", workers))
	if term.IsTerminal(int(os.Stderr.Fd())) {
		bar = progressbar.Default(int64(r.rows), fmt.Sprintf("%d workers, 3 replicated servers", workers))
	}
	start := time.Now()
	all, ctx := errgroup.WithContext(ctx)
	for rank := range workers {
		all.Go(func() error {
			w := worker.Config{Servers: local.Addrs(), Cluster: local.Cluster(), Network: local.Network(), Job: "clicks", Rank: rank, World: workers, Seed: seed}
			c, err := worker.Connect(ctx, w)
			if err != nil {
				return err
			}
			defer c.Abandon()
			m, schema, err := fit(ctx, c, options, train, bar)
			if err != nil || rank != 0 {
				return err
			}
			r.took = time.Since(start)
			r.test, err = judge(ctx, c, m, schema, test)
			return err
		})
	}
	return r, all.Wait()
}

// fit is one worker's training. Without a features file the file itself says
// what its columns are: ids, several ids, numbers.
func fit(ctx context.Context, c *worker.Client, o model.Options, train string, bar *progressbar.ProgressBar) (worker.Model, *dataset.Schema, error) {
	data, err := dataset.Open(dataset.Config{Format: dataset.FormatCSV, Paths: []string{train}, Label: dataset.Label{Column: "click"}, Batch: o.Batch, Seed: seed})
	if err != nil {
		return nil, nil, err
	}
	m, err := model.New(ctx, c, data.Schema(), o)
	if err != nil {
		return nil, nil, err
	}
	var seen uint64
	_, err = c.Train(ctx, m, data, worker.TrainOptions{Epochs: o.Epochs, OnStep: func(p worker.Progress) {
		_ = bar.Add64(int64(p.Rows - seen)) // a bar that cannot be drawn is no reason to fail
		seen = p.Rows
	}})
	return m, data.Schema(), errors.Join(err, data.Close())
}

// judge scores the test rows, once all workers have finished.
func judge(ctx context.Context, c *worker.Client, m worker.Model, schema *dataset.Schema, test string) (*worker.Metrics, error) {
	held, err := dataset.Open(dataset.Config{Format: dataset.FormatCSV, Paths: []string{test}, Schema: schema, Batch: 4096, InOrder: true})
	if err != nil {
		return nil, err
	}
	scores, err := c.Evaluate(ctx, m, held)
	return scores, errors.Join(err, held.Close())
}
