package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hcclps/checkpoint"
	"hcclps/p2p/backend"
	"hcclps/ps"
	"hcclps/worker"
)

// served is a server on real sockets, with a folder for checkpoints and a worker that has made some steps.
type served struct {
	addr, kept string
	client     *worker.Client
	table      worker.Embedding
}

func serveJob(t *testing.T, job string) *served {
	t.Helper()
	dir := t.TempDir()
	s := &served{addr: "unix:" + filepath.Join(dir, "sock"), kept: filepath.Join(dir, "kept")}
	network, err := backend.OpenSockets(backend.Sockets{})
	if err != nil {
		t.Fatal(err)
	}
	server, err := ps.New(ps.Config{
		Cluster: "c", Dir: filepath.Join(dir, "s1"), Listen: s.addr, Network: network, Scratch: true, Shards: 2, Memory: 1 << 30,
		Checkpoint: ps.CheckpointConfig{Dir: s.kept},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := server.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if job == "" {
		return s
	}
	s.client, err = worker.Connect(t.Context(), worker.Config{Job: job, Servers: []string{s.addr}, Cluster: "c", Network: network})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.client.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if s.table, err = s.client.Embedding(t.Context(), "items", worker.EmbeddingSpec{Dim: 2}); err != nil {
		t.Fatal(err)
	}
	s.push(t.Context(), t)
	return s
}

func (s *served) push(ctx context.Context, t *testing.T) {
	t.Helper()
	err := s.client.Push(ctx, 1, nil, worker.Gradient{Table: s.table, Keys: []uint64{1, 2, 3}, Values: make([]float32, 6)})
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// train pushes until the function it returns is called.
func (s *served) train(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.push(t.Context(), t)
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// An operator keeps a job, looks at what is kept, gives it to others, brings it back
// and removes it.
func TestCheckpointCommands(t *testing.T) {
	run := func(want int, args ...string) string {
		t.Helper()
		code, stdout, stderr := command(t.Context(), append([]string{"checkpoint"}, args...)...)
		if code != want {
			t.Fatalf("%v: exit %d: %s%s", args, code, stdout, stderr)
		}
		return stdout + stderr
	}
	says := func(got string, parts ...string) {
		t.Helper()
		for _, p := range parts {
			if !strings.Contains(got, p) {
				t.Errorf("%q is not in %q", p, got)
			}
		}
	}
	s := serveJob(t, "clicks")
	stop := s.train(t)
	for range 2 {
		says(run(0, "create", "--servers", s.addr, "--cluster", "c", "--job", "clicks"), "of job clicks, step", s.kept)
	}
	stop()
	says(run(1, "create", "--servers", s.addr, "--cluster", "c", "--job", "nobody"), `job "nobody" is unknown here: the jobs are ["clicks"]`)

	var all []checkpoint.Manifest
	if err := json.Unmarshal([]byte(run(0, "list", "--json", s.kept)), &all); err != nil || len(all) != 2 {
		t.Fatalf("list: %d checkpoints, %v", len(all), err)
	}
	first, last := fmt.Sprint(all[0].ID), fmt.Sprint(all[1].ID)
	says(run(0, "list", s.kept), first+" ", last+"  clicks", "full", "delta to "+first)
	says(run(0, "verify", s.kept), "2 checkpoints", "good")
	says(run(1, "verify", s.kept, "999"), "999")

	out := filepath.Join(t.TempDir(), "export")
	says(run(0, "export", s.kept+"@"+last, out), "1 tables of checkpoint "+last)
	says(run(0, "import", out), "items", "ps-worker train --load "+out)

	to := serveJob(t, "")
	says(run(0, "restore", "--servers", to.addr, "--cluster", "c", "--from", s.kept+"@"+first, "--job", "again"), "job again is back at step", "3 rows")
	says(run(1, "restore", "--servers", s.addr, "--cluster", "c", "--from", s.kept), "has begun here")
	fork := func(want int, at *served, tables ...string) string {
		args := []string{"restore", "--servers", at.addr, "--cluster", "c", "--from", s.kept + "@" + first}
		for _, name := range tables {
			args = append(args, "--table", name)
		}
		return run(want, args...)
	}
	says(fork(0, s, "items=copy"), "table items of checkpoint "+first+" is copy of job clicks: 3 rows")
	says(fork(0, s, "items=copy"), "is copy of job clicks already")
	says(fork(1, s, "items"), `a table "items" already`, "another name")
	says(fork(1, s, "itmes=other"), `did you mean "items"`)
	says(run(0, "restore", "--servers", to.addr, "--cluster", "c", "--from", s.kept+"@"+first, "--job", "experiment", "--table", "items", "--json"),
		`"job":"experiment"`, `"table":"items","as":"items","rows":3`)

	says(run(1, "delete", s.kept, first), "stands on it")
	says(run(1, "delete", s.kept, last, "999"), "999")
	says(run(0, "list", s.kept), last+"  clicks")
	says(run(0, "delete", "--collect", s.kept, last, first), "checkpoint "+first+" is deleted", "removed")
	if left, err := os.ReadDir(s.kept); err != nil || len(left) != 0 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
}

func TestCheckpointCommandsRefuse(t *testing.T) {
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "checkpoint.go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "nowhere")
	for _, c := range []struct {
		code int
		say  string
		args []string
	}{
		{2, "which folder", []string{"list"}},
		{1, missing, []string{"list", missing}},
		{1, "is no folder of checkpoints: it holds checkpoint.go", []string{"list", other}},
		{0, "", []string{"list", t.TempDir()}},
		{1, missing, []string{"verify", missing}},
		{1, "none", []string{"verify", t.TempDir()}},
		{2, "want a number", []string{"verify", missing, "newest"}},
		{2, "before the folder", []string{"list", missing, "--json"}},
		{2, "which checkpoints", []string{"delete", missing}},
		{2, "--job is needed", []string{"create"}},
		{2, "--from is needed", []string{"restore"}},
		{1, missing, []string{"restore", "--from", missing}},
		{2, "--world -1", []string{"restore", "--from", missing, "--world", "-1"}},
		{2, "NAME=NEWNAME", []string{"restore", "--from", missing, "--table", "items="}},
		{2, "with --table no workers", []string{"restore", "--from", missing, "--table", "items", "--world", "2"}},
		{2, "--world 0", []string{"restore", "--from", missing, "--world", "0"}},
		{2, "want DIR", []string{"export", missing}},
		{1, missing, []string{"export", missing + "@7", filepath.Join(missing, "out")}},
		{1, missing, []string{"import", missing}},
		{2, "list", []string{"lists"}},
	} {
		code, stdout, stderr := command(t.Context(), append([]string{"checkpoint"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.say) {
			t.Errorf("%v: exit %d, want %d and %q: %s%s", c.args, code, c.code, c.say, stdout, stderr)
		}
		if _, err := os.Stat(missing); err == nil {
			t.Fatalf("%v made a folder", c.args)
		}
	}
}
