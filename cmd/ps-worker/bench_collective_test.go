package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hcclps/cmd/internal/collbench"
)

func TestBenchOfCollectives(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for _, how := range []string{
		"allreduce --transport inproc --ranks 3 --dtype bfloat16 --redop avg",
		"reducescatter --transport shm --ranks 2 --reduce-order rank",
		"allgather --transport tcp --ranks 3 --algo ring --out-of-place --calibrate",
		"alltoall --transport inproc --ranks 2 --alloc --calibrate",
		"broadcast --transport shm --ranks 3 --apart",
		"allreduce --transport shm --ranks 2 --tensors 5 --scattered --threshold 8KiB",
		"allreduce --transport inproc --ranks 3 --tensors 7",
		"allreduce --transport tcp --ranks 4 --hosts 2 --algo level0:mesh;level1:H-D_R",
	} {
		args := strings.Fields(how)
		code, stdout, stderr := command(ctx, append([]string{"bench"}, append(args, "--sizes", "24,96KiB", "--time", "10ms", "--rounds", "1", "--json")...)...)
		if code != 0 {
			t.Fatalf("%s: exit %d: %s", how, code, stderr)
		}
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		if len(lines) != 2 {
			t.Fatalf("%s: %d lines, want 2: %s", how, len(lines), stdout)
		}
		for i, line := range lines {
			var r collbench.Result
			if err := json.Unmarshal([]byte(line), &r); err != nil || r.Op != args[0] || r.Size != []int{24, 96 << 10}[i] || r.Wrong != 0 || r.Algbw <= 0 || r.Micros <= 0 {
				t.Errorf("%s: %s: %v", how, line, err)
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "hcclps-bench-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

func TestUsageOfBenchOfCollectives(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--transport", "sham"}, "did you mean shm?"},
		{[]string{"--sizes", "0"}, "1 byte"},
		{[]string{"--ranks", "0"}, "--ranks"},
		{[]string{"--hosts", "3"}, "--hosts"},
		{[]string{"--dtype", "float33"}, "float32"},
		{[]string{"--redop", "som"}, "did you mean sum?"},
		{[]string{"--reduce-order", "some"}, "rank"},
		{[]string{"--algo", "pairwise"}, "allreduce"},
		{[]string{"--rounds", "0"}, "rounds"},
		{[]string{"extra"}, `"extra"`},
	} {
		code, _, stderr := command(t.Context(), append([]string{"bench", "allreduce"}, c.args...)...)
		if code != 2 || !strings.Contains(stderr, c.says) {
			t.Errorf("%q: exit %d, %q: want 2 and %q", c.args, code, stderr, c.says)
		}
	}
}
