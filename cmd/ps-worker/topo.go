package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
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
			&cli.StringFlag{Name: "calibrate", Usage: "measure nothing: fit the cost model of AllReduce to the table in `FILE`, lines of a size and milliseconds below size,ring,mesh,halving-doubling, and print how far off it is"},
			&cli.IntFlag{Name: "ranks", Value: 8, Usage: "of the table of --calibrate"},
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

	// roadPatience bounds the making of a pair.
	roadPatience = 40 * time.Second
)

func topo(c *cli.Context) error {
	if printed, err := program.PrintedConfig(c); printed || err != nil {
		return err
	}
	if err := program.NoArguments(c); err != nil {
		return err
	}
	if c.Int("ranks") < 2 {
		return program.Usage("--ranks %d: want 2 or more", c.Int("ranks"))
	}
	if c.IsSet("calibrate") {
		return calibrate(c)
	}
	if c.Duration("time") <= 0 {
		return program.Usage("--time %v: want some time", c.Duration("time"))
	}
	if err := program.CheckServers(c); err != nil {
		return err
	}
	roads := []road{}
	tell := func(r road) { roads = append(roads, r) }
	if !c.Bool("json") {
		tell = newRoadTable(c.App.Writer).row
	}
	if err := serverRoads(c, tell); err != nil {
		return err
	}
	if err := localRoads(c.Context, c.Duration("time"), tell); err != nil {
		return err
	}
	if c.Bool("json") {
		return json.NewEncoder(c.App.Writer).Encode(roads)
	}
	return nil
}

// localRoads measures between processes of this host by every transport, and between its NPUs.
func localRoads(ctx context.Context, each time.Duration, tell func(road)) error {
	for _, transport := range pairbench.Transports() {
		if transport == pairbench.HCCL {
			continue
		}
		r := measureRoad(ctx, pairbench.Config{Transport: transport, Stripes: 1}, each)
		if r.From, r.To = "process", "process"; transport == pairbench.Inproc {
			r.From, r.To = "goroutine", "goroutine"
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		tell(r)
	}
	count, err := countDevices()
	if err != nil || count < 2 {
		why := fmt.Sprintf("it takes two NPUs, %d are here", count)
		if errors.Is(err, acl.ErrNoLibrary) {
			why = "no CANN on this machine: ps-worker doctor says more"
		} else if err != nil {
			why = err.Error()
		}
		tell(road{From: "NPU", To: "NPU", Transport: pairbench.HCCL, Why: why})
		return nil
	}
	for a := range count {
		for b := a + 1; b < count; b++ {
			r := measureRoad(ctx, pairbench.Config{Transport: pairbench.HCCL, Devices: [2]int{a, b}}, each)
			r.From, r.To = fmt.Sprintf("NPU %d", a), fmt.Sprintf("NPU %d", b)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			tell(r)
		}
	}
	return nil
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
	patience := roadPatience + 3*each
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not measured within %v", patience))
	defer cancel()
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
	if ctx.Err() != nil {
		err = context.Cause(ctx) // what ended with it says less
	}
	if err != nil {
		out.Why, _, _ = strings.Cut(err.Error(), "\n")
	}
	return out
}

// roadTable prints a row as soon as its road is measured.
type roadTable struct{ w io.Writer }

const roadRow = "%-14s %-22s %-9s %8s %9s %9s"

func newRoadTable(w io.Writer) roadTable {
	fmt.Fprintf(w, roadRow+"\n", "FROM", "TO", "TRANSPORT", "US", "GB/s 1MiB", "16MiB")
	return roadTable{w}
}

func (t roadTable) row(r road) {
	micros, small, large := "-", "-", "-"
	if r.Why == "" {
		micros, small, large = fmt.Sprintf("%.1f", r.Micros), fmt.Sprintf("%.2f", r.Small), fmt.Sprintf("%.2f", r.Large)
	}
	line := fmt.Sprintf(roadRow+"  %s", r.From, r.To, r.Transport, micros, small, large, r.Why)
	fmt.Fprintln(t.w, strings.TrimRight(line, " "))
}
