package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/internal/trace"
)

func profileCommand() *cli.Command {
	return &cli.Command{
		Name: "profile", ArgsUsage: "FILE...",
		Usage: "say where time went, from the files of --profile, or what workers did last, from those of --flights",
		Description: "Adds up what the processes of a job have recorded: how often, how long, how many bytes, and what share of the time of training steps.\n" +
			"With --merge the traces become one, on one clock, to be opened in ui.perfetto.dev.\n" +
			"Of flights, which workers write when their collectives fail, it says who was where.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "merge", Usage: "write one trace of all to `FILE`"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON", EnvVars: program.Env("json")},
		},
		Action: profile,
	}
}

func profile(c *cli.Context) error {
	if !c.Args().Present() {
		return program.Usage("profile: want the files that --profile has written")
	}
	var traces []*trace.Trace
	var flights []*trace.Flight
	for _, path := range c.Args().Slice() {
		if strings.HasPrefix(path, "-") {
			return program.Usage("profile: %s after a file: flags come before the files", path)
		}
		t, f, err := trace.Open(path)
		switch {
		case err != nil:
			return fmt.Errorf("profile: %w", err)
		case t != nil:
			traces = append(traces, t)
		default:
			flights = append(flights, f)
		}
	}
	if len(flights) > 0 {
		if len(traces) > 0 {
			return program.Usage("profile: traces and flights at once: give the one, then the other")
		}
		return printFlights(c, flights)
	}
	m := trace.Merge(traces...)
	if err := trace.Check(&m.Trace, true); err != nil {
		return fmt.Errorf("the traces do not make sense: %w", err)
	}
	if path := c.String("merge"); path != "" {
		if err := m.WriteFile(path); err != nil {
			return err
		}
	}
	if c.Bool("json") {
		return json.NewEncoder(c.App.Writer).Encode(profileJSON(m))
	}
	return printProfile(c.App.Writer, m)
}

// printProfile prints clocks, then the table.
func printProfile(w io.Writer, m *trace.Merged) error {
	s := m.Summarize()
	for _, p := range m.Processes {
		if p.Lost > 0 {
			fmt.Fprintf(w, "%s recorded %d things more than it could keep: the earliest are not here\n", p.Name, p.Lost)
		}
	}
	for _, k := range m.Skews {
		fmt.Fprintln(w, skewText(k))
	}
	fmt.Fprintf(w, "%d processes, %d steps of %v on average\n", len(m.Processes), s.Steps, rounded(s.StepTime/time.Duration(max(s.Steps, 1))))
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "category\tname\tcount\tmean\tp50\tp99\tmax\tbytes\tof steps\t")
	for _, r := range s.Rows {
		share, bytes := "-", "-"
		if s.StepTime > 0 {
			share = fmt.Sprintf("%.1f %%", 100*r.Share)
		}
		if r.Bytes > 0 {
			bytes = fmt.Sprint(r.Bytes)
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%v\t%v\t%v\t%v\t%s\t%s\t\n", r.Category, r.Name, r.Count, rounded(r.Mean), rounded(r.P50), rounded(r.P99), rounded(r.Max), bytes, share)
	}
	return tw.Flush()
}

func skewText(k trace.Skew) string {
	text := fmt.Sprintf("clock of %s against %s: ", k.Process, k.Against)
	switch {
	case k.Within >= 0:
		text += fmt.Sprintf("%+v, give or take %v, by %d messages", rounded(k.Offset), rounded(k.Within), k.Flows)
	default:
		text += fmt.Sprintf("not known: %d messages, all one way", k.Flows)
	}
	if k.Shifted {
		text += "; corrected, since messages would have come before they were sent"
	}
	return text
}

// rounded leaves three or four digits of a time.
func rounded(d time.Duration) time.Duration {
	for unit := time.Duration(1); ; unit *= 10 {
		if d.Abs() < 10000*unit {
			return d.Round(unit)
		}
	}
}

// profiled is what --json prints.
type profiled struct {
	Processes int           `json:"processes"`
	Steps     int           `json:"steps"`
	StepUS    float64       `json:"step_us"` // mean
	Unmatched int           `json:"unmatched_flows"`
	Lost      uint64        `json:"lost"`
	Clocks    []clock       `json:"clocks"`
	Rows      []profiledRow `json:"rows"`
}

type clock struct {
	Process  string  `json:"process"`
	Against  string  `json:"against"`
	OffsetUS float64 `json:"offset_us"`
	WithinUS float64 `json:"within_us"` // negative: not known
	Shifted  bool    `json:"shifted"`
}

type profiledRow struct {
	Category string  `json:"category"`
	Name     string  `json:"name"`
	Count    int     `json:"count"`
	TotalUS  float64 `json:"total_us"`
	MeanUS   float64 `json:"mean_us"`
	P50US    float64 `json:"p50_us"`
	P99US    float64 `json:"p99_us"`
	MaxUS    float64 `json:"max_us"`
	Bytes    int64   `json:"bytes"`
	Share    float64 `json:"share_of_steps"`
}

func profileJSON(m *trace.Merged) profiled {
	us := func(d time.Duration) float64 { return float64(d) / 1e3 }
	s := m.Summarize()
	p := profiled{
		Processes: len(m.Processes), Steps: s.Steps, StepUS: us(s.StepTime) / float64(max(s.Steps, 1)), Unmatched: m.Unmatched,
		Clocks: []clock{}, Rows: []profiledRow{},
	}
	for _, o := range m.Processes {
		p.Lost += o.Lost
	}
	for _, k := range m.Skews {
		p.Clocks = append(p.Clocks, clock{k.Process, k.Against, us(k.Offset), us(k.Within), k.Shifted})
	}
	for _, r := range s.Rows {
		p.Rows = append(p.Rows, profiledRow{r.Category, r.Name, r.Count, us(r.Total), us(r.Mean), us(r.P50), us(r.P99), us(r.Max), r.Bytes, r.Share})
	}
	return p
}
