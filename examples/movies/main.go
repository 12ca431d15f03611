// Movies trains on a real ratings file, MovieTweetings, in two ways: matrix
// factorisation foretells the rating, and logistic regression, by movies.yaml,
// whether the movie will be liked. Every tenth row is kept for the test.
//
//	go run ./examples/movies --data DIR
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"hcclps/ps"
	"hcclps/worker"
	"hcclps/worker/dataset"
	"hcclps/worker/model"
)

const (
	folder  = "movietweetings" // in HCCLPS_DATA
	ratings = "ratings.dat"    // user::movie::rating::time
	movies  = "movies.dat"     // movie::title (year)::genre|genre
	seed    = 1
	every   = 10
)

//go:embed movies.yaml
var features []byte

func main() {
	dir := flag.String("data", "", "`folder` of "+ratings+" and "+movies+"; default: HCCLPS_DATA/"+folder)
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "movies: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	r, err := run(ctx, *dir)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "movies:", err)
		os.Exit(1)
	}
	fmt.Printf("\nratings from 0 to 10: RMSE %.4f\nrated 8 or more:      AUC %.4f\n%d test rows\n", r.rmse, r.auc, r.rows)
}

// result is what the test rows say.
type result struct {
	rmse, auc float64
	rows      int
}

// run trains both models on three replicated servers in this process.
func run(ctx context.Context, dir string) (r result, err error) {
	if dir, err = find(dir); err != nil {
		return r, err
	}
	schema, err := dataset.ParseSchema("movies.yaml", features)
	if err != nil {
		return r, err
	}
	schema.Join[0].File = filepath.Join(dir, movies)
	plain := dataset.Config{Format: dataset.FormatRatings, Paths: []string{filepath.Join(dir, ratings)}, Seed: seed}
	clicks := plain
	clicks.Schema = schema
	local, err := ps.NewLocal(ps.LocalConfig{})
	if err != nil {
		return r, err
	}
	err = local.With(ctx, func(ctx context.Context) error {
		rated, err := learn(ctx, local, model.NameMF, plain)
		if err != nil {
			return err
		}
		liked, err := learn(ctx, local, model.NameLR, clicks)
		if err != nil {
			return err
		}
		r = result{rmse: rated.RMSE(), auc: liked.AUC(), rows: rated.Rows()}
		return nil
	})
	return r, err
}

// find is the folder of the data, with all that belongs there.
func find(dir string) (string, error) {
	if dir == "" {
		root := os.Getenv("HCCLPS_DATA")
		if root == "" {
			return "", errors.New("find data: give the folder of MovieTweetings with --data, or set HCCLPS_DATA to the folder that has " + folder)
		}
		dir = filepath.Join(root, folder)
	}
	for _, name := range []string{ratings, movies} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("find data: want %s and %s of MovieTweetings (github.com/sidooms/MovieTweetings, folder snapshots/100K) in %s: %w", ratings, movies, dir, err)
		}
	}
	return dir, nil
}

// learn trains a model with its defaults in a job of its own, and judges it.
func learn(ctx context.Context, local *ps.Local, name string, data dataset.Config) (judged *worker.Metrics, err error) {
	c, err := worker.Connect(ctx, worker.Config{Servers: local.Addrs(), Cluster: local.Cluster(), Network: local.Network(), Job: name, Seed: seed})
	if err != nil {
		return nil, err
	}
	defer c.Abandon()
	o := model.Defaults(name)
	data.Batch, data.Split = o.Batch, dataset.Split{Every: every}
	train, err := dataset.Open(data)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, train.Close()) }()
	m, err := model.New(ctx, c, train.Schema(), o)
	if err != nil {
		return nil, err
	}
	rows, err := train.Count()
	if err != nil {
		return nil, err
	}
	bar := progressbar.DefaultSilent(int64(o.Epochs*rows), name)
	if term.IsTerminal(int(os.Stderr.Fd())) {
		bar = progressbar.Default(int64(o.Epochs*rows), name)
	}
	_, err = c.Train(ctx, m, train, worker.TrainOptions{Epochs: o.Epochs, OnStep: func(p worker.Progress) { _ = bar.Set64(int64(p.Rows)) }})
	if err != nil {
		return nil, err
	}
	data.Schema, data.Split.Test, data.InOrder = train.Schema(), true, true
	test, err := dataset.Open(data)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, test.Close()) }()
	return c.Evaluate(ctx, m, test)
}
