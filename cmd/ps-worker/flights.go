package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"hcclps/internal/trace"
)

// lastShown is how many operations of each rank are printed.
const lastShown = 5

// printFlights says what ranks did last, and in what they differ.
func printFlights(c *cli.Context, flights []*trace.Flight) error {
	slices.SortStableFunc(flights, func(a, b *trace.Flight) int { return cmp.Compare(a.Rank, b.Rank) })
	said := trace.Compare(flights)
	out := c.App.Writer
	if c.Bool("json") {
		return json.NewEncoder(out).Encode(struct {
			Flights  []*trace.Flight `json:"flights"`
			Findings []string        `json:"findings"`
		}{flights, said})
	}
	for _, f := range flights {
		fmt.Fprintf(out, "%s, rank %d of %d, at %s: %s\n", f.Process, f.Rank, f.World, f.Written.Format(time.RFC3339), f.Why)
		tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "  epoch\toperation\tbytes\tstarted\ttook\tstate")
		for _, o := range f.Operations[max(0, len(f.Operations)-lastShown):] {
			took := "-"
			if !o.Ended.IsZero() {
				took = rounded(o.Ended.Sub(o.Started)).String()
			}
			fmt.Fprintf(tw, "  %d\t%s\t%d\t%s\t%s\t%s\n", o.Epoch, o.Call, o.Bytes, o.Started.Format("15:04:05.000000"), took, o.State())
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	for _, s := range said {
		fmt.Fprintln(out, s)
	}
	return nil
}
