package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strconv"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/p2p/collective"
	"hcclps/p2p/world"
	"hcclps/ps/optim"
	"hcclps/worker"
)

// basePort is where the first rank of a host listens, where a rank table names no ports: that of torchrun.
const basePort = 29500

// modeFlags say where parameters are, and how workers that hold them sum gradients.
func modeFlags() []cli.Flag {
	env := program.Env
	return []cli.Flag{
		&cli.StringFlag{
			Name: "mode", Value: worker.PS.String(), EnvVars: env("mode"),
			Usage: "ps: parameters on servers; allreduce: in every worker, without servers; hybrid: embedding tables on servers, dense tensors in every worker",
		},
		&cli.StringFlag{
			Name: "algo", EnvVars: []string{"HCCLPS_ALGO"},
			Usage: "how workers sum and gather, in the words of HCCL_ALGO: ring for all, or allreduce=ring/allgather=H-D_R; default: chosen by a model of cost",
		},
		&cli.StringFlag{Name: "reduce-order", Value: "any", Usage: "in which order workers' gradients are added: any, or rank, which gives the same bits as servers do", EnvVars: env("reduce-order")},
		&cli.BoolFlag{
			Name: "measure", EnvVars: env("measure"),
			Usage: "measure the links between workers when they meet: for the choice of --algo, and to spare one behind a slow link",
		},
		&cli.StringFlag{
			Name: "flights", EnvVars: env("flights"),
			Usage: "write the last collective operations into `DIR` when they fail, and on SIGQUIT, for ps-worker profile; default: the folder for temporary files",
		},
		&cli.StringFlag{
			Name: "rendezvous", EnvVars: env("rendezvous"),
			Usage: "`ADDR` where workers that sum gradients meet, if it is not at rank 0: launch says it",
		},
		&cli.IntFlag{Name: "max-rebuilds", Value: worker.DefaultMaxRebuilds, Usage: "allreduce and hybrid: how often the others go on without a worker that is lost", EnvVars: env("max-rebuilds")},
	}
}

// algorithms reads --algo.
func algorithms(s string) (collective.Algorithms, error) {
	all, err := collective.ParseAlgorithms(s)
	if unknown, ok := errors.AsType[*collective.NameError](err); ok && unknown.Name != "" {
		return nil, program.Usage("--algo: %w; nearest is %s", err, optim.Nearest(unknown.Name, unknown.Valid))
	}
	if err != nil {
		return nil, program.Usage("--algo: %w", err)
	}
	return all, nil
}

// mode reads the flags of modeFlags, and finds out where workers meet.
func (j *job) mode() (err error) {
	c, cfg := j.c, &j.cfg
	if err := program.OneOf("--mode", c.String("mode"), worker.Modes()...); err != nil {
		return err
	}
	cfg.Mode, _ = worker.ParseMode(c.String("mode")) // it is one of them
	if err := program.OneOf("--reduce-order", c.String("reduce-order"), "any", "rank"); err != nil {
		return err
	}
	cfg.Flights = cmp.Or(c.String("flights"), os.TempDir())
	cfg.RankOrder, cfg.Measure = c.String("reduce-order") == "rank", c.Bool("measure")
	if cfg.Algorithms, err = algorithms(c.String("algo")); err != nil {
		return err
	}
	if cfg.MaxRebuilds = c.Int("max-rebuilds"); cfg.MaxRebuilds < 0 {
		return program.Usage("--max-rebuilds %d: want 0 or more", cfg.MaxRebuilds)
	}
	if cfg.MaxRebuilds == 0 {
		cfg.MaxRebuilds = worker.NoRebuilds
	}
	if cfg.Mode == worker.PS {
		for _, flag := range []string{"algo", "reduce-order", "measure", "max-rebuilds", "flights"} {
			if c.IsSet(flag) {
				return program.Usage("--%s is for workers that sum gradients: --mode allreduce or hybrid", flag)
			}
		}
		return nil
	}
	if cfg.Mode == worker.AllReduce && (len(c.StringSlice("servers")) > 0 || c.Int("embedded") > 0) {
		return program.Usage("--mode allreduce has no servers: leave --servers and --embedded out, and give launch --servers 0")
	}
	return j.meet(c.Context)
}

// meet is where workers meet: what RANK_TABLE_FILE says, or MASTER_ADDR and MASTER_PORT, or for hybrid else what the servers say.
func (j *job) meet(ctx context.Context) (err error) {
	cfg := &j.cfg
	if os.Getenv("RANK_TABLE_FILE") != "" && !j.c.IsSet("world") {
		if j.c.IsSet("rank") {
			return program.Usage("RANK_TABLE_FILE is a table of ranks, and RANK or --rank says which is this one: name it by RANK_ID, or give WORLD_SIZE and MASTER_ADDR in place of the table")
		}
		if cfg.Meet, err = world.EnvTable(ctx, os.LookupEnv, basePort); err != nil {
			return err
		}
		cfg.Rank, cfg.World = cfg.Meet.Rank, cfg.Meet.Size
		return nil
	}
	if cfg.World < 2 {
		return nil
	}
	if os.Getenv("MASTER_ADDR") == "" && cfg.Mode == worker.Hybrid {
		return nil // the servers tell
	}
	numbers := map[string]int{"RANK": cfg.Rank, "WORLD_SIZE": cfg.World}
	cfg.Meet, err = world.Env(func(name string) (string, bool) {
		if n, ok := numbers[name]; ok {
			return strconv.Itoa(n), true
		}
		return os.LookupEnv(name)
	})
	if err != nil {
		return program.Usage("--mode %v with %d workers: %w", cfg.Mode, cfg.World, err)
	}
	if at := j.c.String("rendezvous"); at != "" {
		cfg.Meet.Master, cfg.Meet.Guest = at, true
	}
	return nil
}
