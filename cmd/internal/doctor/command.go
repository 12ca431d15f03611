package doctor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/p2p/backend"
	"hcclps/p2p/link"
	"hcclps/p2p/sockets"
	"hcclps/ps"
)

// Command is `doctor` of a program. server says that it is about a machine for a server, which listens and keeps logs. It also takes the flags of
// the program's main command, so that the same command line and configuration file do for both; those that nothing here depends on are not shown.
func Command(server bool, main []cli.Flag) *cli.Command {
	env := program.Env
	flags := []cli.Flag{
		&cli.StringSliceFlag{Name: "servers", Usage: "addresses of the cluster's servers, to be asked", EnvVars: env("servers")},
		&cli.StringFlag{Name: "cluster", Value: ps.DefaultCluster, Usage: "`NAME` of the cluster", EnvVars: env("cluster")},
		&cli.DurationFlag{Name: "timeout", Value: 5 * time.Second, Usage: "patience with one server or tool", EnvVars: env("doctor-timeout")},
		&cli.BoolFlag{Name: "clean", Usage: "remove logs in memory and data folders of temporary clusters whose processes are gone, and the last operations of workers that failed"},
		&cli.BoolFlag{Name: "json", Usage: "for machines"},
	}
	if server {
		flags = append(flags,
			&cli.StringFlag{Name: "listen", Value: ps.DefaultListen, Usage: "`HOST:PORT` to listen on", EnvVars: env("listen")},
			&cli.StringFlag{Name: "advertise", Usage: "`HOST:PORT` others dial; default: --listen", EnvVars: env("advertise")},
			&cli.BoolFlag{Name: "insecure", Usage: "it may listen on other than loopback without TLS or a token", EnvVars: env("insecure")},
			&cli.StringFlag{Name: "dir", Value: ".", Usage: "data `DIR`", EnvVars: env("dir")},
			&cli.StringFlag{Name: "log-dir", Usage: "`DIR` of the shards' logs; default: by durability", EnvVars: env("log-dir")},
			&cli.StringFlag{Name: "durability", Value: ps.QuorumDisk, Usage: ps.QuorumDisk + " or " + ps.QuorumMemory, EnvVars: env("durability")},
			&cli.IntFlag{Name: "replicas", Usage: "copies of each group; default: by the number of servers", EnvVars: env("replicas")},
			&cli.IntFlag{Name: "shards", Usage: "a power of two; default: by the number of servers", EnvVars: env("shards")},
			&cli.StringFlag{Name: "log-budget", Value: "64MiB", Usage: "log bytes a group", EnvVars: env("log-budget")},
			&cli.StringFlag{Name: "memory", Usage: "memory budget, such as 16GiB; default: what is free", EnvVars: env("memory")},
		)
	}
	flags = slices.Concat(flags, program.BulkFlags(), program.NetworkFlags(), program.ConfigFlags())
	return &cli.Command{
		Name: "doctor", Usage: "look at this machine and its cluster: what will fail, and what to do",
		Description: "Exit code 1 when something will fail. Give it the flags the program will get.",
		Flags:       slices.Concat(flags, others(main, flags)),
		Action:      func(c *cli.Context) error { return run(c, server) },
	}
}

// taken is a flag that is accepted and not shown.
type taken struct{ cli.Flag }

// others are the flags of main that are not among flags.
func others(main, flags []cli.Flag) []cli.Flag {
	var out []cli.Flag
	for _, f := range main {
		if !slices.ContainsFunc(flags, func(own cli.Flag) bool { return own.Names()[0] == f.Names()[0] }) {
			out = append(out, taken{f})
		}
	}
	return out
}

func run(c *cli.Context, server bool) error {
	if printed, err := program.PrintedConfig(c); printed || err != nil {
		return err
	}
	opt, err := options(c, server)
	if err != nil {
		return err
	}
	if c.Bool("clean") {
		return clean(c, DefaultPlaces())
	}
	r, err := examineHere(c, opt)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		err = r.WriteJSON(c.App.Writer)
	} else {
		err = r.Write(c.App.Writer)
	}
	return errors.Join(err, r.Err())
}

// options reads the flags.
func options(c *cli.Context, server bool) (Options, error) {
	o := Options{
		Servers: c.StringSlice("servers"), Cluster: c.String("cluster"), Transport: c.String("transport"), Device: c.String("device"),
		Patience: c.Duration("timeout"), Variables: append(FlagVariables(c.App), Variables()...),
	}
	o.Certificate, o.Key, o.Authority, o.Token = fileFlag(c, "tls-cert"), fileFlag(c, "tls-key"), fileFlag(c, "tls-ca"), fileFlag(c, "token-file")
	if err := errors.Join(program.CheckNetwork(c), program.NoArguments(c), program.OneOf("--transport", o.Transport, backend.Transports()...)); err != nil {
		return o, err
	}
	if o.Patience <= 0 {
		return o, program.Usage("--timeout %v: want more than nothing", o.Patience)
	}
	if !server {
		return o, nil
	}
	o.Listen, o.Advertise, o.Durability, o.Insecure = c.String("listen"), c.String("advertise"), c.String("durability"), c.Bool("insecure")
	if addr, err := sockets.Resolve(o.Listen); err == nil { // else the check of listening says so
		o.Listen = addr
	}
	o.Replicas, o.Shards = c.Int("replicas"), c.Int("shards")
	if err := program.OneOf("--durability", o.Durability, ps.QuorumDisk, ps.QuorumMemory); err != nil {
		return o, err
	}
	var err, berr, merr error
	o.Dir, err = filepath.Abs(c.String("dir"))
	o.LogDir = fileFlag(c, "log-dir")
	o.LogBudget, berr = program.Bytes("log-budget", c.String("log-budget"))
	o.Memory, merr = program.Bytes("memory", c.String("memory"))
	return o, errors.Join(err, berr, merr)
}

// fileFlag is the absolute path that a flag names, "" for none.
func fileFlag(c *cli.Context, flag string) string {
	name := c.String(flag)
	if abs, err := filepath.Abs(name); name != "" && err == nil {
		return abs
	}
	return name
}

// examineHere examines this machine.
func examineHere(c *cli.Context, opt Options) (Report, error) {
	network, err := program.Network(c, opt.Cluster, nil)
	if err != nil {
		opt.Refused, network = err, sockets.Network{}
	}
	client, err := link.NewClient(link.Config{Network: network, Pair: backend.Pair, Cluster: opt.Cluster, ID: "doctor"})
	if err != nil {
		return Report{}, err
	}
	ctx, cancel := context.WithCancel(c.Context)
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	r, err := Examine(ctx, Local(network, client), opt)
	cancel()
	return r, errors.Join(err, <-ended)
}

// clean removes and says what.
func clean(c *cli.Context, places Places) error {
	removed, err := places.Clean()
	for _, l := range removed {
		fmt.Fprintf(c.App.Writer, "removed %s, %s\n", l.Path, size(l.Bytes))
	}
	if len(removed) == 0 && err == nil {
		fmt.Fprintln(c.App.Writer, "nothing to remove")
	}
	return err
}
