package main

import (
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/collbench"
	"hcclps/cmd/internal/program"
)

func benchAblationCommand() *cli.Command {
	return &cli.Command{
		Name: "ablation", Usage: "what overlap, accumulation, groups and fp16 are good for, on links of a given quality",
		Description: "Ranks of one process, half of them on each of two hosts, train with sums of gradients; links take the time that they would take.\n" +
			"The backward pass is a timed wait for each tensor, as a device would leave the host idle. Each line has what those above it have.",
		Flags: append([]cli.Flag{
			&cli.IntFlag{Name: "ranks", Value: 4, Usage: "an even number"},
			&cli.IntFlag{Name: "tensors", Value: 20, Usage: "of the model, in the order in which their gradients are ready"},
			&cli.StringFlag{Name: "bytes", Value: "1MiB", Usage: "of a tensor"},
			&cli.DurationFlag{Name: "compute", Value: 2 * time.Millisecond, Usage: "of a tensor"},
			&cli.IntFlag{Name: "batch", Value: 256, Usage: "samples of a rank and pass"},
			&cli.IntFlag{Name: "local", Value: 4, Usage: "passes a step, where gradients are accumulated"},
			&cli.IntFlag{Name: "steps", Value: 3, Usage: "that count"},
			&cli.StringFlag{Name: "uplink", Value: "256MiB", Usage: "a second between the hosts, in each direction"},
			&cli.StringFlag{Name: "link", Value: "8GiB", Usage: "a second between ranks of a host"},
			&cli.DurationFlag{Name: "latency", Value: 50 * time.Microsecond, Usage: "within a host; twice as much between hosts"},
			&cli.BoolFlag{Name: "json", Usage: "a line for each"},
		}, program.ConfigFlags()...),
		Action: benchAblation,
	}
}

func benchAblation(c *cli.Context) error {
	if printed, err := program.PrintedConfig(c); printed || err != nil {
		return err
	}
	a, err := newAblation(c)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return a.Run(c.Context, func(r collbench.AblationResult) error { return json.NewEncoder(c.App.Writer).Encode(r) })
	}
	if err := collbench.WriteAblation(c.App.Writer, a); err != nil {
		return err
	}
	return a.Run(c.Context, func(r collbench.AblationResult) error { return r.Write(c.App.Writer) })
}

// newAblation reads the flags.
func newAblation(c *cli.Context) (a collbench.Ablation, err error) {
	a = collbench.Ablation{
		Ranks: c.Int("ranks"), Tensors: c.Int("tensors"), Compute: c.Duration("compute"), Batch: c.Int("batch"), Local: c.Int("local"), Steps: c.Int("steps"),
		Latency: c.Duration("latency"),
	}
	bytes, err1 := program.Bytes("bytes", c.String("bytes"))
	uplink, err2 := program.Bytes("uplink", c.String("uplink"))
	link, err3 := program.Bytes("link", c.String("link"))
	if err := errors.Join(program.NoArguments(c), err1, err2, err3); err != nil {
		return a, err
	}
	if a.Ranks < 2 || a.Ranks > 256 || a.Ranks%2 != 0 || min(a.Tensors, a.Batch, a.Local, a.Steps) < 1 || a.Compute < 0 || a.Latency < 0 {
		return a, program.Usage("want an even number of ranks up to 256, and one tensor, sample, pass and step or more")
	}
	if bytes < 4 || bytes%4 != 0 || bytes > math.MaxInt32 || uplink < 1 || link < 1 {
		return a, program.Usage("--bytes %s, --uplink %s, --link %s: want a multiple of 4 bytes, less than 2GiB, and links that carry some", c.String("bytes"), c.String("uplink"), c.String("link"))
	}
	a.Bytes, a.Uplink, a.Link = int(bytes), float64(uplink), float64(link)
	return a, nil
}
