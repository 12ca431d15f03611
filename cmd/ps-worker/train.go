package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/ps"
	"hcclps/ps/optim"
	"hcclps/worker"
	"hcclps/worker/dataset"
	"hcclps/worker/model"
)

func trainCommand() *cli.Command {
	env := program.Env
	return &cli.Command{
		Name:  "train",
		Usage: "train a model, as one worker of a job",
		Description: "Alone: ps-worker train --embedded 3 --data train.libsvm --test test.libsvm\n" +
			"In a job: the same command in each process, with --servers, --job, and RANK and WORLD_SIZE (or --rank and --world).\n" +
			"Without servers: --mode allreduce, and MASTER_ADDR and MASTER_PORT too, or RANK_TABLE_FILE and RANK_ID.\n" +
			"With the parameters on servers a worker that is started again under its name resumes where it was; in mode allreduce it comes in as a new one.",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "model", Value: model.NameLR, Usage: strings.Join(model.Names(), ", ") + "; with --load: that of the saved model", EnvVars: env("model")},
			&cli.IntFlag{Name: "dim", Usage: "floats of an embedding's row; default: by model", EnvVars: env("dim")},
			&cli.StringSliceFlag{Name: "test", Usage: "test `FILES`", EnvVars: env("test")},
			&cli.StringFlag{Name: "split", Usage: "every=N: row i is test when i % N == N-1", EnvVars: env("split")},
			&cli.StringSliceFlag{Name: "servers", Usage: "addresses of servers", EnvVars: env("servers")},
			&cli.StringFlag{Name: "cluster", Value: "hcclps", Usage: "`NAME` of the cluster", EnvVars: env("cluster")},
			&cli.IntFlag{Name: "embedded", Usage: "run `N` servers in this process", EnvVars: env("embedded")},
			&cli.IntFlag{Name: "replicas", Value: 3, Usage: "embedded: copies of each shard, 1, 3 or 5; 0: scratch, nothing survives a server", EnvVars: env("replicas")},
			&cli.StringFlag{Name: "dir", Usage: "embedded: data `DIR`; default: a temporary one, removed at the end", EnvVars: env("dir")},
			&cli.StringFlag{Name: "memory", Usage: "embedded: memory budget of each server, such as 2GiB; default: a share of half of what is free", EnvVars: env("memory")},
			&cli.StringFlag{Name: "sync", Value: "bsp", Usage: "bsp: all workers take each step together; ssp:N: the fastest is at most N steps ahead; asp: nobody waits", EnvVars: env("sync")},
			&cli.IntFlag{Name: "epochs", Usage: "passes over the data; default: by model", EnvVars: env("epochs")},
			&cli.IntFlag{Name: "batch", Usage: "rows a step and worker; default: by model", EnvVars: env("batch")},
			&cli.StringFlag{Name: "optimizer", Usage: "`NAME`[:param=value,...]: " + strings.Join(optim.Names(), ", ") + "; onebit_adam is of dense tensors with --mode allreduce or hybrid: adam for freeze_step steps, then momenta of one bit, or as --compress says; embeddings learn by adam; default: by model", EnvVars: env("optimizer")},
			&cli.Float64Flag{Name: "lr", Usage: "learning rate; default: by model, or the optimizer's own", EnvVars: env("lr")},
			&cli.IntFlag{Name: "parts", Value: 1, Usage: "messages that a worker's step is cut into, a power of two: more where one would be too large for the log of a shard", EnvVars: env("parts")},
			&cli.StringFlag{Name: "reduce", Value: "mean", Usage: "what the gradients of all rows of a step become: mean or sum", EnvVars: env("reduce")},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "of initial parameters and the order of rows", EnvVars: env("seed")},
			&cli.StringFlag{Name: "job", Usage: "`NAME` of the job, that its workers share; default: random", EnvVars: env("job")},
			&cli.StringFlag{Name: "worker", Usage: "this worker's stable `NAME`; default: worker-RANK", EnvVars: env("worker")},
			&cli.IntFlag{Name: "rank", EnvVars: []string{"HCCLPS_RANK", "RANK"}, Usage: "number of this worker, from 0 to --world less 1"},
			&cli.IntFlag{Name: "world", Value: 1, EnvVars: []string{"HCCLPS_WORLD", "WORLD_SIZE"}, Usage: "workers of the job"},
			&cli.BoolFlag{Name: "prefetch", Value: true, Usage: "pull the rows of the next batch while this one is computed", EnvVars: env("prefetch")},
			&cli.BoolFlag{Name: "resume", Usage: "go on with the job: embedded in --dir, or from its newest checkpoint in --checkpoint-dir", EnvVars: env("resume")},
			&cli.DurationFlag{Name: "step-delay", Usage: "wait after each step, to slow a run down", EnvVars: env("step-delay")},
			&cli.DurationFlag{Name: "op-timeout", Value: time.Minute, Usage: "bound of one push, pull, sum or session call, and of the wait for other workers", EnvVars: env("op-timeout")},
			program.ProfileFlag("; of several workers out.RANK.json for out.json"),
			&cli.BoolFlag{Name: "json", Usage: "rank 0 prints one line of JSON at the end", EnvVars: env("json")},
		}, program.NetworkFlags(), program.BulkFlags(), modeFlags(), checkpointFlags(), dataFlags(), trainingFlags(), program.LogFlags("warn"), program.ConfigFlags()),
		Action: train,
	}
}

func train(c *cli.Context) error {
	if err := program.NoArguments(c); err != nil {
		return err
	}
	if printed, err := program.PrintedConfig(c); printed || err != nil {
		return err
	}
	j, err := newJob(c)
	if err != nil {
		return err
	}
	defer j.close()
	run := j.run
	if j.local != nil {
		run = func(ctx context.Context) error { return j.local.With(ctx, j.run) }
	}
	return formatHint(c, j.profile.With(c.Context, run))
}

// job is one run of train: what the flags asked for, opened and checked.
type job struct {
	c     *cli.Context
	cfg   worker.Config
	prior *prior // what --load names; nil: nothing
	model model.Options
	how   worker.TrainOptions
	data  *dataset.Reader
	test  *dataset.Reader // nil: none
	local *ps.Local       // nil: servers elsewhere
	saves checkpointing

	profile *program.Profile // nil: none
	start   time.Time
}

// run trains, and on rank 0 evaluates and reports.
func (j *job) run(ctx context.Context) error {
	j.start = time.Now()
	if j.local != nil {
		j.cfg.Servers, j.cfg.Network, j.cfg.Cluster = j.local.Addrs(), j.local.Network(), j.local.Cluster()
	}
	client, err := j.connect(ctx)
	if err != nil {
		return err
	}
	defer j.onQuit(client)()
	if err := j.train(ctx, client); err != nil {
		client.Abandon() // not Close: the worker has not left, and resumes when it is started again
		return err
	}
	return client.Close(ctx)
}

func (j *job) train(ctx context.Context, client *worker.Client) error {
	if j.local != nil && client.Clock() > 0 && !j.c.Bool("resume") {
		return fmt.Errorf("%s holds job %s, at step %d: --resume goes on with it, --job or --dir names another", j.c.String("dir"), j.cfg.Job, client.Clock())
	}
	if j.local != nil && client.Clock() == 0 && j.c.Bool("resume") && j.saves.restore == "" {
		return fmt.Errorf("--resume: %s holds no step of job %s: leave --resume out to begin it", j.c.String("dir"), j.cfg.Job)
	}
	m, err := j.begin(ctx, client)
	if err != nil {
		return err
	}
	bar := newProgress(j, client)
	j.how.OnStep = func(p worker.Progress) {
		bar.step(p)
		pause(ctx, j.c.Duration("step-delay"))
	}
	rep, err := client.Train(ctx, m, j.data, j.how)
	bar.end(err)
	if err != nil {
		return err
	}
	if client.Rank() == 0 {
		j.warmedUp(rep.Steps)
	}
	if dir := j.c.String("save"); dir != "" && client.Rank() == 0 && j.how.KeepBest == "" {
		if err := client.Save(ctx, dir, j.how.About); err != nil {
			return err
		}
	}
	r, err := j.report(ctx, client, m, rep, bar)
	if err != nil {
		return err
	}
	return j.print(r)
}

// warmedUp says that a 1-bit Adam has not come to its momenta.
func (j *job) warmedUp(steps uint64) {
	o := j.model.Dense
	if o.Name != optim.OneBitAdam {
		return
	}
	rule, err := optim.New(optim.Config{Name: o.Name, Params: o.Params})
	if err != nil {
		return // Train has refused it already
	}
	if freeze := uint64(rule.Config().Params["freeze_step"]); steps <= freeze {
		fmt.Fprintf(j.c.App.ErrWriter, "%s was adam with whole gradients in all %d steps: its freeze_step is %d: --optimizer %s:freeze_step=N, N below the steps, sends momenta in codes from then on\n", o.Name, steps, freeze, o.Name)
	}
}

// begin makes the model, with what is loaded.
func (j *job) begin(ctx context.Context, client *worker.Client) (worker.Model, error) {
	if j.prior != nil && !j.prior.bare {
		if _, err := client.Load(ctx, j.prior.dir); err != nil {
			return nil, err
		}
	}
	m, err := model.New(ctx, client, j.data.Schema(), j.model)
	if err == nil && j.prior != nil && j.prior.bare {
		_, err = client.Load(ctx, j.prior.dir)
	}
	return m, err
}

func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (j *job) print(r report) error {
	out := j.c.App.Writer
	if dir := os.Getenv(reportDirEnv); dir != "" {
		r.AsJSON, r.Save = j.c.Bool("json"), j.c.String("save")
		if err := r.leave(dir, j.cfg.Rank); err != nil || r.AsJSON {
			return err
		}
	}
	switch {
	case j.c.Bool("json") && r.Rank == 0:
		return json.NewEncoder(out).Encode(r)
	case j.c.Bool("json"):
		return nil
	case r.Rank == 0:
		return r.text(out)
	default:
		_, err := fmt.Fprintf(out, "%s: %d rows in %d steps; rank 0 prints the report\n", r.Worker, r.Rows, r.Steps)
		return err
	}
}

func (j *job) close() {
	for _, r := range []*dataset.Reader{j.data, j.test} {
		if r != nil {
			_ = r.Close() // read only: nothing to lose
		}
	}
}
