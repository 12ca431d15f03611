package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/cmd/internal/pushbench"
	"hcclps/p2p/backend"
	"hcclps/p2p/sockets"
	"hcclps/ps"
	"hcclps/worker"
)

// The transports of bench pushpull.
const (
	pushShm  = "shm"  // shared memory
	pushUnix = "unix" // Unix sockets
	pushTCP  = "tcp"  // TCP on loopback
)

func benchPushPullCommand() *cli.Command {
	env := program.Env
	return &cli.Command{
		Name: "pushpull", Usage: "pushes and pulls of a dense tensor, by one worker",
		Description: "Starts servers, each a process of its own, or uses those of --servers. One operation follows another; the median round counts.\n" +
			"Contents are compared outside the timed part. With --servers the transport is what auto picks, or tcp.\n" + cpuShareHelp,
		Flags: slices.Concat([]cli.Flag{
			&cli.StringSliceFlag{Name: "servers", Usage: "addresses of running servers", EnvVars: env("servers")},
			&cli.StringFlag{Name: "cluster", Value: ps.DefaultCluster, Usage: "`NAME` of their cluster", EnvVars: env("cluster")},
			&cli.IntFlag{Name: "embedded", Usage: "start `N` servers on this machine; default: as many as replicas", EnvVars: env("embedded")},
			&cli.IntFlag{Name: "replicas", Usage: "of servers started here: copies of each group, 1 or 3; 0: scratch", EnvVars: env("replicas")},
			&cli.IntFlag{Name: "shards", Usage: "of servers started here: a power of two; default: 1 for one server, else by their number", EnvVars: env("shards")},
			&cli.StringFlag{Name: "durability", Value: ps.QuorumMemory, Usage: "of servers started here, with 3 replicas: " + ps.QuorumDisk + " or " + ps.QuorumMemory, EnvVars: env("durability")},
			&cli.StringFlag{Name: "transport", Value: pushShm, Usage: strings.Join(pushTransports(), ", "), EnvVars: env("bench-transport")},
			&cli.StringSliceFlag{Name: "sizes", Value: cli.NewStringSlice("1MiB", "4MiB", "64MiB"), Usage: "of the tensor", EnvVars: env("bench-sizes")},
			&cli.IntFlag{Name: "parts", Usage: "messages a shard that a push is cut into, a power of two; default: by size", EnvVars: env("parts")},
			&cli.IntFlag{Name: "rounds", Value: 5, Usage: "of which the median counts", EnvVars: env("bench-rounds")},
			&cli.DurationFlag{Name: "time", Value: 2 * time.Second, Usage: "for each size, about", EnvVars: env("bench-time")},
			&cli.BoolFlag{Name: "json", Usage: "a line for each operation and size"},
		}, program.NetworkFlags(), program.LogFlags("warn"), program.ConfigFlags()),
		Action: benchPushPull,
	}
}

func pushTransports() []string { return []string{pushShm, pushUnix, pushTCP} }

func benchPushPull(c *cli.Context) error {
	if printed, err := program.PrintedConfig(c); printed || err != nil {
		return err
	}
	b, err := newPushPull(c)
	if err != nil {
		return err
	}
	return b.run(c.Context)
}

// pushPull is one run of bench pushpull.
type pushPull struct {
	c        *cli.Context
	spec     pushbench.Spec
	embedded int // servers to start; 0: they are running
}

func newPushPull(c *cli.Context) (*pushPull, error) {
	b := &pushPull{c: c, embedded: c.Int("embedded")}
	if err := errors.Join(program.NoArguments(c), program.OneOf("--transport", c.String("transport"), pushTransports()...),
		program.OneOf("--durability", c.String("durability"), ps.QuorumDisk, ps.QuorumMemory)); err != nil {
		return nil, err
	}
	switch {
	case len(c.StringSlice("servers")) > 0 && b.embedded != 0:
		return nil, program.Usage("--servers and --embedded exclude each other")
	case len(c.StringSlice("servers")) == 0 && b.embedded == 0:
		b.embedded = max(1, c.Int("replicas"))
	}
	if b.embedded < 0 || c.Duration("time") <= 0 || c.Int("rounds") < 1 {
		return nil, program.Usage("--embedded %d, --time %v, --rounds %d: want 1 server or more, some time, 1 round or more", b.embedded, c.Duration("time"), c.Int("rounds"))
	}
	if b.embedded > 0 {
		if err := layoutFits(b.embedded, max(1, c.Int("replicas")), c.Int("shards")); err != nil {
			return nil, err
		}
	}
	b.spec = pushbench.Spec{Time: c.Duration("time"), Rounds: c.Int("rounds"), Parts: c.Int("parts")}
	for _, s := range c.StringSlice("sizes") {
		n, err := program.Bytes("sizes", s)
		if err != nil {
			return nil, err
		}
		if n < 4 || n%4 != 0 || n > math.MaxInt32 {
			return nil, program.Usage("--sizes %s: want a multiple of 4 bytes, less than 2GiB", s)
		}
		b.spec.Sizes = append(b.spec.Sizes, int(n))
	}
	return b, b.worker()
}

// worker says how the servers are reached.
func (b *pushPull) worker() error {
	log, err := program.Logger(b.c)
	if err != nil {
		return err
	}
	b.spec.Worker = worker.Config{
		Servers: b.c.StringSlice("servers"), Cluster: b.c.String("cluster"), Job: "bench-" + strings.ToLower(rand.Text()[:6]), Parts: b.spec.Parts, Logger: log,
		Bulk: bulkOf(b.c.String("transport")),
	}
	if b.embedded > 0 {
		b.spec.Worker.Servers = []string{"embedded"} // replaced when they run
		b.spec.Worker.Cluster = "bench-" + strings.ToLower(rand.Text()[:8])
	}
	if err := b.spec.Worker.Validate(); err != nil {
		return &program.UsageError{Err: err}
	}
	b.spec.Worker.Network, err = program.Network(b.c, b.spec.Worker.Cluster, log)
	return err
}

// bulkOf is what carries bulk under a transport: no other.
func bulkOf(transport string) backend.Config {
	if transport == pushShm {
		return backend.Config{Transport: backend.SHM, NoFallback: true}
	}
	return backend.Config{Transport: backend.TCP}
}

func (b *pushPull) run(ctx context.Context) error {
	table := pushbench.NewTable(b.c.App.Writer, b.c.Bool("json"))
	if err := table.Head(b.title()); err != nil {
		return err
	}
	wrong := 0
	measure := func(ctx context.Context) error {
		return pushbench.Run(ctx, b.spec, func(r pushbench.Result) error {
			wrong += r.Wrong
			return table.Row(r)
		})
	}
	var err error
	if b.embedded == 0 {
		err = measure(ctx)
	} else {
		err = b.withServers(ctx, measure)
	}
	if err == nil && wrong > 0 {
		err = fmt.Errorf("%d weights are not what the pushes make of them", wrong)
	}
	return err
}

func (b *pushPull) title() string {
	if b.embedded == 0 {
		return fmt.Sprintf("servers %s, %s", strings.Join(b.spec.Worker.Servers, ", "), b.c.String("transport"))
	}
	return fmt.Sprintf("%s, one worker, %d server processes, %d replicas", b.c.String("transport"), b.embedded, b.c.Int("replicas"))
}

// withServers starts the servers, calls f and stops them. Nothing of them is left behind.
func (b *pushPull) withServers(ctx context.Context, f func(context.Context) error) (err error) {
	dir, err := os.MkdirTemp("", "hcclps-bench-")
	if err != nil {
		return fmt.Errorf("make folder for servers: %w", err)
	}
	defer func() { err = errors.Join(err, b.cleanUp(dir)) }()
	addrs, err := b.addresses(dir)
	if err != nil {
		return err
	}
	b.spec.Worker.Servers = addrs
	b.spec.Worker.Logger.Info("servers of this measurement", "cluster", b.spec.Worker.Cluster, "dir", dir)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	share := cpuShare(os.Environ(), runtime.GOMAXPROCS(0), 1+b.embedded)
	defer takeShare(share)()
	procs := newProcesses(b.c.App.ErrWriter, b.c.App.ErrWriter, b.spec.Worker.Logger)
	procs.env = shareVariable(share)
	procs.onFailure = func(name string, err error) { cancel(fmt.Errorf("%s ended: %w", name, err)) }
	defer procs.stopAll()
	for i := range addrs {
		p, err := b.server(dir, addrs, i)
		if err == nil {
			err = procs.start(p)
		}
		if err != nil {
			return err
		}
	}
	if err := f(ctx); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return nil
}

func (b *pushPull) addresses(dir string) (addrs []string, err error) {
	for i := range b.embedded {
		addr := "unix:" + filepath.Join(dir, serverName(i)+".sock")
		if b.c.String("transport") == pushTCP {
			port, err := sockets.FreePort()
			if err != nil {
				return nil, err
			}
			addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}

func serverName(i int) string { return fmt.Sprintf("s%d", i+1) }

// server is this program as a server.
func (b *pushPull) server(dir string, addrs []string, i int) (process, error) {
	self, err := os.Executable()
	if err != nil {
		return process{}, fmt.Errorf("find this program: %w", err)
	}
	name := serverName(i)
	args := []string{
		"bench", "server", "--cluster", b.spec.Worker.Cluster, "--dir", filepath.Join(dir, name), "--listen", addrs[i], "--servers", strings.Join(addrs, ","),
		"--replicas", strconv.Itoa(b.c.Int("replicas")), "--shards", strconv.Itoa(b.shards()), "--durability", b.c.String("durability"),
		"--transport", b.c.String("transport"), "--log-level", b.c.String("log-level"),
	}
	return process{name: name, path: self, args: args, env: foreign(os.Environ())}, nil
}

// shards is what was asked for, or one for one server: more would only cut its messages.
func (b *pushPull) shards() int {
	if n := b.c.Int("shards"); n != 0 || b.embedded > 1 {
		return n
	}
	return 1
}

func (b *pushPull) cleanUp(dir string) error {
	errs := []error{os.RemoveAll(dir)}
	for i := range b.embedded {
		errs = append(errs, os.RemoveAll(ps.MemoryLogDir(b.spec.Worker.Cluster, serverName(i))))
	}
	return errors.Join(errs...)
}

// benchServerCommand is a server of a measurement.
func benchServerCommand() *cli.Command {
	return &cli.Command{
		Name: "server", Usage: "a server of a measurement", Hidden: true,
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "cluster", Required: true},
			&cli.StringFlag{Name: "dir", Required: true},
			&cli.StringFlag{Name: "listen", Required: true},
			&cli.StringSliceFlag{Name: "servers", Required: true},
			&cli.IntFlag{Name: "replicas"},
			&cli.IntFlag{Name: "shards"},
			&cli.StringFlag{Name: "durability"},
			&cli.StringFlag{Name: "transport"},
		}, program.LogFlags("warn")),
		Action: func(c *cli.Context) error {
			log, err := program.Logger(c)
			if err != nil {
				return err
			}
			replicas := c.Int("replicas")
			cfg := ps.Config{
				Cluster: c.String("cluster"), Dir: c.String("dir"), Listen: c.String("listen"), Peers: c.StringSlice("servers"), Shards: c.Int("shards"),
				Replicas: replicas, Scratch: replicas == 0, AllowSameHost: true, Bulk: bulkOf(c.String("transport")), Logger: log,
			}
			if replicas > 1 {
				cfg.Durability = c.String("durability")
			}
			s, err := ps.New(cfg)
			if err != nil {
				return err
			}
			return s.Run(c.Context)
		},
	}
}
