package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/ps"
	"hcclps/worker"
	"hcclps/worker/dataset"
	"hcclps/worker/model"
)

func evalCommand() *cli.Command {
	return &cli.Command{
		Name:        "eval",
		Usage:       "judge a saved model on data",
		Description: "ps-worker eval --load DIR --data test.csv --format csv\nThe features are those the model was trained with; no server is needed.",
		Flags: slices.Concat(savedFlags(), []cli.Flag{
			&cli.StringSliceFlag{Name: "metrics", Usage: "such as auc, prauc, gauc:user, rmse; default: logloss, auc and accuracy, or rmse and mae", EnvVars: program.Env("metrics")},
			&cli.BoolFlag{Name: "json", Usage: "for machines"},
		}, program.LogFlags("warn"), program.ConfigFlags()),
		Action: func(c *cli.Context) error { return withSaved(c, evaluate) },
	}
}

func predictCommand() *cli.Command {
	return &cli.Command{
		Name:  "predict",
		Usage: "score data with a saved model: one score a line, in the order of the data",
		Flags: slices.Concat(savedFlags(), []cli.Flag{
			&cli.StringFlag{Name: "out", Usage: "`FILE` of scores; default: standard output"},
			&cli.BoolFlag{Name: "no-label", Usage: "the data has no label column"},
		}, program.LogFlags("warn"), program.ConfigFlags()),
		Action: func(c *cli.Context) error { return withSaved(c, predict) },
	}
}

func savedFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "load", Usage: "the model in `DIR`, written by train --save or ps-worker export, or its newest checkpoint there, or DIR@ID", EnvVars: program.Env("load")},
	}, dataFlags()...)
}

// saved is a model directory brought to life on a server of this process.
type saved struct {
	c      *cli.Context
	client *worker.Client
	model  worker.Model
	data   *dataset.Reader
}

// withSaved checks flags and files, loads the model and runs act on it.
func withSaved(c *cli.Context, act func(context.Context, *saved) error) error {
	if err := program.NoArguments(c); err != nil {
		return err
	}
	if printed, err := program.PrintedConfig(c); printed || err != nil {
		return err
	}
	log, err := program.Logger(c)
	if err != nil {
		return err
	}
	if c.String("load") == "" {
		return program.Usage("--load is needed: the folder that train --save wrote, or one of checkpoints")
	}
	from, err := readPrior(c.Context, c.String("load"))
	if err != nil {
		return err
	}
	if from.bare {
		return fmt.Errorf("%s does not say of what model it is: train --load and --save make a model of it", from.dir)
	}
	cfg, err := dataConfig(c, log)
	if err != nil {
		return err
	}
	cfg.InOrder, cfg.Batch, cfg.NoLabel = true, 4096, c.Bool("no-label")
	if err := from.features(c, &cfg); err != nil {
		return err
	}
	data, err := dataset.Open(cfg)
	if err != nil {
		return formatHint(c, err)
	}
	err = checkMetrics("--metrics", data.Schema(), c.StringSlice("metrics")...)
	if err == nil {
		err = formatHint(c, onServer(c, log, data, from.options, act))
	}
	return errors.Join(err, data.Close())
}

func onServer(c *cli.Context, log *slog.Logger, data *dataset.Reader, o model.Options, act func(context.Context, *saved) error) error {
	local, err := ps.NewLocal(ps.LocalConfig{Servers: 1, Replicas: 1, Scratch: true, Logger: log})
	if err != nil {
		return err
	}
	return local.With(c.Context, func(ctx context.Context) error {
		client, err := worker.Connect(ctx, worker.Config{Servers: local.Addrs(), Cluster: local.Cluster(), Network: local.Network(), Logger: log})
		if err != nil {
			return err
		}
		defer client.Abandon() // the server ends with us
		if _, err := client.Load(ctx, c.String("load")); err != nil {
			return err
		}
		m, err := model.New(ctx, client, data.Schema(), o)
		if err != nil {
			return err
		}
		return act(ctx, &saved{c: c, client: client, model: m, data: data})
	})
}

func evaluate(ctx context.Context, s *saved) error {
	names := s.c.StringSlice("metrics")
	if len(names) == 0 {
		names = defaultMetrics(s.model)
	}
	got, err := s.client.Evaluate(ctx, s.model, s.data, names...)
	if err != nil {
		return err
	}
	out := map[string]any{"rows": got.Rows()}
	for _, n := range names {
		v, err := got.Value(n)
		if err != nil {
			return &program.UsageError{Err: err}
		}
		if v := defined(v); v != nil {
			out[n] = *v
		}
	}
	if s.c.Bool("json") {
		return json.NewEncoder(s.c.App.Writer).Encode(out)
	}
	text := []string{fmt.Sprintf("%d rows", got.Rows())}
	for _, n := range names {
		v, _ := out[n].(float64)
		text = append(text, fmt.Sprintf("%s %.4f", n, v))
	}
	_, err = fmt.Fprintln(s.c.App.Writer, strings.Join(text, ", "))
	return err
}

// defaultMetrics are those every model of its kind is judged by.
func defaultMetrics(m worker.Model) []string {
	if r, ok := m.(worker.Regressor); ok && r.Regression() {
		return []string{"rmse", "mae"}
	}
	return []string{"logloss", "auc", "accuracy"}
}

func predict(ctx context.Context, s *saved) error {
	path := s.c.String("out")
	if path == "" {
		return writeScores(ctx, s, s.c.App.Writer)
	}
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return predictInto(ctx, s, path) // a pipe or a device: nothing can be put in its place
	}
	// Written beside and renamed: a bad row leaves no part of the scores.
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("write scores: %w", err)
	}
	err = errors.Join(writeScores(ctx, s, f), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func predictInto(ctx context.Context, s *saved, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("write scores: %w", err)
	}
	return errors.Join(writeScores(ctx, s, f), f.Close())
}

func writeScores(ctx context.Context, s *saved, to io.Writer) error {
	w := bufio.NewWriter(to)
	var line []byte
	err := s.client.Predict(ctx, s.model, s.data, func(scores []float32) error {
		for _, v := range scores {
			line = append(strconv.AppendFloat(line[:0], float64(v), 'g', -1, 32), '\n')
			if _, err := w.Write(line); err != nil {
				return fmt.Errorf("write scores: %w", err)
			}
		}
		return nil
	})
	return errors.Join(err, w.Flush())
}
