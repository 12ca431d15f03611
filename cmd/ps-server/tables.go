package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
	"hcclps/worker"
)

func tablesCommand() *cli.Command {
	return &cli.Command{
		Name:  "tables",
		Usage: "show the tables of jobs, over all shards: rows, what was admitted, refused and evicted, and bytes in memory and in the cold store",
		Flags: slices.Concat([]cli.Flag{
			jobFlag("one job's; default: of all"),
			&cli.BoolFlag{Name: "json", Usage: "for machines"},
		}, askFlags()),
		Action: showTables,
	}
}

// askFlags say which servers to ask.
func askFlags() []cli.Flag {
	return slices.Concat([]cli.Flag{
		&cli.StringSliceFlag{Name: "servers", Value: cli.NewStringSlice("127.0.0.1:7000"), Usage: "addresses to ask", EnvVars: program.Env("servers")},
		&cli.StringFlag{Name: "cluster", Value: "hcclps", Usage: "`NAME` of the cluster", EnvVars: program.Env("cluster")},
	}, program.NetworkFlags(), program.ConfigFlags())
}

func jobFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: "job", Usage: usage, EnvVars: program.Env("job")}
}

// jobTable is a table of a job, over all shards.
type jobTable struct {
	Job    string `json:"job"`
	Shards int    `json:"shards"`         // that have said what they know
	Fork   bool   `json:"fork,omitempty"` // on its way into the job: workers do not see it
	wire.TableStatus
}

func showTables(c *cli.Context) error {
	if printed, err := program.PrintedConfig(c); printed || err != nil {
		return err
	}
	if err := program.NoArguments(c); err != nil {
		return err
	}
	a, err := askAll(c)
	if err != nil {
		return err
	}
	tables, missing, err := a.tables(c.String("job"))
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return json.NewEncoder(c.App.Writer).Encode(tables)
	}
	return renderTables(c.App.Writer, tables, missing)
}

// answers is what all servers of a cluster say.
type answers struct {
	layout layout.Layout
	views  []program.ServerView
}

// askAll asks all servers of the cluster that those given belong to.
func askAll(c *cli.Context) (*answers, error) {
	client, err := askingClient(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.Context, 10*time.Second)
	defer cancel()
	a := &answers{}
	err = running(ctx, client, func(ctx context.Context) error {
		var err error
		if a.layout, err = worker.Layout(ctx, client, c.StringSlice("servers")); err != nil {
			return err
		}
		var addrs []string
		for _, m := range a.layout.Members {
			addrs = append(addrs, m.Addr)
		}
		a.views = program.Statuses(ctx, client, addrs, false)
		return nil
	})
	return a, err
}

// tables adds up what the shards say of the tables of a job, or of all; missing names shards whose leader has not answered.
func (a *answers) tables(job string) (tables []jobTable, missing []string, err error) {
	groups := led(a.views)
	for shard := range a.layout.Shards {
		if !slices.ContainsFunc(groups, func(g ledGroup) bool { return g.Group == layout.GroupOf(shard) && g.State == "leader" }) {
			missing = append(missing, fmt.Sprintf("shard %d", shard))
		}
	}
	var jobs []string
	for _, g := range groups {
		for _, j := range g.Jobs {
			jobs = append(jobs, j.Job)
			if job != "" && j.Job != job {
				continue
			}
			for _, t := range j.Tables {
				tables = added(tables, j.Job, t, false)
			}
			for _, t := range j.Forks {
				tables = added(tables, j.Job, t, true)
			}
		}
	}
	slices.Sort(jobs)
	if jobs = slices.Compact(jobs); job != "" && !slices.Contains(jobs, job) {
		return nil, nil, fmt.Errorf("job %q is unknown here: the jobs are %q", job, jobs)
	}
	slices.SortFunc(tables, func(a, b jobTable) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Name, b.Name))
	})
	return tables, missing, nil
}

// added adds what one shard says of a table.
func added(tables []jobTable, job string, t wire.TableStatus, fork bool) []jobTable {
	i := slices.IndexFunc(tables, func(have jobTable) bool {
		return have.Job == job && have.Fork == fork && have.ID == t.ID && (!fork || have.Name == t.Name)
	})
	if i < 0 {
		return append(tables, jobTable{Job: job, Shards: 1, Fork: fork, TableStatus: t})
	}
	have := &tables[i]
	have.Shards++
	have.Rows, have.Bytes = have.Rows+t.Rows, have.Bytes+t.Bytes
	have.Admitted, have.Refused, have.Evicted = have.Admitted+t.Admitted, have.Refused+t.Refused, have.Evicted+t.Evicted
	have.Waiting, have.WaitingBytes = have.Waiting+t.Waiting, have.WaitingBytes+t.WaitingBytes
	have.ColdRows, have.ColdBytes = have.ColdRows+t.ColdRows, have.ColdBytes+t.ColdBytes
	have.Looked, have.Misses = have.Looked+t.Looked, have.Misses+t.Misses
	return tables
}

func renderTables(w io.Writer, tables []jobTable, missing []string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "JOB\tTABLE\tSHAPE\tROWS\tADMITTED\tREFUSED\tEVICTED\tWAITING\tBYTES\tCOLD ROWS\tCOLD BYTES\tMISSES\tADMIT\tEVICT")
	forks := false
	for i := range tables {
		t, name := &tables[i], tables[i].Name
		if t.Fork {
			name, forks = name+" (fork)", true
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", t.Job, name, shape(&t.TableStatus),
			t.Rows, t.Admitted, t.Refused, t.Evicted, t.Waiting, t.Bytes, t.ColdRows, t.ColdBytes, t.Misses, cmp.Or(t.Admit, "all"), cmp.Or(t.Evict, "none"))
	}
	if forks {
		fmt.Fprint(tw, "\n(fork): a table of a checkpoint on its way, which workers do not see. If that was broken off, run ps-server checkpoint restore --table again as it was, or for another table under that name: it gives up what is there.\n")
	}
	if len(missing) > 0 {
		fmt.Fprintf(tw, "\nno leader answered for %s\n", strings.Join(missing, ", "))
	}
	return tw.Flush()
}

// shape is that of a dense tensor, or the width of an embedding's rows.
func shape(t *wire.TableStatus) string {
	if t.Shape == nil {
		return fmt.Sprintf("keys x %d", t.Dim)
	}
	var dims []string
	for _, d := range t.Shape {
		dims = append(dims, fmt.Sprint(d))
	}
	return strings.Join(dims, " x ")
}
