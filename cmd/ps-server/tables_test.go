package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"hcclps/cmd/internal/program"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
	"hcclps/worker"
)

// said runs the program and returns what it writes, and how it ended.
func said(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	a := app()
	a.Writer, a.ErrWriter = &out, io.Discard
	err := a.RunContext(t.Context(), append([]string{"ps-server"}, args...))
	return out.String(), err
}

// TestTablesAndRowsAreShown trains a table on a server of its own and looks at it as an operator does.
func TestTablesAndRowsAreShown(t *testing.T) {
	dir := t.TempDir()
	addr := "unix:" + filepath.Join(dir, "s")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		a := app()
		a.Writer, a.ErrWriter = io.Discard, io.Discard
		ended <- a.RunContext(ctx, []string{"ps-server", "serve", "--dir", dir, "--listen", addr, "--shards", "2", "--replicas", "0", "--log-level", "error"})
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	c, err := worker.Connect(t.Context(), worker.Config{Servers: []string{addr}, Job: "job"})
	if err != nil {
		t.Fatal(err)
	}
	e, err := c.Embedding(t.Context(), "items", worker.EmbeddingSpec{Dim: 2, Admit: worker.Admit{Kind: "count", Count: 2}, Evict: worker.Evict{Rows: 1024}})
	if err != nil {
		t.Fatal(err)
	}
	for _, keys := range [][]uint64{{1, 2}, {2, 1 << 63}} {
		g := worker.Gradient{Table: e, Keys: keys, Values: []float32{1, 1, 1, 1}}
		if err := c.Push(t.Context(), 1, nil, g); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	out, err := said(t, "tables", "--servers", addr)
	if row := "job  items  keys x 2  1     1         3        0        2        "; err != nil || !strings.Contains(out, row) || !strings.Contains(out, "count:2  rows:1024") {
		t.Errorf("%v\n%s\nhas no %q", err, out, row)
	}
	out, err = said(t, "status", "--waiting", "--servers", addr)
	for _, want := range []string{" ROWS BYTES MEMORY OF ", " meta 001 ", " shard 1 001 ", " job 2 2 worker-0:1/2 ", " WHO WAITS FOR "} {
		if err != nil || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("status: %v\n%s\nhas no %q", err, out, want)
		}
	}
	for _, c := range []struct{ args, want string }{
		{"items 2", "last written in step 1, by job/worker-0; 1 sightings"},
		{"items 9223372036854775808 --job job", "not there: pulls answer the initial row; 1 sightings, admitted by count:2"},
		{"items 7", "weights [0 0]\n"},
	} {
		out, err := said(t, append([]string{"row", "get", "--servers", addr}, strings.Fields(c.args)...)...)
		if err != nil || !strings.Contains(out, c.want) {
			t.Errorf("row get %s: %v\n%s\nwant %q", c.args, err, out, c.want)
		}
	}
	out, err = said(t, "row", "get", "items", "-9223372036854775808", "--json", "--servers", addr)
	var v rowView
	if err != nil || json.Unmarshal([]byte(out), &v) != nil || v.There || v.Key != 1<<63 || v.Sightings != 1 || fmt.Sprint(v.Weights) != "[0 0]" {
		t.Errorf("row get of a negative key: %v, %s", err, out)
	}
	for args, want := range map[string]string{
		"items":               "takes a table and a key",
		"items x":             "want a number of 64 bits",
		"items 1 --jbo j":     "did you mean --job",
		"items 1 --job":       "needs a value",
		"item 1":              `no table "item": there are items of job job`,
		"items 1 --job other": `job "other" is unknown here`,
	} {
		if out, err := said(t, append([]string{"row", "get", "--servers", addr}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("row get %s: %v, want %q\n%s", args, err, want, out)
		}
	}
}

// A fork on its way is told from the table of that name in another job, over all shards, and what to do about it.
func TestForksOnTheirWayAreShown(t *testing.T) {
	fork := wire.TableStatus{Name: "copy", Dim: 2, Rows: 3}
	a := answers{layout: layout.Layout{Shards: make([][]string, 2)}}
	for g := range uint32(2) {
		v := program.ServerView{Status: &wire.ServerStatus{Groups: []wire.GroupStatus{{Group: g + 1, State: "leader", Jobs: []wire.JobStatus{
			{Job: "a", Tables: []wire.TableStatus{{ID: 1, Name: "items", Dim: 2, Rows: 5}}, Forks: []wire.TableStatus{fork, {Name: "other", Dim: 2}}},
		}}}}}
		a.views = append(a.views, v)
	}
	tables, _, err := a.tables("")
	var out bytes.Buffer
	if err != nil || renderTables(&out, tables, nil) != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{" a copy (fork) keys x 2 6 ", " a other (fork) keys x 2 0 ", " a items keys x 2 10 ", "checkpoint restore --table again"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nhas no %q", out.String(), want)
		}
	}
}
