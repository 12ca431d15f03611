package main

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hcclps/worker"
)

// numpy is a Python that has it.
func numpy(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), python, "-c", "import numpy").Run() == nil {
			return python
		}
	}
	t.Skip("no Python with numpy (Debian: python3-numpy)")
	return ""
}

// run is a command that must do.
func run(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := command(t.Context(), args...)
	if code != 0 {
		t.Fatalf("%q: exit %d: %s", args, code, stderr)
	}
	return stdout, stderr
}

// digestOf trains an epoch from what is loaded, and returns the digest.
func digestOf(t *testing.T, args ...string) string {
	t.Helper()
	out, _ := run(t, append([]string{"train", "--embedded", "1", "--epochs", "1", "--batch", "10", "--json"}, args...)...)
	var r report
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Digest == "" {
		t.Fatalf("%q: %v", out, err)
	}
	return r.Digest
}

// The page about numpy does what it says: an export is opened, and what numpy has written is trained on.
func TestNumpyPageNeedsNumpy(t *testing.T) {
	python := numpy(t)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "numpy.md"))
	if err != nil {
		t.Fatal(err)
	}
	script := []string{}
	for _, block := range regexp.MustCompile("(?s)```python\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		script = append(script, block[1])
	}
	script = append(script, `save("same.safetensors", load("export/model.safetensors"))`+"\nprint(float(rows.sum()))\n")

	data, dir := someRows(t), t.TempDir()
	kept := filepath.Join(dir, "checkpoints")
	run(t, "train", "--mode", "allreduce", "--data", data, "--epochs", "9", "--batch", "10", "--checkpoint-dir", kept, "--checkpoint-every", "8")
	run(t, "export", "--load", kept, "--to", filepath.Join(dir, "export"))

	cmd := exec.CommandContext(t.Context(), python, "-c", strings.Join(script, "\n"))
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.HasPrefix(string(out), "3 rows, bias [") {
		t.Errorf("numpy says %q", out)
	}
	want := digestOf(t, "--data", data, "--load", filepath.Join(dir, "export"))
	if got := digestOf(t, "--data", data, "--load", filepath.Join(dir, "same.safetensors")); got != want {
		t.Errorf("digest %s from what numpy has written, %s from the export", got, want)
	}
	digestOf(t, "--data", data, "--load", filepath.Join(dir, "pruned.safetensors"))
	digestOf(t, "--data", data, "--load", filepath.Join(dir, "pruned.safetensors"), "--compress", "onebit")
}

// Whatever a model lies in, it scores alike.
func TestScoresOfModelCheckpointAndExport(t *testing.T) {
	data, dir := someRows(t), t.TempDir()
	kept, saved := filepath.Join(dir, "checkpoints"), filepath.Join(dir, "saved")
	// The last step is the 54th: the checkpoint has what is saved.
	run(t, "train", "--mode", "allreduce", "--model", "fm", "--data", data, "--epochs", "9", "--batch", "10", "--checkpoint-dir", kept, "--checkpoint-every", "54", "--save", saved)
	scores := map[string]string{}
	for _, from := range []string{kept, saved} {
		to := from + ".export"
		run(t, "export", "--load", from, "--to", to)
		for _, path := range []string{from, to} {
			scores[path], _ = run(t, "predict", "--load", path, "--data", data)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(scores)) {
		if scores[path] != scores[saved] || len(strings.Fields(scores[path])) != 60 {
			t.Errorf("%s scores unlike the saved model: %.80q, %.80q", path, scores[path], scores[saved])
		}
	}
	// How gradients travel is no part of what is loaded.
	coded := filepath.Join(dir, "coded")
	run(t, "train", "--embedded", "1", "--model", "fm", "--data", data, "--epochs", "1", "--compress", "onebit", "--save", coded)
	run(t, "export", "--slots", "--load", coded, "--to", coded+".export")
	run(t, "predict", "--load", coded+".export", "--data", data)
	digestOf(t, "--data", data, "--load", coded+".export")
	if err := os.Remove(filepath.Join(coded+".export", worker.AboutFile)); err != nil {
		t.Fatal(err)
	}
	digestOf(t, "--model", "fm", "--data", data, "--load", coded+".export")
	for _, bad := range [][]string{
		{"train", "--data", data, "--mode", "allreduce", "--resume"},
		{"train", "--data", data, "--embedded", "1", "--checkpoint-every", "5"},
		{"train", "--data", data, "--servers", "unix:/none", "--checkpoint-dir", kept},
		{"train", "--data", data, "--embedded", "1", "--checkpoint-dir", kept, "--checkpoint-every", "soon"},
		{"export", "--load", kept},
	} {
		if code, _, stderr := command(t.Context(), bad...); code != 2 {
			t.Errorf("%q: exit %d: %s", bad, code, stderr)
		}
	}
	if code, _, stderr := command(t.Context(), "train", "--embedded", "1", "--data", data, "--checkpoint-dir", kept, "--model", "fm"); code != 1 || !strings.Contains(stderr, "--resume goes on with it") {
		t.Errorf("a folder with checkpoints of the job: exit %d: %s", code, stderr)
	}
}
