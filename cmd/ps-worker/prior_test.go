package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// someRows are few rows that lr learns in no time.
func someRows(t *testing.T) string {
	t.Helper()
	return write(t, "small.libsvm", strings.Repeat("1 1:1 3:1\n0 2:1 3:1\n1 1:1\n", 20))
}

// trained saves a small model and returns its folder.
func trained(t *testing.T, args ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "m1")
	code, _, stderr := command(t.Context(), append([]string{"train", "--embedded", "1", "--epochs", "1", "--save", dir}, args...)...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	return dir
}

func TestLoadGoesOnWithTheSavedModel(t *testing.T) {
	data := someRows(t)
	m1 := trained(t, "--data", data, "--model", "fm", "--dim", "8", "--schedule", "linear:steps=9")
	m2 := filepath.Join(t.TempDir(), "m2")
	code, _, stderr := command(t.Context(), "train", "--embedded", "1", "--data", data, "--load", m1, "--epochs", "1", "--save", m2)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	p, err := readPrior(t.Context(), m2)
	if err != nil {
		t.Fatal(err)
	}
	if p.options.Model != "fm" || p.options.Dim != 8 || p.options.Optimizer.Schedule.Kind != "linear" {
		t.Errorf("went on with %+v", p.options)
	}
}

func TestLoadRefusesAnotherModelBeforeItTrains(t *testing.T) {
	data := someRows(t)
	m1 := trained(t, "--data", data, "--model", "fm")
	columns := write(t, "t.csv", "label,u,i\n"+strings.Repeat("1,a,b\n0,c,d\n", 20))
	m2 := trained(t, "--data", columns, "--format", "csv")
	other := write(t, "other.yaml", "features:\n- {name: label, kind: label}\n- {name: u, kind: id}\n")
	text := write(t, "text.yaml", "features:\n- {name: label, kind: label}\n- {name: u, kind: id}\n- {name: i, kind: id, as: text}\n")
	save := filepath.Join(t.TempDir(), "never")
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"--data", data, "--load", m1, "--model", "lr"}, 1, []string{m1, "a model fm (dim 16, adagrad:", "--model says lr"}},
		{[]string{"--data", data, "--load", m1, "--dim", "4"}, 1, []string{"fm (dim 16", "--dim says 4"}},
		{[]string{"--data", data, "--load", m1, "--optimizer", "adam"}, 1, []string{"--optimizer", "say adam"}},
		{[]string{"--data", data, "--load", m1, "--lr", "7"}, 1, []string{"lr=0.03", "lr=7"}},
		{[]string{"--data", data, "--load", m1, "--schedule", "cosine:steps=9"}, 1, []string{"schedule cosine"}},
		{[]string{"--data", columns, "--format", "csv", "--load", m1}, 1, []string{"features"}},
		{[]string{"--data", columns, "--format", "csv", "--load", m2, "--features", other}, 1, []string{other, "the features u, not u, i"}},
		{[]string{"--data", columns, "--format", "csv", "--load", m2, "--features", text}, 1, []string{`feature "u"`, "not described as in training"}},
		{[]string{"--data", columns, "--format", "csv", "--load", m2, "--hash-bits", "20"}, 2, []string{"--hash-bits 20", m2}},
		{[]string{"--data", data, "--load", t.TempDir()}, 1, []string{"holds no model"}},
	} {
		code, _, stderr := command(t.Context(), append([]string{"train", "--embedded", "1", "--save", save}, c.args...)...)
		if code != c.code {
			t.Errorf("%q: exit %d, want %d: %s", c.args, code, c.code, stderr)
		}
		for _, want := range append(c.says, "") {
			if !strings.Contains(stderr, want) || strings.Contains(stderr, "{") {
				t.Errorf("%q: %q is not in %q", c.args, want, stderr)
			}
		}
	}
	if _, err := os.Stat(save); err == nil {
		t.Error("a model was saved")
	}
}

// Mistakes that can be known at the start do not cost a training.
func TestMistakesAreFoundBeforeTheFirstStep(t *testing.T) {
	data := someRows(t)
	full := filepath.Dir(data) // holds the data
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--save", "/proc/x"}, 1, "/proc/x"},
		{[]string{"--save", data}, 1, "small.libsvm"},
		{[]string{"--save", full}, 1, "holds no model but small.libsvm"},
		{[]string{"--test", data, "--metrics", "gauc:nofield"}, 2, "want one of features"},
		{[]string{"--clip", "norm=nan"}, 2, "norm=nan"},
		{[]string{"--clip", "value=inf"}, 2, "value=inf"},
		{[]string{"--hash-bits", "65"}, 2, "1 to 64"},
		{[]string{"--hash-bits", "0"}, 2, "1 to 64"},
		{[]string{"--hash-bits", "20"}, 2, "--format is libsvm"},
		{[]string{"--header", "yes"}, 2, "--format is libsvm"},
		{[]string{"--label", "clicked"}, 2, "no names of columns"},
		{[]string{"--resume", "--dir", t.TempDir()}, 1, "no job to go on with"},
		{[]string{"--model", "twotower"}, 1, "none for the item's tower"},
		{[]string{"--print-config", "extra"}, 2, "extra"},
	} {
		code, stdout, stderr := command(t.Context(), append([]string{"train", "--embedded", "1", "--data", data}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.says) || stdout != "" {
			t.Errorf("%q: exit %d, want %d and %q: %s%s", c.args, code, c.code, c.says, stderr, stdout)
		}
	}
}

func TestPrintConfigTakesArgumentsWhereTheCommandDoes(t *testing.T) {
	for _, name := range [][]string{{"train"}, {"eval"}, {"predict"}, {"topo"}, {"doctor"}, {"bench", "p2p"}, {"bench", "pushpull"}} {
		code, stdout, stderr := command(t.Context(), append(name, "--print-config", "extra")...)
		if code != 2 || stdout != "" || !strings.Contains(stderr, "extra") {
			t.Errorf("%q: exit %d: %s%s", name, code, stderr, stdout)
		}
	}
	if code, stdout, stderr := command(t.Context(), "launch", "--print-config", "--", "true"); code != 0 || stdout == "" {
		t.Errorf("launch: exit %d: %s%s", code, stderr, stdout)
	}
}

func TestResumeOfAnotherJobIsRefused(t *testing.T) {
	data, dir := someRows(t), t.TempDir()
	trained(t, "--data", data, "--dir", dir)
	code, _, stderr := command(t.Context(), "train", "--embedded", "1", "--data", data, "--dir", dir, "--resume", "--job", "typo", "--epochs", "1")
	if code != 1 || !strings.Contains(stderr, "no step of job typo") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func TestColumnsReadAsLibsvmSaySo(t *testing.T) {
	data := write(t, "x.csv", "label,u\n1,a\n")
	code, _, stderr := command(t.Context(), "train", "--embedded", "1", "--data", data)
	if code != 1 || !strings.Contains(stderr, data+":1:1:") || !strings.Contains(stderr, "read as libsvm; for columns give --format csv") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func TestPredictLeavesNoPartOfTheScores(t *testing.T) {
	dir := trained(t, "--data", someRows(t))
	out := filepath.Join(t.TempDir(), "scores")
	if code, _, stderr := command(t.Context(), "predict", "--load", dir, "--data", write(t, "good", "1 1:1\n0 2:1\n"), "--out", out); code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	was, err := os.ReadFile(out)
	if err != nil || strings.Count(string(was), "\n") != 2 {
		t.Fatalf("%q, %v", was, err)
	}
	bad := write(t, "bad", strings.Repeat("1 1:1\n", 100000)+"1 1:x\n")
	if code, _, stderr := command(t.Context(), "predict", "--load", dir, "--data", bad, "--out", out); code != 1 {
		t.Errorf("exit %d: %s", code, stderr)
	}
	now, err := os.ReadFile(out)
	if err != nil || string(now) != string(was) {
		t.Errorf("%d bytes of scores, %v: want those of before", len(now), err)
	}
	if files, err := os.ReadDir(filepath.Dir(out)); err != nil || len(files) != 1 {
		t.Errorf("%v, %v: want the scores alone", files, err)
	}
	if code, stdout, stderr := command(t.Context(), "predict", "--load", dir, "--data", bad, "--out", "/dev/null", "--bad-rows", "skip"); code != 0 || stdout != "" {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
