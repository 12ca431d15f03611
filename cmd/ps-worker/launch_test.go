package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"hcclps/ps"
)

// build makes both programs, once for all tests that need real processes.
func build(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	for _, name := range []string{"ps-server", "ps-worker"} {
		out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "hcclps/cmd/"+name).CombinedOutput()
		if err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
	return bin
}

func clickData(t *testing.T) string {
	t.Helper()
	var rows strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&rows, "%d %d:1 %d:1\n", i%3&1, 1+i%50, 100+i%77)
	}
	return write(t, "train.libsvm", rows.String())
}

func launched(t *testing.T, bin string, flags, train []string) report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	args := append(append([]string{"launch", "-n", "2"}, flags...), "--", filepath.Join(bin, "ps-worker"), "train", "--json")
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "ps-worker"), append(args, train...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("launch: %v\n%s\n%s", err, out.String(), errs.String())
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("read %q: %v", out.String(), err)
	}
	return r
}

// Leaders and workers are killed with SIGKILL while they train: every batch is
// applied once, and without worker kills not a bit differs.
func TestKilledProcessesLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	bin, data := build(t), clickData(t)
	train := []string{"--data", data, "--epochs", "10", "--batch", "64"}
	quiet := launched(t, bin, nil, train)
	slow := slices.Concat(train, []string{"--step-delay", "12ms"})
	hurt := launched(t, bin, []string{"--kill-leader-every", "700ms", "--kills", "3,0"}, slow)
	if hurt.Digest != quiet.Digest {
		t.Errorf("digest after %d leader kills is %s, undisturbed %s", *hurt.LeaderKills, hurt.Digest, quiet.Digest)
	}
	if !hurt.Reproducible || *hurt.LeaderKills == 0 {
		t.Errorf("reproducible %v (%s), %d leader kills", hurt.Reproducible, hurt.Irreproducible, *hurt.LeaderKills)
	}
	both := launched(t, bin, []string{"--kill-leader-every", "900ms", "--kill-worker-every", "500ms", "--kills", "2,3"}, slow)
	if both.Batches != quiet.Batches || both.Applied != both.Batches || *both.WorkerKills == 0 {
		t.Errorf("%d batches, %d applied, want %d of each; %d worker kills", both.Batches, both.Applied, quiet.Batches, *both.WorkerKills)
	}
	if both.Reproducible {
		t.Error("a run whose workers were restarted says it is reproducible")
	}
}

// forget removes what a named folder keeps in memory for the next launch.
func forget(t *testing.T, dir string) {
	t.Helper()
	cluster, err := os.ReadFile(filepath.Join(dir, "cluster"))
	if err != nil {
		t.Error(err)
	}
	for _, s := range []string{"s1", "s2", "s3"} {
		if err := os.RemoveAll(ps.MemoryLogDir(strings.TrimSpace(string(cluster)), s)); err != nil {
			t.Error(err)
		}
	}
}

// A folder that was removed is a new one: what it left in memory is never met.
func TestLaunchOnARemovedFolderBeginsAnew(t *testing.T) {
	t.Parallel()
	bin, data, dir := build(t), clickData(t), filepath.Join(t.TempDir(), "job")
	for range 2 {
		r := launched(t, bin, []string{"--dir", dir}, []string{"--data", data, "--epochs", "1", "--batch", "256"})
		if r.ResumedStep != 0 || r.Applied == 0 {
			t.Errorf("resumed at step %d, %d batches applied: want a job of its own", r.ResumedStep, r.Applied)
		}
		forgotten := t.TempDir() // the logs stay where they are, but for the end of the test
		if err := os.Rename(filepath.Join(dir, "cluster"), filepath.Join(forgotten, "cluster")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { forget(t, forgotten) })
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// A Ctrl-C ends all children, and the folder can be used again.
func TestInterruptedLaunchLeavesNothingAndResumes(t *testing.T) {
	t.Parallel()
	bin, data, dir := build(t), clickData(t), t.TempDir()
	worker := filepath.Join(bin, "ps-worker")
	t.Cleanup(func() { forget(t, dir) })
	args := []string{"launch", "-n", "2", "--dir", dir, "--", worker, "train", "--data", data, "--epochs", "10", "--batch", "64", "--json"}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, worker, append(args, "--step-delay", "20ms")...)
	var errs syncBuffer
	errs.grown = make(chan struct{}, 1)
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(errs.String(), "rows/s") { // training has begun
		select {
		case <-errs.grown:
		case <-ctx.Done():
			t.Fatalf("no progress: %s", errs.String())
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("an interrupted launch exits 0")
	}
	if err := syscall.Kill(-cmd.Process.Pid, 0); err == nil {
		t.Error("a process of the job is still there")
	}
	out, err := exec.CommandContext(ctx, worker, args...).Output()
	if err != nil {
		t.Fatalf("resume: %v\n%s", err, out)
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	if r.ResumedStep == 0 || r.Batches != 320*2 || r.Applied != r.Batches {
		t.Errorf("resumed at step %d, %d batches, %d applied; want a later step and 640 of each", r.ResumedStep, r.Batches, r.Applied)
	}
}

// Workers without servers end with the bits of servers; one that is killed is done without, and let in again.
func TestWorkersWithoutServers(t *testing.T) {
	t.Parallel()
	bin, data := build(t), clickData(t)
	train := []string{"--data", data, "--epochs", "4", "--batch", "64"}
	want := launched(t, bin, nil, train)
	for mode, servers := range map[string]string{"allreduce": "0", "hybrid": "1"} {
		got := launched(t, bin, []string{"--servers", servers}, slices.Concat(train, []string{"--mode", mode, "--reduce-order", "rank"}))
		if got.Digest != want.Digest || !got.Reproducible || got.Mode != mode || got.Batches != want.Batches {
			t.Errorf("%s: digest %.8s, reproducible %v, %d batches; with servers %.8s, %d", got.Mode, got.Digest, got.Reproducible, got.Batches, want.Digest, want.Batches)
		}
	}
	slow := slices.Concat(train, []string{"--mode", "allreduce", "--step-delay", "15ms", "--epochs", "12", "--max-rebuilds", "9"})
	hurt := launched(t, bin, []string{"--servers", "0", "--kill-worker-every", "700ms", "--kills", "0,3"}, slow)
	if *hurt.WorkerKills == 0 || hurt.Reproducible || hurt.Digest == "" || hurt.Batches != hurt.Applied {
		t.Errorf("%d kills, reproducible %v, digest %q, %d batches, %d applied", *hurt.WorkerKills, hurt.Reproducible, hurt.Digest, hurt.Batches, hurt.Applied)
	}
}
