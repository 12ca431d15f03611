package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTables reads every table of testdata/tables, and tables.txt says what becomes of it.
func TestTables(t *testing.T) {
	files, err := filepath.Glob("testdata/tables/*.json")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d tables: %v", len(files), err)
	}
	var b strings.Builder
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\n", filepath.Base(name))
		table, err := ParseTable(content)
		if err != nil {
			fmt.Fprintf(&b, "  error: %v\n", err)
			continue
		}
		fmt.Fprintf(&b, "  version %s completed %v\n", table.Version, table.Completed)
		for rank, r := range table.Ranks {
			c, err := table.Config(rank, 29500)
			fmt.Fprintf(&b, "  %d: device %s at %s, super pod %q: ", rank, r.Device, r.DeviceIP, r.SuperPod)
			if err != nil {
				fmt.Fprintf(&b, "%v\n", err)
				continue
			}
			fmt.Fprintf(&b, "rank %d of %d, local %d on %s, master %s, listen %s\n", c.Rank, c.Size, c.LocalRank, c.Host, c.Master, c.Listen)
		}
	}
	golden(t, "testdata/tables.txt", b.String())
}

func FuzzTable(f *testing.F) {
	files, err := filepath.Glob("testdata/tables/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		table, err := ParseTable(b)
		if err != nil {
			return
		}
		if table.Completed != (len(table.Ranks) > 0) {
			t.Errorf("completed %v with %d ranks", table.Completed, len(table.Ranks))
		}
		for rank := range table.Ranks {
			if c, err := table.Config(rank, 29500); err == nil && (c.Rank != rank || c.Size != len(table.Ranks) || c.Host == "") {
				t.Errorf("rank %d has %+v", rank, c)
			}
		}
	})
}

// put makes the file hold one of the tables, at once.
func put(t *testing.T, path, table string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/tables", table+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLoadTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.json")
	lookup := func(more map[string]string) func(string) (string, bool) {
		more["RANK_TABLE_FILE"] = path
		return func(name string) (string, bool) { s, ok := more[name]; return s, ok }
	}
	synctest.Test(t, func(t *testing.T) {
		if _, err := LoadTable(t.Context(), path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a file that is not there: %v", err)
		}
		put(t, path, "bad-doubled")
		if _, err := LoadTable(t.Context(), path); err == nil || !strings.Contains(err.Error(), "server_list[1].device[0]: rank 1 is server_list[0].device[1] already") {
			t.Errorf("a bad table: %v", err)
		}
		put(t, path, "initializing")
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if _, err := LoadTable(ctx, path); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "initializing") {
			t.Errorf("a table that is never completed: %v", err)
		}
		began := time.Now()
		time.AfterFunc(9500*time.Millisecond, func() { put(t, path, "bad-json") }) // it is being written
		time.AfterFunc(19500*time.Millisecond, func() { put(t, path, "two-servers") })
		c, err := EnvTable(t.Context(), lookup(map[string]string{"RANK_ID": "3", "RANK_SIZE": "4"}), 29500)
		if took := time.Since(began); err != nil || took != 20*time.Second || c.Rank != 3 || c.Master != "10.0.0.10:29500" {
			t.Errorf("read %+v after %v: %v", c, took, err)
		}
	})
	for says, env := range map[string]map[string]string{
		"RANK_SIZE=8, ":        {"RANK_ID": "3", "RANK_SIZE": "8"},
		"rank 4 is not in the": {"RANK_ID": "4"},
		"RANK_ID is not set":   {},
	} {
		if _, err := EnvTable(t.Context(), lookup(env), 29500); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v", env, err)
		}
	}
	table := &Table{Ranks: []TableRank{{Server: "10.0.0.1"}}}
	if _, err := table.Config(0, 0); err == nil || !strings.Contains(err.Error(), "base port 0") {
		t.Errorf("no port: %v", err)
	}
}
