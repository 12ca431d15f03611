package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hcclps/cmd/internal/program"
)

// command runs ps-worker in this process.
func command(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = program.Run(ctx, app(), append([]string{"ps-worker"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMistakesAreNamedWithTheNearestValidName(t *testing.T) {
	data := write(t, "ok.libsvm", "1 1:1\n0 2:1\n")
	train := func(args ...string) []string {
		return append([]string{"train", "--data", data, "--embedded", "1"}, args...)
	}
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"trian"}, 2, []string{`"trian"`, "did you mean train?"}},
		{[]string{"train", "--modell", "lr"}, 2, []string{"--modell", "did you mean --model?"}},
		{train("--quiet"), 2, []string{"unknown flag --quiet: --help"}},
		{train("--model", "lrr"), 2, []string{`"lrr"`, "did you mean lr?"}},
		{train("--sync", "bps"), 2, []string{`"bps"`, "bsp"}},
		{train("--sync", "ssp"), 2, []string{"ssp:N"}},
		{train("--sync", "asp:2"), 2, []string{"only ssp"}},
		{train("--optimizer", "adagard"), 2, []string{"adagard", "adagrad"}},
		{train("--optimizer", "adagrad:epz=1"), 2, []string{"epz", "eps"}},
		{train("--optimizer", "adagrad:eps"), 2, []string{"param=number"}},
		{train("--optimizer", "onebit_adm"), 2, []string{"onebit_adm", "onebit_adam"}},
		{train("--optimizer", "onebit_adam:freeze_step=100"), 2, []string{"onebit_adam", "--mode allreduce or hybrid"}},
		{train("--optimizer", "onebit_adam", "--mode", "allreduce", "--compress", "off"), 2, []string{"--optimizer onebit_adam", "--compress off"}},
		{train("--optimizer", "onebit_adam:freeze_steps=100", "--mode", "allreduce"), 2, []string{`"freeze_steps"`, `nearest is "freeze_step"`}},
		{train("--lr", "-1"), 2, []string{"lr"}},
		{train("--admit", "cuont:3"), 2, []string{"--admit", `"cuont"`, "nearest", "count"}},
		{train("--admit", "count"), 2, []string{"--admit", "count:N"}},
		{train("--evict", "rows:1e6,tll:24h"), 2, []string{"--evict", `"tll:24h"`, "nearest", "ttl"}},
		{train("--evict", "rows:1"), 2, []string{"--evict", "1024"}},
		{train("--memory", "2GB"), 2, []string{`--memory "2GB"`, "64MiB"}},
		{train("--memory", "1KiB"), 1, []string{"--memory", "the 1024 bytes", "needs 37MiB at least"}},
		{train("--memory", "36MiB"), 1, []string{"needs 37MiB at least"}},
		{train("--format", "csv"), 1, []string{`no column "label"`, "--label"}},
		{[]string{"train", "--data", write(t, "text.csv", "clicked,site\nyes,a\nno,b\n"), "--format", "csv", "--label", "clicked", "--embedded", "1"}, 1, []string{`"yes": want a number`, "--label COL=V,W"}},
		{train("--epochs", "0"), 2, []string{"--epochs"}},
		{train("--split", "every=1"), 2, []string{"every=N"}},
		{train("--split", "every=2", "--metrics", "acu"), 2, []string{"--metrics", `"acu"`, "nearest is auc"}},
		{[]string{"bench"}, 2, []string{"bench: which command?", "p2p"}},
		{[]string{"version", "now"}, 2, []string{`"now"`}},
		{[]string{"features", "init", "--data", data, "--out", data}, 1, []string{data + " is there", "--out"}},
		{train("--rank", "2"), 2, []string{"rank 2 of 1"}},
		{train("--servers", "x:1"), 2, []string{"exclude each other"}},
		{[]string{"train", "--data", data, "--servers", "localhost:99999"}, 2, []string{"--servers localhost:99999", "port"}},
		{[]string{"topo", "--servers", "localhost:99999"}, 2, []string{"--servers localhost:99999", "port"}},
		{train("--resume"), 2, []string{"--dir"}},
		{train("extra"), 2, []string{`"extra"`}},
		{[]string{"train", "--embedded", "1"}, 2, []string{"--data"}},
		{[]string{"train", "--data", data}, 2, []string{"--servers or --embedded"}},
		{train("--mode", "allreduse"), 2, []string{`"allreduse"`, "did you mean allreduce?"}},
		{train("--mode", "allreduce"), 2, []string{"has no servers", "--servers 0"}},
		{train("--mode", "hybrid", "--algo", "allreduce=rnig"), 2, []string{"--algo", `"rnig"`, "nearest is ring"}},
		{train("--mode", "hybrid", "--algo", "allredce=ring"), 2, []string{"--algo", `"allredce"`, "nearest is allreduce"}},
		{train("--reduce-order", "rank"), 2, []string{"--reduce-order", "--mode allreduce or hybrid"}},
		{train("--delay", "1"), 2, []string{"--delay 1", "--mode allreduce"}},
		{[]string{"train", "--data", data, "--mode", "allreduce", "--algo", "allreduce=circle"}, 2, []string{"--algo", "circle"}},
		{[]string{"train", "--data", data, "--mode", "allreduce", "--sync", "asp"}, 2, []string{"--sync asp", "in step"}},
		{[]string{"train", "--data", data, "--mode", "allreduce", "--resume"}, 2, []string{"--resume", "--checkpoint-dir"}},
		{[]string{"train", "--data", data, "--mode", "hybrid", "--embedded", "1", "--max-rebuilds", "-1"}, 2, []string{"--max-rebuilds -1"}},
		{[]string{"launch", "--servers", "0", "--shards", "8", "--", "true"}, 2, []string{"--shards", "--servers 0"}},
		{[]string{"launch", "--servers", "0", "--memory", "2GiB", "--", "true"}, 2, []string{"--memory", "--servers 0"}},
		{[]string{"launch", "--memory", "much", "--", "true"}, 2, []string{"--memory", "much"}},
		{[]string{"launch", "--log-budget", "5x", "--", "true"}, 2, []string{"--log-budget", "5x"}},
		{[]string{"launch", "--durability", "quorum-dsk", "--", "true"}, 2, []string{"did you mean quorum-disk?"}},
		{[]string{"launch", "--max-rebuilds", "-1", "--", "true"}, 2, []string{"--max-rebuilds -1"}},
		{[]string{"train", "--data", data, "--profile", t.TempDir()}, 2, []string{"is a folder"}},
		{[]string{"train", "--data", data, "--mode", "allreduce", "--world", "2", "--job", "j"}, 2, []string{"2 workers", "MASTER_ADDR", "MASTER_PORT"}},
		{[]string{"launch", "--servers", "0", "--kill-worker-every", "9steps", "--", "true"}, 2, []string{"9steps", "a duration"}},
		{[]string{"launch"}, 2, []string{"after --"}},
		{[]string{"launch", "--kill-leader-every", "often", "--", "true"}, 2, []string{"often", "100steps"}},
		{[]string{"launch", "--kills", "3", "--", "true"}, 2, []string{"L,W"}},
		{[]string{"train", "--data", "/nowhere/at/all", "--embedded", "1"}, 1, []string{"/nowhere/at/all"}},
		{[]string{"train", "--data", t.TempDir(), "--embedded", "1"}, 1, []string{"directory"}},
		{[]string{"train", "--data", write(t, "empty", ""), "--embedded", "1"}, 1, []string{"empty"}},
		{[]string{"train", "--config", "/no/such.yaml"}, 1, []string{"/no/such.yaml"}},
		{[]string{"train", "--config", write(t, "c.yaml", "epocs: 3\n")}, 2, []string{"epocs", "did you mean epochs?"}},
		{[]string{"train", "--config", write(t, "d.yaml", "epochs: many\n")}, 2, []string{"epochs"}},
	} {
		code, _, stderr := command(t.Context(), c.args...)
		if code != c.code {
			t.Errorf("%q: exit %d, want %d: %s", c.args, code, c.code, stderr)
		}
		for _, want := range c.says {
			if !strings.Contains(stderr, want) {
				t.Errorf("%q: %q is not in %q", c.args, want, stderr)
			}
		}
		if n := strings.Count(stderr, "\n"); n > 3 {
			t.Errorf("%q: %d lines of complaint", c.args, n)
		}
	}
}

func TestMalformedRowNamesFileLineAndValue(t *testing.T) {
	data := write(t, "bad.libsvm", "1 1:1\n0 2:1\n1 3:one\n")
	code, _, stderr := command(t.Context(), "train", "--data", data, "--embedded", "1")
	if code != 1 || !strings.Contains(stderr, data+":3:") || !strings.Contains(stderr, "one") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func TestPrecedenceIsFlagEnvironmentFileDefault(t *testing.T) {
	file := write(t, "c.yaml", "epochs: 2\nbatch: 20\nseed: 200\n")
	t.Setenv("HCCLPS_BATCH", "30")
	t.Setenv("HCCLPS_SEED", "300")
	code, stdout, stderr := command(t.Context(), "train", "--config", file, "--seed", "4", "--print-config")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, want := range []string{`epochs: "2"`, `batch: "30"`, `seed: "4"`, `model: lr`} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
}

func TestTrainPrintsOneLineOfJSON(t *testing.T) {
	var rows strings.Builder
	for i := range 200 {
		rows.WriteString([]string{"1 1:1 3:1\n", "0 2:1 3:1\n"}[i/3%2])
	}
	data := write(t, "train.libsvm", rows.String())
	code, stdout, stderr := command(t.Context(), "train", "--data", data, "--split", "every=10", "--embedded", "1", "--batch", "16", "--json")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if strings.Count(stdout, "\n") != 1 {
		t.Errorf("want one line, got %q", stdout)
	}
	for _, want := range []string{`"auc":1,`, `"batches":60,`, `"applied_pushes":60,`, `"reproducible":true`, `"rows":900,`, `"digest":"`} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%s is not in %s", want, stdout)
		}
	}
}

func TestOneBitAdamWithoutAMomentumSaysSo(t *testing.T) {
	data := write(t, "train.libsvm", strings.Repeat("1 1:1\n0 2:1\n", 40))
	for freeze, want := range map[string]bool{"3": false, "10": true, "1000": true} { // of 10 steps
		code, _, stderr := command(t.Context(), "train", "--data", data, "--mode", "allreduce", "--optimizer", "onebit_adam:freeze_step="+freeze, "--batch", "16", "--epochs", "2")
		if said := strings.Contains(stderr, "in all 10 steps: its freeze_step is "+freeze); code != 0 || said != want {
			t.Errorf("freeze_step %s: exit %d, said: %v, want %v: %s", freeze, code, said, want, stderr)
		}
	}
}

// A table of ranks and a rank by another variable do not say who this process is.
func TestRankTableWantsItsOwnRank(t *testing.T) {
	t.Setenv("RANK_TABLE_FILE", filepath.Join(t.TempDir(), "table.json"))
	t.Setenv("RANK", "0")
	code, _, stderr := command(t.Context(), "train", "--data", write(t, "a.libsvm", "1 1:1\n"), "--mode", "allreduce")
	if code != 2 || !strings.Contains(stderr, "RANK_ID") {
		t.Errorf("exit %d, want 2 and RANK_ID in %q", code, stderr)
	}
}
