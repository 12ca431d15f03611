package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A folder may have checkpoints of several jobs: each goes on with its own, and nobody with those of another.
func TestResumeTakesItsOwnJob(t *testing.T) {
	data, dir := someRows(t), filepath.Join(t.TempDir(), "kept")
	servers := []string{"--embedded", "1", "--replicas", "1"}
	run := func(want int, says string, where []string, more ...string) {
		t.Helper()
		args := slices.Concat([]string{"train", "--data", data, "--batch", "8", "--checkpoint-dir", dir}, where, more)
		if code, _, stderr := command(t.Context(), args...); code != want || !strings.Contains(stderr, says) {
			t.Errorf("%q: exit %d, want %d and %q: %s", more, code, want, says, stderr)
		}
	}
	run(1, "no such file", servers, "--job", "a", "--resume")
	if _, err := os.Stat(dir); err == nil {
		t.Error("a folder to resume from was made")
	}
	for _, job := range []string{"a", "b"} {
		run(0, "", []string{"--mode", "allreduce"}, "--job", job, "--epochs", "1", "--checkpoint-every", "2") // whose end waits for them
	}
	run(0, "restoring job a from its newest checkpoint, "+dir+"@", servers, "--job", "a", "--resume", "--epochs", "2")
	run(1, `the folder has those of ["a" "b"]`, servers, "--job", "c", "--resume")
	for says, args := range map[string][]string{`those of ["a" "b"]`: {"--job", "c", "--", "true"}, "of the jobs a and b: name one": {"--", "true"}} {
		code, _, stderr := command(t.Context(), append([]string{"launch", "--restore", dir}, args...)...)
		if code != 1 || !strings.Contains(stderr, says) {
			t.Errorf("launch %q: exit %d: %s", args, code, stderr)
		}
	}
}

// What servers would refuse is said before one is started.
func TestLaunchRefusesCheckpointFlags(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{2, "--checkpoint-keep -1", []string{"--checkpoint-dir", dir, "--checkpoint-keep", "-1"}},
		{2, "--checkpoint-rate", []string{"--checkpoint-dir", dir, "--checkpoint-rate", "x"}},
		{2, "--checkpoint-every", []string{"--checkpoint-dir", dir, "--checkpoint-every", "-4"}},
		{2, "needs --checkpoint-dir", []string{"--checkpoint-every", "4"}},
		{1, "the folder has none", []string{"--restore", dir}},
		{1, "no such file", []string{"--restore", filepath.Join(dir, "nowhere")}},
	} {
		code, _, stderr := command(t.Context(), append(append([]string{"launch"}, c.args...), "--", "true")...)
		if code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%q: exit %d, want %d and %q: %s", c.args, code, c.code, c.says, stderr)
		}
	}
}
