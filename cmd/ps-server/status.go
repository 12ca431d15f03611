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

	"hcclps/cmd/internal/program"
	"hcclps/p2p/backend"
	"hcclps/p2p/link"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

func statusCommand() *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "show servers, groups, jobs, what carries bulk and why, and who waits for whom",
		Description: "BYTES is all memory of tables, MEMORY what of it and of the cold store counts against the OF bytes that --memory leaves for rows, DISK the cold store's files.\n" +
			"A shard is a Raft group: --json and logs count groups, in which 0 is meta, and shard 0 is group 1.",
		Flags: slices.Concat([]cli.Flag{
			&cli.BoolFlag{Name: "waiting", Usage: "show who waits for whom, and since when"},
			&cli.BoolFlag{Name: "json", Usage: "for machines"},
		}, askFlags()),
		Action: showStatus,
	}
}

func showStatus(c *cli.Context) error {
	if printed, err := program.PrintedConfig(c); printed || err != nil {
		return err
	}
	if err := program.NoArguments(c); err != nil {
		return err
	}
	views, err := ask(c)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		err = json.NewEncoder(c.App.Writer).Encode(views)
	} else {
		err = render(c.App.Writer, views, c.Bool("waiting"))
	}
	if err == nil && !slices.ContainsFunc(views, func(v program.ServerView) bool { return v.Status != nil }) {
		err = errors.New("no server has answered, each says why: --servers names others")
	}
	return err
}

func ask(c *cli.Context) ([]program.ServerView, error) {
	client, err := askingClient(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.Context, 10*time.Second)
	defer cancel()
	var views []program.ServerView
	err = running(ctx, client, func(ctx context.Context) error {
		views = program.Statuses(ctx, client, c.StringSlice("servers"), c.Bool("waiting"))
		return nil
	})
	return views, err
}

// askingClient is a client of the cluster that askFlags name.
func askingClient(c *cli.Context) (*link.Client, error) {
	if err := program.CheckServers(c); err != nil {
		return nil, err
	}
	network, err := program.Network(c, c.String("cluster"), nil)
	if err != nil {
		return nil, err
	}
	return link.NewClient(link.Config{Network: network, Pair: backend.Pair, Cluster: c.String("cluster"), ID: "ps-server status"})
}

func render(w io.Writer, views []program.ServerView, waiting bool) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "SERVER\tADDRESS\tUP\tLEADS\tGROUPS\tROWS\tBYTES\tMEMORY\tOF\tCOLD ROWS\tMISSES\tDISK")
	for _, v := range views {
		if v.Status == nil {
			fmt.Fprintf(tw, "?\t%s\t%s\n", v.Addr, v.Err)
			continue
		}
		s := v.Status
		leads := 0
		for _, g := range s.Groups {
			if g.State == "leader" {
				leads++
			}
		}
		fmt.Fprintf(tw, "%s\t%s\t%v\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", s.Name, s.Addr, s.Uptime.Round(time.Second), leads, len(s.Groups),
			s.Rows, s.Bytes, s.Memory.Used, s.Memory.Limit, s.Memory.ColdRows, s.Memory.Misses, s.Memory.Disk)
	}
	groups(tw, views)
	pairs(tw, views)
	if waiting {
		waits(tw, views)
	}
	return tw.Flush()
}

// groups shows each group once, as its leader sees it.
func groups(w io.Writer, views []program.ServerView) {
	fmt.Fprintln(w, "\nGROUP\tLEADER\tTERM\tAPPLIED\tLOG\tJOB\tCLOCK\tPUSHES\tWORKERS")
	for _, l := range led(views) {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d", layout.GroupName(l.Group), l.server, l.Term, l.Applied, l.LogBytes)
		for i, j := range l.Jobs {
			if i > 0 {
				fmt.Fprint(w, "\n\t\t\t\t")
			}
			fmt.Fprintf(w, "\t%s\t%d\t%d\t%s", j.Job, j.Clock, j.Applied, workers(j.Workers))
		}
		fmt.Fprintln(w)
	}
}

// pairs shows what carries bulk between each server and its callers.
func pairs(w io.Writer, views []program.ServerView) {
	fmt.Fprintln(w, "\nSERVER\tPEER\tTRANSPORT\tSINCE\tREASON")
	for _, v := range views {
		if v.Status == nil {
			continue
		}
		for _, p := range v.Status.Pairs {
			fmt.Fprintf(w, "%s\t%s\t%s\t%v\t%s\n", v.Status.Name, p.Peer, p.Transport, v.Status.Time.Sub(p.Since).Round(time.Second), p.Reason)
		}
	}
}

func workers(ws []wire.WorkerStatus) string {
	var out []string
	for _, w := range ws {
		out = append(out, fmt.Sprintf("%s:%d/%d %s", w.Worker, w.Incarnation, w.Done, w.State))
	}
	return strings.Join(out, ", ")
}

func waits(w io.Writer, views []program.ServerView) {
	fmt.Fprintln(w, "\nWHO\tWAITS FOR\tBECAUSE OF\tSINCE")
	for _, l := range led(views) {
		for _, j := range l.Jobs {
			for _, wait := range j.Waiting {
				fmt.Fprintf(w, "%s\t%s\t%s of job %s (%s)\t%v\n", wait.Who, strings.Join(wait.For, ", "), wait.What, j.Job, layout.GroupName(l.Group), wait.Since.Round(time.Millisecond))
			}
		}
	}
}

type ledGroup struct {
	wire.GroupStatus
	server string
}

// led is every group as its leader sees it, by number; one without a leader is
// shown as some replica sees it.
func led(views []program.ServerView) []ledGroup {
	best := map[uint32]ledGroup{}
	for _, v := range views {
		if v.Status == nil {
			continue
		}
		for _, g := range v.Status.Groups {
			name := v.Status.Name
			switch {
			case g.State != "leader" && g.Leader != "":
				name = g.Leader // as this one says; it was not asked itself
			case g.State != "leader":
				name = "none (" + g.State + ")"
			}
			if old, ok := best[g.Group]; !ok || g.State == "leader" && (old.State != "leader" || g.Term > old.Term) {
				best[g.Group] = ledGroup{g, name}
			}
		}
	}
	var out []ledGroup
	for _, g := range best {
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b ledGroup) int { return int(a.Group) - int(b.Group) })
	return out
}
