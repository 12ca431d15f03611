package restore_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hcclps/checkpoint"
	"hcclps/ps/restore"
)

func TestParseSource(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	there := filepath.Join(dir, "kept@7")
	if err := os.Mkdir(there, 0o700); err != nil {
		t.Fatal(err)
	}
	for s, want := range map[string]restore.Source{
		dir:                               {Dir: dir},
		dir + "@9":                        {Dir: dir, ID: 9},
		dir + "@0":                        {Dir: dir + "@0"},
		there:                             {Dir: there},
		there + "@9":                      {Dir: there, ID: 9},
		filepath.Join(dir, "kept") + "@8": {Dir: filepath.Join(dir, "kept"), ID: 8},
	} {
		if got, err := restore.ParseSource(s); err != nil || got != want {
			t.Errorf("%s: %+v, %v", s, got, err)
		}
	}
	if _, err := restore.ParseSource("@7"); err == nil {
		t.Error("a number without a folder was taken")
	}
}

// empty writes a checkpoint without a table.
func empty(t *testing.T, dir, job string, id uint64) {
	t.Helper()
	s, err := checkpoint.Open(checkpoint.Config{Dir: dir, Owner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
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

// The newest of a folder is that of one job: of several one is named.
func TestOpenNeverChoosesAJob(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "kept")
	want := func(src restore.Source, job string, id uint64, says string) {
		t.Helper()
		c, closing, err := src.Open(t.Context(), job)
		if err != nil {
			if says == "" || !strings.Contains(err.Error(), says) {
				t.Errorf("%v of job %q: %v, want %q", src, job, err, says)
			}
			return
		}
		if got := c.Manifest().ID; got != id {
			t.Errorf("%v of job %q: checkpoint %d, want %d", src, job, got, id)
		}
		if err := closing(); err != nil {
			t.Error(err)
		}
	}
	newest := restore.Source{Dir: dir}
	empty(t, dir, "b", 3)
	empty(t, dir, "b", 5)
	want(newest, "", 5, "")
	empty(t, dir, "a", 8)
	want(newest, "", 0, dir+" holds checkpoints of the jobs a and b: name one by its number, "+dir+"@8 or "+dir+"@5")
	want(newest, "a", 8, "")
	want(newest, "b", 5, "")
	want(newest, "c", 0, `the folder has those of ["a" "b"]`)
	want(restore.Source{Dir: dir, ID: 3}, "", 3, "")
}
