package main

import (
	"encoding/json"
	"strings"
	"testing"

	"hcclps/cmd/internal/collbench"
)

func TestBenchOfAblation(t *testing.T) {
	small := []string{"bench", "ablation", "--tensors", "2", "--bytes", "64KiB", "--compute", "1ms", "--local", "2", "--steps", "1", "--uplink", "64MiB"}
	code, stdout, stderr := command(t.Context(), append(small, "--json")...)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if code != 0 || len(lines) != len(collbench.Stages()) {
		t.Fatalf("exit %d, %d lines: %s", code, len(lines), stderr)
	}
	for i, line := range lines {
		var r collbench.AblationResult
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Stage != collbench.Stages()[i].Name || r.Samples <= 0 || r.Share < 0 || r.Share >= 1 || r.Bytes <= 0 {
			t.Errorf("%s: %v", line, err)
		}
	}
	if code, stdout, _ := command(t.Context(), small...); code != 0 || !strings.Contains(stdout, "timed wait") || strings.Count(stdout, "\n") != 2+len(lines) {
		t.Errorf("exit %d: %s", code, stdout)
	}
	for _, bad := range [][]string{{"--ranks", "3"}, {"--bytes", "6"}, {"--uplink", "0"}, {"--steps", "0"}, {"extra"}} {
		if code, _, stderr := command(t.Context(), append([]string{"bench", "ablation"}, bad...)...); code != 2 {
			t.Errorf("%q: exit %d, %s", bad, code, stderr)
		}
	}
}
