package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"hcclps/cmd/internal/pushbench"
	"hcclps/ps"
)

func TestBenchOfPushesAndPulls(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for _, how := range [][]string{{"--transport", "shm"}, {"--transport", "tcp", "--replicas", "1"}, {"--transport", "unix", "--replicas", "3", "--parts", "2"}} {
		code, stdout, stderr := command(ctx, append([]string{"bench", "pushpull", "--sizes", "4KiB,1000004", "--time", "20ms", "--rounds", "1", "--shards", "2", "--json", "--log-level", "info"}, how...)...)
		if code != 0 {
			t.Fatalf("%q: exit %d: %s", how, code, stderr)
		}
		name := regexp.MustCompile(`cluster=(bench-\w+)`).FindStringSubmatch(stderr)
		if name == nil {
			t.Fatalf("%q: stderr does not name the cluster: %s", how, stderr)
		}
		for i := range 3 {
			if dir := ps.MemoryLogDir(name[1], serverName(i)); !isGone(dir) {
				t.Errorf("%q: %s is left behind", how, dir)
			}
		}
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		if len(lines) != 4 {
			t.Fatalf("%q: %d lines, want 4: %s", how, len(lines), stdout)
		}
		for i, line := range lines {
			var r pushbench.Result
			size, op := []int{4096, 1000004}[i/2], []string{pushbench.Push, pushbench.Pull}[i%2]
			if err := json.Unmarshal([]byte(line), &r); err != nil || r.Size != size || r.Op != op || r.Count != size/4 || r.Wrong != 0 || r.Algbw <= 0 || r.Micros <= 0 {
				t.Errorf("%q: %s: %v", how, line, err)
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "hcclps-bench-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

func isGone(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist)
}

func TestUsageOfBenchPushPull(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--transport", "sham"}, "did you mean shm?"},
		{[]string{"--sizes", "6"}, "multiple of 4"},
		{[]string{"--servers", "127.0.0.1:1", "--embedded", "1"}, "exclude"},
		{[]string{"--embedded", "1", "--replicas", "3"}, "replicas"},
		{[]string{"--parts", "3"}, "power of two"},
		{[]string{"--rounds", "0"}, "rounds"},
		{[]string{"extra"}, `"extra"`},
	} {
		code, _, stderr := command(t.Context(), append([]string{"bench", "pushpull"}, c.args...)...)
		if code != 2 || !strings.Contains(stderr, c.says) {
			t.Errorf("%q: exit %d, %q: want 2 and %q", c.args, code, stderr, c.says)
		}
	}
}
