package main

import (
	"net"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/ps"
)

func serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "run one server until it is told to stop",
		Description: "First start of a cluster: give all servers the same --servers list; the first in it founds the cluster.\n" +
			"Later starts need --name and --dir only: everything else was recorded.",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "cluster", Value: "hcclps", Usage: "`NAME` of the cluster; others are refused", EnvVars: program.Env("cluster")},
			&cli.StringFlag{Name: "name", Usage: "`NAME` of this server; default: the folder's", EnvVars: program.Env("name")},
			&cli.StringFlag{Name: "dir", Usage: "data `DIR`, one a server", EnvVars: program.Env("dir")},
			&cli.StringFlag{Name: "log-dir", Usage: "`DIR` of the shards' logs; default: by durability", EnvVars: program.Env("log-dir")},
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:7000", Usage: "`HOST:PORT` to listen on", EnvVars: program.Env("listen")},
			&cli.StringFlag{Name: "advertise", Usage: "`HOST:PORT` others dial; default: --listen", EnvVars: program.Env("advertise")},
			&cli.StringSliceFlag{Name: "servers", Usage: "first start: advertised addresses of all servers", EnvVars: program.Env("servers")},
			&cli.IntFlag{Name: "replicas", Value: 3, Usage: "copies of each group: 1, 3 or 5; 0: scratch, nothing survives", EnvVars: program.Env("replicas")},
			&cli.IntFlag{Name: "shards", Usage: "a power of two; default: by the number of servers", EnvVars: program.Env("shards")},
			&cli.StringFlag{Name: "durability", Value: ps.QuorumDisk, Usage: ps.QuorumDisk + " or " + ps.QuorumMemory, EnvVars: program.Env("durability")},
			&cli.StringFlag{Name: "memory", Usage: "memory budget, such as 16GiB; default: what is free", EnvVars: program.Env("memory")},
			&cli.StringFlag{Name: "log-budget", Value: "64MiB", Usage: "log bytes a group", EnvVars: program.Env("log-budget")},
			&cli.BoolFlag{Name: "allow-same-host", Usage: "replicas of a group may share a host", EnvVars: program.Env("allow-same-host")},
			&cli.BoolFlag{Name: "insecure", Usage: "listen on other than loopback without TLS or a token", EnvVars: program.Env("insecure")},
		}, program.LogFlags("info"), program.ConfigFlags()),
		Action: serve,
	}
}

func serve(c *cli.Context) error {
	if printed, err := program.PrintedConfig(c); printed || err != nil {
		return err
	}
	cfg, err := serveConfig(c)
	if err != nil {
		return err
	}
	s, err := ps.New(cfg)
	if err != nil {
		return &program.UsageError{Err: err}
	}
	return s.Run(c.Context)
}

func serveConfig(c *cli.Context) (ps.Config, error) {
	var cfg ps.Config
	if err := program.NoArguments(c); err != nil {
		return cfg, err
	}
	log, err := program.Logger(c)
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
	if err := program.OneOf("--durability", c.String("durability"), ps.QuorumDisk, ps.QuorumMemory); err != nil {
		return cfg, err
	}
	if c.String("dir") == "" {
		return cfg, program.Usage("--dir is needed: the folder this server keeps its data in")
	}
	if err := checkListen(c.String("listen"), c.Bool("insecure")); err != nil {
		return cfg, err
	}
	cfg = ps.Config{
		Cluster: c.String("cluster"), Name: c.String("name"), Dir: c.String("dir"), LogDir: c.String("log-dir"),
		Listen: c.String("listen"), Advertise: c.String("advertise"), Peers: c.StringSlice("servers"),
		Replicas: c.Int("replicas"), Scratch: c.Int("replicas") == 0, Shards: c.Int("shards"), Durability: c.String("durability"),
		Memory: memory, LogBudget: budget, AllowSameHost: c.Bool("allow-same-host"),
		Version: program.Version, Logger: log,
	}
	if cfg.Name == "" {
		parts := strings.Split(strings.TrimRight(cfg.Dir, "/"), "/")
		cfg.Name = parts[len(parts)-1]
	}
	return cfg, nil
}

// checkListen refuses an address that others can reach, unless told to.
func checkListen(addr string, insecure bool) error {
	if strings.HasPrefix(addr, "unix:") {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return program.Usage("--listen %s: %w", addr, err)
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() || insecure {
		return nil
	}
	return program.Usage("--listen %s is not loopback, and connections are neither encrypted nor authenticated: say --insecure if the network is trusted", addr)
}
