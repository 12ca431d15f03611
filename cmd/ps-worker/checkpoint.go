package main

import (
	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/worker"
)

// checkpointFlags say when checkpoints are made, and where.
func checkpointFlags() []cli.Flag {
	env := program.Env
	return []cli.Flag{
		&cli.StringFlag{Name: "checkpoint-every", Usage: "rank 0 asks for a checkpoint each `N` steps, or after a time such as 10m", EnvVars: env("checkpoint-every")},
		&cli.StringFlag{
			Name: "checkpoint-dir", EnvVars: env("checkpoint-dir"),
			Usage: "write checkpoints to `DIR`, where --resume finds them: with --mode allreduce, and with --embedded; other servers have folders of their own",
		},
		&cli.IntFlag{Name: "checkpoint-keep", Value: 3, Usage: "keep the newest `N`, and what they stand on", EnvVars: env("checkpoint-keep")},
		&cli.StringFlag{Name: "checkpoint-rate", Usage: "write at most so many bytes a second, such as 50MiB; default: no bound", EnvVars: env("checkpoint-rate")},
	}
}

// checkpointing is what the flags of checkpointFlags say.
type checkpointing struct {
	every worker.Interval
	dir   string
	keep  int
	rate  int64
}

// checkpoints reads those flags.
func (j *job) checkpoints() (err error) {
	c, k := j.c, &j.saves
	if k.every.Steps, k.every.Time, err = program.Interval("checkpoint-every", c.String("checkpoint-every")); err != nil {
		return err
	}
	if k.rate, err = program.Bytes("checkpoint-rate", c.String("checkpoint-rate")); err != nil {
		return err
	}
	k.dir, k.keep = c.String("checkpoint-dir"), c.Int("checkpoint-keep")
	elsewhere := j.cfg.Mode != worker.AllReduce && c.Int("embedded") == 0
	switch {
	case k.keep < 1:
		return program.Usage("--checkpoint-keep %d: want 1 or more", k.keep)
	case k.dir != "" && elsewhere:
		return program.Usage("--checkpoint-dir %s: the servers write checkpoints: give it to ps-server serve, or to launch; --checkpoint-every is for train", k.dir)
	case k.dir == "" && (c.IsSet("checkpoint-keep") || c.IsSet("checkpoint-rate")):
		return program.Usage("--checkpoint-keep and --checkpoint-rate need --checkpoint-dir: where the checkpoints are")
	case k.dir == "" && k.every != (worker.Interval{}) && !elsewhere:
		return program.Usage("--checkpoint-every %s needs --checkpoint-dir: where the checkpoints are", c.String("checkpoint-every"))
	case c.Bool("resume") && j.cfg.Mode == worker.AllReduce && k.dir == "":
		return program.Usage("--resume needs --checkpoint-dir: the folder of the job's checkpoints")
	}
	if j.cfg.Mode == worker.AllReduce {
		j.cfg.Checkpoints = worker.Checkpoints{Dir: k.dir, Resume: c.Bool("resume"), Keep: k.keep, Rate: k.rate}
	}
	return nil
}
