package ps_test

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"hcclps/checkpoint"
	"hcclps/ps"
)

// What a cluster is to begin with is looked at before there is one, and is not another at a later start.
func TestRestoreIsOfTheFirstStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		missing := filepath.Join(t.TempDir(), "missing")
		c := newCluster(t, 1, func(_ int, cfg *ps.Config) { cfg.Restore = missing })
		refused := func(want string) {
			t.Helper()
			s, err := ps.New(c.config(0))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("a server begun with %s: %v", missing, err)
			}
			if n := len(s.Layout().Members); n > 0 && want != "--restore" {
				t.Errorf("a cluster of %d servers was founded", n)
			}
		}
		refused("no such file")
		missing = ""
		c.startAll()
		c.halt(0)
		missing = "/elsewhere"
		refused("--restore")
		c.close()
	})
}

// A folder with checkpoints of two jobs says not which is to go on: no cluster is founded that has one of them and begins the other anew.
func TestRestoreOfTwoJobsIsRefused(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "checkpoints")
	synctest.Test(t, func(t *testing.T) {
		saveAs(t, shape{2, 1}, dir)
		again := newCluster(t, 1, func(_ int, cfg *ps.Config) { cfg.Restore = dir })
		again.startAll()
		again.close()
		another(t, dir, "other")
		c := newCluster(t, 1, func(_ int, cfg *ps.Config) { cfg.Restore = dir })
		s, err := ps.New(c.config(0))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "of the jobs j and other: name one by its number") {
			t.Errorf("a server begun with a folder of two jobs: %v", err)
		}
		if n := len(s.Layout().Members); n > 0 {
			t.Errorf("a cluster of %d servers was founded", n)
		}
		c.close()
	})
}

// another writes a checkpoint of another job, without a table.
func another(t *testing.T, dir, job string) {
	t.Helper()
	s, err := checkpoint.Open(checkpoint.Config{Dir: dir, Owner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const id = 1 << 20
	w, err := s.Begin(t.Context(), checkpoint.Spec{ID: id, Job: job, Group: 1, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	part, err := w.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), checkpoint.Manifest{ID: id, Job: job, Shards: 1, Parts: []checkpoint.Part{part}}); err != nil {
		t.Fatal(err)
	}
}
