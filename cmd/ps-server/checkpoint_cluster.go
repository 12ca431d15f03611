package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"hcclps/checkpoint"
	"hcclps/cmd/internal/program"
	"hcclps/p2p/backend"
	"hcclps/p2p/link"
	"hcclps/ps/reach"
	"hcclps/ps/restore"
	"hcclps/ps/wire"
)

// clusterFlags say which cluster is talked to.
func clusterFlags() []cli.Flag {
	return slices.Concat([]cli.Flag{
		&cli.StringSliceFlag{Name: "servers", Value: cli.NewStringSlice("127.0.0.1:7000"), Usage: "addresses to ask", EnvVars: program.Env("servers")},
		&cli.StringFlag{Name: "cluster", Value: "hcclps", Usage: "`NAME` of the cluster", EnvVars: program.Env("cluster")},
		jsonFlag(),
	}, program.NetworkFlags(), program.ConfigFlags())
}

// withCluster finds the cluster of the flags.
func withCluster(c *cli.Context, do func(ctx context.Context, to *reach.Cluster) error) error {
	if err := program.NoArguments(c); err != nil {
		return err
	}
	network, err := program.Network(c, c.String("cluster"), nil)
	if err != nil {
		return err
	}
	client, err := link.NewClient(link.Config{Network: network, Pair: backend.Pair, Cluster: c.String("cluster"), ID: "ps-server checkpoint"})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c.Context)
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	to, err := reach.Discover(ctx, client, c.StringSlice("servers"))
	if err == nil {
		err = do(ctx, to)
	}
	cancel()
	return errors.Join(err, <-ended)
}

func createCommand() *cli.Command {
	return &cli.Command{
		Name: "create", Usage: "keep a running job as it is after one of its next steps",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "job", Usage: "`NAME` of the job", EnvVars: program.Env("job")},
			&cli.DurationFlag{Name: "timeout", Value: time.Hour, Usage: "how long to wait for its end; it goes on without the command"},
		}, clusterFlags()...),
		Action: func(c *cli.Context) error {
			if printed, err := program.PrintedConfig(c); printed || err != nil {
				return err
			}
			if c.String("job") == "" {
				return program.Usage("--job is needed: status shows the jobs that run")
			}
			return withCluster(c, func(ctx context.Context, to *reach.Cluster) error {
				ctx, cancel := context.WithTimeout(ctx, c.Duration("timeout"))
				defer cancel()
				return create(ctx, c, to)
			})
		},
	}
}

func create(ctx context.Context, c *cli.Context, to *reach.Cluster) error {
	var plan wire.Plan
	req := wire.PlanRequest{SessionRef: wire.SessionRef{Job: c.String("job")}, Plan: wire.Plan{Kind: wire.PlanCheckpoint}}
	if err := to.Ask(ctx, wire.KindPlan, req, &plan); err != nil {
		return fmt.Errorf("create checkpoint of job %q: %w", c.String("job"), err)
	}
	bar := newBar(c, fmt.Sprintf("checkpoint %d", plan.Checkpoint))
	defer bar.end()
	for {
		var all wire.CheckpointsReply
		if err := to.Ask(ctx, wire.KindCheckpoints, wire.CheckpointsRequest{}, &all); err != nil {
			return fmt.Errorf("watch checkpoint %d: %w", plan.Checkpoint, err)
		}
		for _, s := range all.Last {
			if s.ID == plan.Checkpoint {
				bar.end()
				return created(c, all.Dir, s)
			}
		}
		if now := all.Now; now != nil && now.ID == plan.Checkpoint {
			bar.parts(now)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("checkpoint %d is not written yet, and goes on: %w", plan.Checkpoint, ctx.Err())
		}
	}
}

func created(c *cli.Context, dir string, s wire.CheckpointStatus) error {
	if c.Bool("json") {
		if err := json.NewEncoder(c.App.Writer).Encode(s); err != nil {
			return err
		}
	}
	if s.State != "committed" {
		return fmt.Errorf("checkpoint %d of job %q is %s: %s", s.ID, s.Job, s.State, s.Why)
	}
	if !c.Bool("json") {
		fmt.Fprintf(c.App.Writer, "checkpoint %d of job %s, step %d, %d bytes written, in %s\n", s.ID, s.Job, s.Step, s.Bytes, dir)
	}
	return nil
}

func restoreCommand() *cli.Command {
	return &cli.Command{
		Name: "restore", Usage: "bring a job from a checkpoint into a cluster that does not know it, or tables into a job",
		Description: "The cluster may have other numbers of servers and shards. The workers then go on by their names,\n" +
			"each after the last step that the checkpoint has of it. A restore that was broken off is run again.\n\n" +
			"With --table only these tables come, with optimizer slots and schema, into a job that runs or has yet to begin:\n" +
			"an experiment on a copy. Workers see each when all of it is there.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "from", Usage: "`DIR[@ID]`: the folder, and which checkpoint; without one the newest, if all are of one job"},
			&cli.StringFlag{Name: "job", Usage: "new `NAME` of the job, or the one that tables come into; default: as it was"},
			&cli.StringSliceFlag{Name: "table", Usage: "only this table, `NAME[=NEWNAME]`; may be given again"},
			&cli.IntFlag{Name: "world", Usage: "go on with `N` workers (bsp); default: as many as there were"},
		}, clusterFlags()...),
		Action: func(c *cli.Context) error {
			if printed, err := program.PrintedConfig(c); printed || err != nil {
				return err
			}
			if c.String("from") == "" {
				return program.Usage("--from is needed: DIR or DIR@ID")
			}
			if n := c.Int("world"); c.IsSet("world") && n < 1 {
				return program.Usage("--world %d: want 1 or more workers", n)
			}
			do := bring
			if tables := c.StringSlice("table"); len(tables) > 0 {
				if c.IsSet("world") {
					return program.Usage("--world is for whole jobs: with --table no workers come")
				}
				if slices.ContainsFunc(tables, func(t string) bool { return copyOf(t) == restore.Copy{} }) {
					return program.Usage("--table %q: want NAME or NAME=NEWNAME", tables)
				}
				do = fork
			}
			return withCheckpoint(c.Context, c.String("from"), func(ck *checkpoint.Checkpoint) error {
				return withCluster(c, func(ctx context.Context, to *reach.Cluster) error { return do(ctx, c, ck, to) })
			})
		},
	}
}

func bring(ctx context.Context, c *cli.Context, ck *checkpoint.Checkpoint, to *reach.Cluster) error {
	from, err := restore.ParseSource(c.String("from"))
	if err != nil {
		return err
	}
	bar := newBar(c, "restore")
	report, err := restore.Run(ctx, restore.Config{
		From: ck, Dir: from.Dir, Job: c.String("job"), World: c.Int("world"), To: to,
		Progress: func(done, total uint64) { bar.set(int64(done), int64(total)) },
	})
	bar.end()
	switch {
	case err != nil:
		return err
	case c.Bool("json"):
		return json.NewEncoder(c.App.Writer).Encode(report)
	}
	fmt.Fprintf(c.App.Writer, "job %s is back at step %d: %d tables, %d rows\n", report.Job, report.Step, report.Tables, report.Rows)
	return nil
}

// copyOf reads NAME or NAME=NEWNAME; empty: it is none.
func copyOf(s string) restore.Copy {
	name, as, renamed := strings.Cut(s, "=")
	if name == "" || renamed && as == "" {
		return restore.Copy{}
	}
	return restore.Copy{Table: name, As: as}
}

// fork brings tables into a job.
func fork(ctx context.Context, c *cli.Context, ck *checkpoint.Checkpoint, to *reach.Cluster) error {
	var tables []restore.Copy
	for _, t := range c.StringSlice("table") {
		tables = append(tables, copyOf(t))
	}
	bar := newBar(c, "fork")
	report, err := restore.Fork(ctx, restore.ForkConfig{
		From: ck, Job: c.String("job"), Tables: tables, To: to,
		Progress: func(done, total uint64) { bar.set(int64(done), int64(total)) },
	})
	bar.end()
	if c.Bool("json") && err == nil {
		return json.NewEncoder(c.App.Writer).Encode(report)
	}
	for _, t := range report.Tables { // those that came before an error too
		if t.There {
			fmt.Fprintf(c.App.Writer, "table %s of checkpoint %d is %s of job %s already: this fork was done before, nothing was changed\n", t.Table, report.Checkpoint, t.As, report.Job)
			continue
		}
		fmt.Fprintf(c.App.Writer, "table %s of checkpoint %d is %s of job %s: %d rows\n", t.Table, report.Checkpoint, t.As, report.Job, t.Rows)
	}
	return err
}
