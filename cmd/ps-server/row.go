package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/p2p/link"
	"hcclps/worker"
)

func rowCommand() *cli.Command {
	return &cli.Command{
		Name:  "row",
		Usage: "look at rows of tables",
		Subcommands: []*cli.Command{{
			Name:      "get",
			Usage:     "show one row: weights, optimizer slots, sightings, and who wrote it last in which step",
			ArgsUsage: "TABLE KEY",
			Flags: slices.Concat([]cli.Flag{
				jobFlag("whose table; default: the only one there is"),
				&cli.BoolFlag{Name: "json", Usage: "for machines"},
			}, askFlags()),
			Action: showRow,
		}},
	}
}

// rowView is a row as it is shown.
type rowView struct {
	Job       string    `json:"job"`
	Table     string    `json:"table"`
	Key       uint64    `json:"key"`
	Shard     int       `json:"shard"`
	There     bool      `json:"there"` // false: pulls answer the initial row, which Weights is
	Clock     uint64    `json:"clock"` // of the shard
	Step      *uint64   `json:"step,omitempty"`
	Writer    string    `json:"writer,omitempty"` // of the last update; none: several workers together
	Sightings uint16    `json:"sightings"`
	Admit     string    `json:"admit,omitempty"`
	Evict     string    `json:"evict,omitempty"`
	Weights   []float32 `json:"weights"`
	Slots     []float32 `json:"slots,omitempty"`
}

func showRow(c *cli.Context) error {
	if printed, err := program.PrintedConfig(c); printed || err != nil {
		return err
	}
	args, err := program.TrailingFlags(c)
	if err != nil {
		return err
	}
	if len(args) != 2 {
		return program.Usage("row get takes a table and a key, got %q", args)
	}
	key, err := parseKey(args[1])
	if err != nil {
		return err
	}
	a, err := askAll(c)
	if err != nil {
		return err
	}
	t, err := a.table(c.String("job"), args[0])
	if err != nil {
		return err
	}
	v := rowView{Job: t.Job, Table: t.Name, Key: key, Admit: t.Admit, Evict: t.Evict}
	if err := v.find(c, t); err != nil {
		return err
	}
	if c.Bool("json") {
		return json.NewEncoder(c.App.Writer).Encode(v)
	}
	return v.render(c.App.Writer)
}

// parseKey reads a key: decimal, 0x..., or negative, as the same bits.
func parseKey(s string) (uint64, error) {
	key, err := strconv.ParseUint(s, 0, 64)
	if err == nil {
		return key, nil
	}
	signed, serr := strconv.ParseInt(s, 0, 64)
	if serr != nil {
		return 0, program.Usage("key %q: want a number of 64 bits", s)
	}
	return uint64(signed), nil
}

// table finds a table by its name.
func (a *answers) table(job, name string) (jobTable, error) {
	tables, _, err := a.tables(job)
	if err != nil {
		return jobTable{}, err
	}
	var found []jobTable
	var names []string
	for i := range tables {
		if tables[i].Name == name {
			found = append(found, tables[i])
		}
		names = append(names, fmt.Sprintf("%s of job %s", tables[i].Name, tables[i].Job))
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return jobTable{}, fmt.Errorf("no table %q: there are %s", name, strings.Join(names, ", "))
	default:
		return jobTable{}, program.Usage("%d jobs have a table %q: say which with --job", len(found), name)
	}
}

// find asks for the row.
func (v *rowView) find(c *cli.Context, t jobTable) error {
	client, err := askingClient(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context, 10*time.Second)
	defer cancel()
	return running(ctx, client, func(ctx context.Context) error {
		f, shard, err := worker.FindRow(ctx, client, c.StringSlice("servers"), t.Job, t.ID, v.Key)
		if err != nil {
			return err
		}
		v.Shard, v.There, v.Clock, v.Writer, v.Sightings = shard, f.There, f.Clock, f.Writer, f.Row.Sightings
		if f.There && f.Row.Step > 0 {
			last := uint64(f.Row.Step - 1)
			v.Step = &last
		}
		dim := min(int(t.Dim), len(f.Row.Values))
		v.Weights, v.Slots = f.Row.Values[:dim], f.Row.Values[dim:]
		return nil
	})
}

// running runs a client while do runs.
func running(ctx context.Context, client *link.Client, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	err := do(ctx)
	cancel()
	if rerr := <-ended; err == nil {
		err = rerr
	}
	return err
}

func (v *rowView) render(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "key %d (%#x) of table %s, job %s, shard %d at step %d\n", v.Key, v.Key, v.Table, v.Job, v.Shard, v.Clock)
	switch {
	case !v.There && v.Admit != "":
		fmt.Fprintf(&b, "not there: pulls answer the initial row; %d sightings, admitted by %s\n", v.Sightings, v.Admit)
	case !v.There:
		b.WriteString("not there: pulls answer the initial row\n")
	case v.Step == nil:
		fmt.Fprintf(&b, "as it was loaded; %d sightings before\n", v.Sightings)
	case v.Writer == "":
		fmt.Fprintf(&b, "last written in step %d, by several workers together; %d sightings\n", *v.Step, v.Sightings)
	default:
		fmt.Fprintf(&b, "last written in step %d, by %s; %d sightings\n", *v.Step, v.Writer, v.Sightings)
	}
	fmt.Fprintf(&b, "weights %v\n", v.Weights)
	if len(v.Slots) > 0 {
		fmt.Fprintf(&b, "slots   %v\n", v.Slots)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
