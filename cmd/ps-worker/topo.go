package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/pairbench"
	"hcclps/cmd/internal/program"
	"hcclps/p2p/hccl/acl"
)

func topoCommand() *cli.Command {
	env := program.Env
	return &cli.Command{
		Name: "topo", Usage: "how processes of this host, its NPUs and the servers reach each other, and how fast",
		Description: "Between two processes: latency is one way for 8 bytes, the rates are streams of 1 MiB and 16 MiB messages. With CANN or its simulator\n" +
			"every pair of NPUs. With --servers: a call and its answer, and bodies of 16 MiB into the server's memory, by every transport it takes.",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringSliceFlag{Name: "servers", Usage: "addresses of servers", EnvVars: env("servers")},
			&cli.StringFlag{Name: "cluster", Value: "hcclps", Usage: "`NAME` of the cluster", EnvVars: env("cluster")},
			&cli.DurationFlag{Name: "time", Value: 600 * time.Millisecond, Usage: "for each pair and transport, about", EnvVars: env("topo-time")},
			&cli.BoolFlag{Name: "json", Usage: "for machines: one line"},
		}, program.NetworkFlags(), program.ConfigFlags()),
		Action: topo,
	}
}

// road is one way between two ends.
type road struct {
	From      string  `json:"from"`
	To        string  `json:"to"`
	Transport string  `json:"transport"`
	Micros    float64 `json:"us,omitempty"`       // one way between processes; a call and its answer with a server
	Small     float64 `json:"gbs_1mib,omitempty"` // GB/s
	Large     float64 `json:"gbs_16mib,omitempty"`
	Why       string  `json:"why,omitempty"` // it is not to be had
}

const (
	smallBody = 1 << 20
	largeBody = 16 << 20
)

func topo(c *cli.Context) error {
	if printed, err := program.PrintedConfig(c); printed || err != nil {
		return err
	}
	if err := program.NoArguments(c); err != nil {
		return err
	}
	if c.Duration("time") <= 0 {
		return program.Usage("--time %v: want some time", c.Duration("time"))
	}
	roads, err := localRoads(c.Context, c.Duration("time"))
	if err != nil {
		return err
	}
	if len(c.StringSlice("servers")) > 0 {
		more, err := serverRoads(c)
		if err != nil {
			return err
		}
		roads = append(roads, more...)
	}
	if c.Bool("json") {
		return json.NewEncoder(c.App.Writer).Encode(roads)
	}
	return renderRoads(c.App.Writer, roads)
}

// localRoads measures between processes of this host by every transport, and between its NPUs.
func localRoads(ctx context.Context, each time.Duration) ([]road, error) {
	var out []road
	for _, transport := range pairbench.Transports() {
		if transport == pairbench.HCCL {
			continue
		}
		r := measureRoad(ctx, pairbench.Config{Transport: transport, Stripes: 1}, each)
		if r.From, r.To = "process", "process"; transport == pairbench.Inproc {
			r.From, r.To = "goroutine", "goroutine"
		}
		out = append(out, r)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	count, err := countDevices()
	if err != nil || count < 2 {
		why := fmt.Sprintf("it takes two NPUs, %d are here", count)
		if errors.Is(err, acl.ErrNoLibrary) {
			why = "no CANN on this machine: ps-worker doctor says more"
		} else if err != nil {
			why = err.Error()
		}
		return append(out, road{From: "NPU", To: "NPU", Transport: pairbench.HCCL, Why: why}), nil
	}
	for a := range count {
		for b := a + 1; b < count; b++ {
			r := measureRoad(ctx, pairbench.Config{Transport: pairbench.HCCL, Devices: [2]int{a, b}}, each)
			r.From, r.To = fmt.Sprintf("NPU %d", a), fmt.Sprintf("NPU %d", b)
			out = append(out, r)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
		}
	}
	return out, nil
}

func countDevices() (int, error) {
	lib, err := acl.Load("")
	if err == nil {
		err = lib.Init()
	}
	if err != nil {
		return 0, err
	}
	return lib.DeviceCount()
}

// measureRoad measures one pair. What fails is a property of the road.
func measureRoad(ctx context.Context, cfg pairbench.Config, each time.Duration) road {
	out := road{Transport: cfg.Transport}
	spec := pairbench.Spec{Sizes: []int{8, smallBody, largeBody}, Time: each / 3, Rounds: 3}
	err := withPair(ctx, cfg, func(ctx context.Context, p *pairbench.Pair) error {
		return pairbench.Run(ctx, p, spec, func(r pairbench.Result) error {
			switch {
			case r.Wrong > 0:
				return fmt.Errorf("%d messages of %d bytes had wrong contents", r.Wrong, r.Size)
			case r.Size == smallBody:
				out.Small = r.Algbw
			case r.Size == largeBody:
				out.Large = r.Algbw
			default:
				out.Micros = r.Micros
			}
			return nil
		})
	})
	if err != nil {
		out.Why, _, _ = strings.Cut(err.Error(), "\n")
	}
	return out
}

func renderRoads(w io.Writer, roads []road) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "FROM\tTO\tTRANSPORT\tUS\tGB/s 1MiB\tGB/s 16MiB")
	for _, r := range roads {
		if r.Why != "" {
			fmt.Fprintf(tw, "%s\t%s\t%s\t-\t-\t-\t%s\n", r.From, r.To, r.Transport, r.Why)
			continue
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%.1f\t%.2f\t%.2f\n", r.From, r.To, r.Transport, r.Micros, r.Small, r.Large)
	}
	return tw.Flush()
}
