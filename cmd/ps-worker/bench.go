package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/pairbench"
	"hcclps/cmd/internal/program"
)

func benchCommand() *cli.Command {
	return &cli.Command{
		Name: "bench", Usage: "measure parts of the system on this machine",
		Subcommands: append([]*cli.Command{benchP2PCommand(), benchPeerCommand(), benchPushPullCommand(), benchServerCommand(), benchCompressCommand()}, benchCollectiveCommands()...),
	}
}

// defaultSizes are eight bytes, and powers of four of KiB up to 256 MiB.
const defaultSizes = "8,1KiB,4KiB,16KiB,64KiB,256KiB,1MiB,4MiB,16MiB,64MiB,256MiB"

func benchP2PCommand() *cli.Command {
	return &cli.Command{
		Name: "p2p", Usage: "one-way latency and streams between two processes",
		Description: "Starts itself as the other process. One-way latency is half a ping-pong, algbw is a stream of messages from eight buffers in turn.\n" +
			"With --bidir algbw is the stream of one direction while the other is as busy, busbw of both together. Contents are compared outside the timed part.",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "transport", Value: pairbench.Shm, Usage: strings.Join(pairbench.Transports(), ", "), EnvVars: program.Env("bench-transport")},
			&cli.StringSliceFlag{Name: "sizes", Value: cli.NewStringSlice(strings.Split(defaultSizes, ",")...), Usage: "of messages, such as 8,1KiB,4MiB", EnvVars: program.Env("bench-sizes")},
			&cli.BoolFlag{Name: "bidir", Usage: "stream in both directions at once"},
			&cli.IntFlag{Name: "stripes", Value: 1, Usage: "connections of unix, tcp and tls", EnvVars: program.Env("bench-stripes")},
			&cli.BoolFlag{Name: "checksum", Usage: "CRC-32C of each message over unix, tcp and tls", EnvVars: program.Env("bench-checksum")},
			&cli.BoolFlag{Name: "transfer", Usage: "messages go through the chunks, grants and windows of pushes and pulls"},
			&cli.StringFlag{Name: "devices", Value: "0,1", Usage: "NPUs of the two processes for hccl", EnvVars: program.Env("bench-devices")},
			&cli.IntFlag{Name: "rounds", Value: 5, Usage: "of which the median counts", EnvVars: program.Env("bench-rounds")},
			&cli.DurationFlag{Name: "time", Value: time.Second, Usage: "for each size, about", EnvVars: program.Env("bench-time")},
			&cli.BoolFlag{Name: "json", Usage: "a line for each size"},
		}, program.ConfigFlags()),
		Action: benchP2P,
	}
}

func benchP2P(c *cli.Context) error {
	if printed, err := program.PrintedConfig(c); printed || err != nil {
		return err
	}
	spec, cfg, err := benchSpec(c)
	if err != nil {
		return err
	}
	table := pairbench.NewTable(c.App.Writer, c.Bool("json"))
	if err := table.Head(benchTitle(c, cfg)); err != nil {
		return err
	}
	wrong := 0
	err = withPair(c.Context, cfg, func(ctx context.Context, p *pairbench.Pair) error {
		return pairbench.Run(ctx, p, spec, func(r pairbench.Result) error {
			wrong += r.Wrong
			return table.Row(r)
		})
	})
	if err == nil && wrong > 0 {
		err = fmt.Errorf("%d messages had wrong contents", wrong)
	}
	return err
}

func benchTitle(c *cli.Context, cfg pairbench.Config) string {
	title := cfg.Transport + ", two processes"
	switch cfg.Transport {
	case pairbench.Inproc:
		title = "inproc, two ranks of one process"
	case pairbench.Unix, pairbench.TCP, pairbench.TLS:
		title += fmt.Sprintf(", %d connections, checksums %v", cfg.Stripes, cfg.Checksum)
	}
	if cfg.Transfer {
		title += ", chunked transfers"
	}
	if c.Bool("bidir") {
		title += ", both directions at once"
	}
	return title
}

// benchSpec reads the flags.
func benchSpec(c *cli.Context) (pairbench.Spec, pairbench.Config, error) {
	spec := pairbench.Spec{Both: c.Bool("bidir"), Time: c.Duration("time"), Rounds: c.Int("rounds")}
	cfg := pairbench.Config{Transport: c.String("transport"), Stripes: c.Int("stripes"), Checksum: c.Bool("checksum"), Transfer: c.Bool("transfer")}
	if cfg.Transfer && cfg.Transport == pairbench.Inproc {
		return spec, cfg, program.Usage("--transfer is for two processes, inproc is one")
	}
	if err := errors.Join(program.NoArguments(c), program.OneOf("--transport", cfg.Transport, pairbench.Transports()...)); err != nil {
		return spec, cfg, err
	}
	if spec.Time <= 0 || spec.Rounds < 1 || cfg.Stripes < 1 || cfg.Stripes > 64 {
		return spec, cfg, program.Usage("--time %v, --rounds %d, --stripes %d: want some time, 1 round or more, 1 to 64 stripes", spec.Time, spec.Rounds, cfg.Stripes)
	}
	if n, err := fmt.Sscanf(c.String("devices"), "%d,%d", &cfg.Devices[0], &cfg.Devices[1]); err != nil || n != 2 {
		return spec, cfg, program.Usage("--devices %s: want two numbers such as 0,1", c.String("devices"))
	}
	for _, s := range c.StringSlice("sizes") {
		n, err := program.Bytes("sizes", s)
		if err != nil {
			return spec, cfg, err
		}
		if n > math.MaxInt32 {
			return spec, cfg, program.Usage("--sizes %s: want less than 2GiB", s)
		}
		spec.Sizes = append(spec.Sizes, int(n))
	}
	return spec, cfg, nil
}

// withPair connects to another process of this program, or to another rank of this one, and calls f as rank 0.
func withPair(ctx context.Context, cfg pairbench.Config, f func(context.Context, *pairbench.Pair) error) (err error) {
	if cfg.Transport == pairbench.Inproc {
		p := pairbench.Together(ctx)
		return p.Do(ctx, func(ctx context.Context) error { return f(ctx, p) })
	}
	if cfg.Dir, err = os.MkdirTemp("", "hcclps-bench-"); err != nil {
		return fmt.Errorf("make folder for sockets: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cfg.Dir)) }()
	host, err := pairbench.Listen(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	other, err := otherProcess(ctx, cfg, host.Addr())
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		err := other.Wait()
		if err != nil {
			err = fmt.Errorf("the other process: %w", err)
			cancel(err)
		}
		ended <- err
	}()
	p, err := host.Accept(ctx)
	if err == nil {
		err = p.Do(ctx, func(ctx context.Context) error { return f(ctx, p) })
	}
	return joinEnd(ctx, err, ended, cancel)
}

// joinEnd waits for the end of the other process, which is without connections by now, and ends it if it stays after an error. What killed it stands first.
func joinEnd(ctx context.Context, err error, ended <-chan error, cancel context.CancelCauseFunc) error {
	var stays <-chan time.Time // never, where all is well
	if err != nil {
		stays = time.After(5 * time.Second)
	}
	select {
	case end := <-ended:
		died, ok := errors.AsType[*exec.ExitError](end)
		killed := ok && !died.Exited() && errors.Is(context.Cause(ctx), end) // and not because ctx ended
		if err == nil || killed && !errors.Is(err, end) {
			err = errors.Join(end, err)
		}
	case <-stays:
		cancel(err)
		<-ended //nolint:errcheck // it was this process that killed it
	}
	return err
}

// otherProcess starts this program as rank 1. It ends with ctx, and when rank 0 is gone: its connections end.
func otherProcess(ctx context.Context, cfg pairbench.Config, addr string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, "bench", "peer", "--transport", cfg.Transport, "--dir", cfg.Dir, "--address", addr,
		"--stripes", strconv.Itoa(cfg.Stripes), "--checksum="+strconv.FormatBool(cfg.Checksum), "--device", strconv.Itoa(cfg.Devices[1]), "--transfer="+strconv.FormatBool(cfg.Transfer))
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the other process: %w", err)
	}
	return cmd, nil
}

// benchPeerCommand is rank 1.
func benchPeerCommand() *cli.Command {
	return &cli.Command{
		Name: "peer", Usage: "the other process of a measurement", Hidden: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "transport", Required: true},
			&cli.StringFlag{Name: "dir", Required: true},
			&cli.StringFlag{Name: "address", Required: true},
			&cli.IntFlag{Name: "stripes"},
			&cli.BoolFlag{Name: "checksum"},
			&cli.IntFlag{Name: "device"},
			&cli.BoolFlag{Name: "transfer"},
		},
		Action: func(c *cli.Context) error {
			cfg := pairbench.Config{Transport: c.String("transport"), Dir: c.String("dir"), Stripes: c.Int("stripes"), Checksum: c.Bool("checksum"), Transfer: c.Bool("transfer")}
			cfg.Devices[1] = c.Int("device")
			p, err := pairbench.Dial(c.Context, cfg, c.String("address"))
			if err != nil {
				return err
			}
			return p.Do(c.Context, func(ctx context.Context) error { return pairbench.Serve(ctx, p) })
		},
	}
}
