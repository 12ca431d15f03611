package main

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/ps"
	"hcclps/ps/restore"
)

func serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "run one server until it is told to stop",
		Description: "First start of a cluster: give all servers the same --servers list; the first in it founds the cluster.\n" +
			"Later starts need --dir only: everything else was recorded. A flag that contradicts the record is refused;\n" +
			"--listen, --memory, --log-budget and the files of TLS and token may be changed.\n" +
			"Other hosts are listened to with TLS or a token only, or with --insecure.",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "cluster", Usage: "`NAME` of the cluster; others are refused; default: " + ps.DefaultCluster, EnvVars: program.Env("cluster")},
			&cli.StringFlag{Name: "name", Usage: "`NAME` of this server; default: the folder's", EnvVars: program.Env("name")},
			&cli.StringFlag{Name: "dir", Usage: "data `DIR`, one a server", EnvVars: program.Env("dir")},
			&cli.StringFlag{Name: "log-dir", Usage: "`DIR` of the shards' logs; default: by durability", EnvVars: program.Env("log-dir")},
			&cli.StringFlag{Name: "listen", Usage: "`HOST:PORT` to listen on; an interface or a network may stand for the host: eth0:7000, 10.0.0.0/8:7000; default: " + ps.DefaultListen, EnvVars: program.Env("listen")},
			&cli.StringFlag{Name: "advertise", Usage: "`HOST:PORT` others dial; default: --listen", EnvVars: program.Env("advertise")},
			&cli.StringSliceFlag{Name: "servers", Usage: "first start: advertised addresses of all servers", EnvVars: program.Env("servers")},
			&cli.IntFlag{Name: "replicas", Usage: "copies of each shard, on as many servers: 1, 3 or 5; 0: scratch, nothing survives; default: 3, or 1 with fewer than 3 servers", DefaultText: "by the number of servers", EnvVars: program.Env("replicas")},
			&cli.IntFlag{Name: "shards", Usage: "parts that the parameters are dealt over, a power of two; default: by the number of servers", EnvVars: program.Env("shards")},
			&cli.StringFlag{Name: "durability", Usage: "where a majority has a push before it is acknowledged: " + ps.QuorumDisk + " or " + ps.QuorumMemory + "; default: " + ps.QuorumDisk, EnvVars: program.Env("durability")},
			&cli.StringFlag{Name: "memory", Usage: "memory for tables, requests on their way, copies for snapshots and logs in memory, such as 16GiB; not in it: up to 30 MiB of the program itself, and files that it maps and the system can drop from memory, which are logs on disk (--log-budget a shard) and cold rows; default: what is free", EnvVars: program.Env("memory")},
			&cli.StringFlag{Name: "log-budget", Usage: "bytes of each shard's log on this server at most: it has 64MiB at first, and grows to a tenth of the shard's state; default: 1GiB, 64MiB in memory", EnvVars: program.Env("log-budget")},
			&cli.BoolFlag{Name: "allow-same-host", Usage: "copies of a shard may share a host, and die with it", EnvVars: program.Env("allow-same-host")},
			&cli.BoolFlag{Name: "insecure", Usage: "listen on other than loopback without TLS or a token", EnvVars: program.Env("insecure")},
			&cli.DurationFlag{Name: "peer-heartbeat", Usage: "how often a connection says that it lives; default: 500ms", EnvVars: program.Env("peer-heartbeat")},
			&cli.DurationFlag{Name: "peer-suspect", Usage: "silence after which the other side is taken for dead; default: 2s", EnvVars: program.Env("peer-suspect")},
			&cli.StringFlag{Name: "checkpoint-dir", Usage: "`DIR` of checkpoints, one for all servers; none: none are made", EnvVars: program.Env("checkpoint-dir")},
			&cli.StringFlag{Name: "checkpoint-every", Usage: "keep each running job so often: `10m`, or 500steps", EnvVars: program.Env("checkpoint-every")},
			&cli.IntFlag{Name: "checkpoint-keep", Usage: "the newest `N` checkpoints of a job stay; default: 3", EnvVars: program.Env("checkpoint-keep")},
			&cli.StringFlag{Name: "checkpoint-rate", Usage: "bytes of a checkpoint that each shard writes in a second at most, such as 64MiB, the default; 0: no bound", EnvVars: program.Env("checkpoint-rate")},
			&cli.StringFlag{Name: "restore", Usage: "first start: begin with a checkpoint, the newest in `DIR`, which is to be of one job, or DIR@ID", EnvVars: program.Env("restore")},
			&cli.IntFlag{Name: "restore-world", Usage: "with --restore: go on with `N` workers (bsp); default: as many as there were", EnvVars: program.Env("restore-world")},
			program.ProfileFlag(", at the end"),
		}, program.NetworkFlags(), program.BulkFlags(), program.LogFlags("info"), program.ConfigFlags()),
		Action: serve,
	}
}

// serverID is a server's number in profiles, above all ranks of workers; that of several is told apart when they are merged.
const serverID = 1000

func serve(c *cli.Context) error {
	if printed, err := program.PrintedConfig(c); printed || err != nil {
		return err
	}
	cfg, err := serveConfig(c)
	if err != nil {
		return err
	}
	profile, err := program.NewProfile(c, "server "+cmp.Or(cfg.Name, filepath.Base(cfg.Dir)), serverID, "")
	if err != nil {
		return err
	}
	cfg.Trace = profile.Recorder()
	s, err := ps.New(cfg)
	if err != nil {
		return &program.UsageError{Err: err}
	}
	keepHeapSmall(cfg.Memory)
	err = profile.With(c.Context, s.Run)
	if _, ok := errors.AsType[*ps.ConfigError](err); ok {
		return &program.UsageError{Err: err}
	}
	return err
}

func serveConfig(c *cli.Context) (ps.Config, error) {
	var cfg ps.Config
	if err := program.NoArguments(c); err != nil {
		return cfg, err
	}
	if err := program.CheckNetwork(c); err != nil {
		return cfg, err
	}
	log, err := program.Logger(c)
	if err != nil {
		return cfg, err
	}
	bulk, err := program.Bulk(c)
	if err != nil {
		return cfg, err
	}
	memory, err := program.Bytes("memory", c.String("memory"))
	if err != nil {
		return cfg, err
	}
	budget, err := program.Bytes("log-budget", c.String("log-budget"))
	if err != nil {
		return cfg, err
	}
	saves, err := checkpointConfig(c)
	if err == nil {
		err = checkRestore(c)
	}
	if err != nil {
		return cfg, err
	}
	if d := c.String("durability"); d != "" {
		if err := program.OneOf("--durability", d, ps.QuorumDisk, ps.QuorumMemory); err != nil {
			return cfg, err
		}
	}
	if c.String("dir") == "" {
		return cfg, program.Usage("--dir is needed: the folder this server keeps its data in")
	}
	return ps.Config{
		Cluster: c.String("cluster"), Name: c.String("name"), Dir: c.String("dir"), LogDir: c.String("log-dir"),
		Listen: c.String("listen"), Advertise: c.String("advertise"), Peers: c.StringSlice("servers"),
		Replicas: c.Int("replicas"), Scratch: c.IsSet("replicas") && c.Int("replicas") == 0, Shards: c.Int("shards"), Durability: c.String("durability"),
		Memory: memory, LogBudget: budget, AllowSameHost: c.Bool("allow-same-host"), Insecure: c.Bool("insecure"),
		TLSCert: c.String("tls-cert"), TLSKey: c.String("tls-key"), TLSCA: c.String("tls-ca"), TokenFile: c.String("token-file"),
		Bulk: bulk, Checkpoint: saves, Restore: c.String("restore"), RestoreWorld: c.Int("restore-world"),
		PeerHeartbeat: c.Duration("peer-heartbeat"), PeerSuspect: c.Duration("peer-suspect"),
		Version: program.Version, Logger: log,
	}, nil
}

// keepHeapSmall has the collector come sooner where memory is counted, unless the environment says when: rows are no
// part of the heap, so there is little for it to go through. It sets no limit, since near one the collector would never
// rest.
func keepHeapSmall(memory int64) {
	if memory > 0 && os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(heapPercent)
	}
}

// heapPercent is how much the heap may grow from one collection to the next.
const heapPercent = 40

// checkRestore refuses what cannot be restored. A later start finds in its data directory what the flags do not say.
func checkRestore(c *cli.Context) error {
	n := c.Int("restore-world")
	switch {
	case c.IsSet("restore-world") && n < 1:
		return program.Usage("--restore-world %d: want 1 or more workers", n)
	case c.IsSet("restore-world") && !c.IsSet("restore"):
		return program.Usage("--restore-world needs --restore: the checkpoint to begin with")
	case !c.IsSet("restore"):
		return nil
	}
	if _, err := restore.ParseSource(c.String("restore")); err != nil {
		return program.Usage("--restore: %w", err)
	}
	return nil
}

func checkpointConfig(c *cli.Context) (cfg ps.CheckpointConfig, err error) {
	if n := c.Int("checkpoint-keep"); c.IsSet("checkpoint-keep") && n < 1 {
		return cfg, program.Usage("--checkpoint-keep %d: want 1 or more", n)
	}
	if _, err := os.Stat(filepath.Join(c.String("dir"), "store")); err != nil && c.String("checkpoint-dir") == "" { // no later start, that knows it
		for _, name := range []string{"checkpoint-every", "checkpoint-keep", "checkpoint-rate"} {
			if c.IsSet(name) {
				return cfg, program.Usage("--%s needs --checkpoint-dir: where the checkpoints are", name)
			}
		}
	}
	steps, every, err := program.Interval("checkpoint-every", c.String("checkpoint-every"))
	if err != nil {
		return cfg, err
	}
	rate, err := program.Bytes("checkpoint-rate", c.String("checkpoint-rate"))
	if err != nil {
		return cfg, err
	}
	if rate == 0 && c.String("checkpoint-rate") != "" {
		rate = -1
	}
	return ps.CheckpointConfig{Dir: c.String("checkpoint-dir"), Every: every, EverySteps: steps, Keep: c.Int("checkpoint-keep"), Rate: rate}, nil
}
