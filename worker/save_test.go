package worker_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hcclps/ps"
	"hcclps/worker"
	"hcclps/worker/dataset"
)

// endless repeats one epoch: the data of an epoch does not depend on its number.
func endless() *stream { return &stream{rows: 600, batch: 50} }

func about() worker.About {
	return worker.About{
		Model: "shared", Options: json.RawMessage(`{"dim":3}`),
		Schema: &dataset.Schema{Features: []dataset.Feature{{Name: "user", Kind: dataset.KindID}}},
	}
}

// Training one epoch, saving, loading into another job of a cluster with another
// number of shards, and training one more is training two.
func TestTrainingGoesOnFromASavedModel(t *testing.T) {
	t.Parallel()
	l, other := cluster(t), scratch(t)
	for _, name := range []string{"adagrad", "adam", "lazy_adam", "ftrl"} {
		opt := worker.Optimizer{Name: name}
		dir := filepath.Join(t.TempDir(), "model")
		want := workers(t, l, worker.Config{Job: name + " whole", Seed: 5}, opt, func(_ int, c *worker.Client, m *shared) error {
			_, err := c.Train(t.Context(), m, endless(), worker.TrainOptions{Epochs: 2})
			return err
		})
		half := workers(t, l, worker.Config{Job: name + " half", Seed: 5}, opt, func(_ int, c *worker.Client, m *shared) error {
			if _, err := c.Train(t.Context(), m, endless(), worker.TrainOptions{}); err != nil {
				return err
			}
			return c.Save(t.Context(), dir, about())
		})
		load := func(job string, epochs int) string {
			t.Helper()
			c := connect(t, other, worker.Config{Job: job, Seed: 99}) // the saved seeds count
			defer end(t, c)
			man, err := c.Load(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			if man.Step != 12 || man.About.Model != "shared" || len(man.About.Schema.Features) != 1 || string(man.About.Options) == "" {
				t.Errorf("%s: manifest %+v", name, man)
			}
			m, err := newShared(t.Context(), c, opt)
			if err != nil {
				t.Fatal(err)
			}
			if epochs > 0 {
				_, err = c.Train(t.Context(), m, endless(), worker.TrainOptions{Epochs: epochs})
			} else {
				err = c.Finish(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			d, err := c.Digest(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		if got := load(name+" loaded", 0); got != half {
			t.Errorf("%s: loaded digest %s, saved %s", name, got, half)
		}
		if got := load(name+" goes on", 1); got != want {
			t.Errorf("%s: digest %s after going on, %s without a break", name, got, want)
		}
	}
}

// saved trains a little and saves.
func saved(t *testing.T, l *ps.Local, job string) (dir, digest string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "model")
	digest = workers(t, l, worker.Config{Job: job}, worker.Optimizer{}, func(_ int, c *worker.Client, m *shared) error {
		if _, err := c.Train(t.Context(), m, endless(), worker.TrainOptions{}); err != nil {
			return err
		}
		return c.Save(t.Context(), dir, about())
	})
	return dir, digest
}

func TestWorkersLoadTogetherAndOnce(t *testing.T) {
	t.Parallel()
	l := cluster(t)
	dir, _ := saved(t, l, "together saved")
	another, _ := saved(t, l, "another saved")
	done := make(chan struct{})
	cfg := worker.Config{Job: "together", World: 2, Sync: worker.ASP}
	join := func(rank int) *worker.Client {
		cfg := cfg
		cfg.Rank = rank
		return connect(t, l, cfg)
	}
	second := join(1)
	defer second.Abandon()
	go func() {
		defer close(done)
		if _, err := second.Load(t.Context(), dir); err != nil {
			t.Error(err)
		}
	}()
	first := join(0)
	defer first.Abandon()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for waits := ""; !strings.Contains(waits, "load by rank 0"); waits = fmt.Sprint(second.Waiting()) {
		select {
		case <-tick.C:
		case <-done:
			t.Fatal("rank 1 has not waited for rank 0")
		}
	}
	if _, err := first.Load(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	<-done
	m, err := newShared(t.Context(), first, worker.Optimizer{})
	if err != nil {
		t.Fatal(err)
	}
	g := worker.Gradient{Table: m.rows, Keys: []uint64{1}, Values: []float32{1, 1, 1}}
	if err := first.Push(t.Context(), 1, nil, g); err != nil {
		t.Fatal(err)
	}
	before := row(t, first, m)
	for _, c := range []*worker.Client{first, second} {
		if _, err := c.Load(t.Context(), dir); err != nil {
			t.Errorf("loaded again after the first step: %v", err)
		}
	}
	if after := row(t, first, m); !slices.Equal(before, after) {
		t.Errorf("loading again changed %v to %v", before, after)
	}
	if _, err := first.Load(t.Context(), another); err == nil || !strings.Contains(err.Error(), "first step") {
		t.Errorf("another model after the first step: %v", err)
	}
	fresh := connect(t, l, worker.Config{Job: "two models"})
	defer end(t, fresh)
	if _, err := fresh.Load(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := fresh.Load(t.Context(), another); err == nil || !strings.Contains(err.Error(), "another load") {
		t.Errorf("two models in a job: %v", err)
	}
}

func row(t *testing.T, c *worker.Client, m *shared) []float32 {
	t.Helper()
	out := make([]float32, sharedDim)
	if err := c.Pull(t.Context(), worker.Read{Table: m.rows, Keys: []uint64{1}, Out: out}); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSaveReplacesAModelWhole(t *testing.T) {
	t.Parallel()
	l := scratch(t)
	dir, _ := saved(t, l, "first")
	old, err := worker.ReadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	workers(t, l, worker.Config{Job: "second"}, worker.Optimizer{}, func(_ int, c *worker.Client, _ *shared) error {
		if err := c.Finish(t.Context()); err != nil {
			return err
		}
		return c.Save(t.Context(), dir, worker.About{Model: "second"})
	})
	m, err := worker.ReadManifest(dir)
	if err != nil || m.About.Model != "second" || m.Step != 0 || m.Job != "second" {
		t.Errorf("manifest %+v, %v", m, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1+len(m.Tables) {
		t.Errorf("files %v, %v: want a manifest and %d tables", files, err, len(m.Tables))
	}
	for _, table := range old.Tables {
		if slices.ContainsFunc(m.Tables, func(n worker.SavedTable) bool { return n.File == table.File }) {
			t.Errorf("file %s was written over", table.File)
		}
	}
	// What is no model, or a newer one, is not replaced.
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), []byte(`{"format":"hcclps-model","version":2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := connect(t, l, worker.Config{Job: "third"})
	defer end(t, c)
	if err := c.Save(t.Context(), dir, worker.About{}); !errors.Is(err, worker.ErrModelVersion) {
		t.Errorf("a newer model was replaced: %v", err)
	}
}

func TestDamagedModelsAreRefusedByName(t *testing.T) {
	t.Parallel()
	l := scratch(t)
	dir, _ := saved(t, l, "good")
	man, err := worker.ReadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	rows := man.Tables[0].File
	edit := func(file string, change func([]byte) []byte) func(dir string) error {
		return func(dir string) error {
			b, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, file), change(b), 0o600)
		}
	}
	replace := func(old, with string) func(dir string) error {
		return edit("manifest.json", func(b []byte) []byte { return bytes.Replace(b, []byte(old), []byte(with), 1) })
	}
	for name, c := range map[string]struct {
		harm func(dir string) error
		want error
		says string
	}{
		"a bit flipped":       {edit(rows, func(b []byte) []byte { b[len(b)/2] ^= 4; return b }), worker.ErrModelDamaged, rows},
		"cut":                 {edit(rows, func(b []byte) []byte { return b[:len(b)-5] }), worker.ErrModelDamaged, "missing"},
		"longer":              {edit(rows, func(b []byte) []byte { return append(b, 0) }), worker.ErrModelDamaged, "after the last row"},
		"empty":               {edit(rows, func([]byte) []byte { return nil }), worker.ErrModelDamaged, "head"},
		"newer rows":          {edit(rows, func(b []byte) []byte { b[8] = 9; return b }), worker.ErrModelVersion, "version 9"},
		"other rows":          {edit(rows, func(b []byte) []byte { b[0] = 'x'; return b }), worker.ErrModelDamaged, "no file of rows"},
		"rows gone":           {func(dir string) error { return os.Remove(filepath.Join(dir, rows)) }, os.ErrNotExist, rows},
		"manifest gone":       {func(dir string) error { return os.Remove(filepath.Join(dir, "manifest.json")) }, os.ErrNotExist, "manifest"},
		"newer manifest":      {replace(`"version": 1`, `"version": 2`), worker.ErrModelVersion, "version 2"},
		"another format":      {replace(`"hcclps-model"`, `"torch"`), worker.ErrModelDamaged, "torch"},
		"not JSON":            {replace(`{`, `<`), worker.ErrModelDamaged, "manifest.json"},
		"an unknown field":    {replace(`"job"`, `"jab"`), worker.ErrModelDamaged, "jab"},
		"a way out":           {replace(rows, `../`+rows), worker.ErrModelDamaged, "not in the directory"},
		"a row less":          {replace(`"rows": `, `"rows": 1`), worker.ErrModelDamaged, "missing"},
		"rows of other width": {replace(`"width": 6`, `"width": 7`), worker.ErrModelDamaged, "rows of 6 values"},
	} {
		bad := t.TempDir()
		if err := os.CopyFS(bad, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if err := c.harm(bad); err != nil {
			t.Fatal(err)
		}
		client := connect(t, l, worker.Config{Job: "load " + name})
		_, err := client.Load(t.Context(), bad)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v: want %v, %q and the directory", name, err, c.want, c.says)
		}
		// Nothing was changed: the good one can be loaded still.
		if _, err := client.Load(t.Context(), dir); err != nil {
			t.Errorf("%s: the good model after it: %v", name, err)
		}
		end(t, client)
	}
}

func TestKeepBestSavesTheBestEvaluation(t *testing.T) {
	t.Parallel()
	l := cluster(t)
	dir := filepath.Join(t.TempDir(), "best")
	held := func() *stream {
		return &stream{rows: 100, batch: 30, label: func(row int) float32 { return float32(row & 1) }}
	}
	var rep worker.Report
	workers(t, l, worker.Config{Job: "best", World: 2}, sgd(0.5), func(rank int, c *worker.Client, m *shared) error {
		opt := worker.TrainOptions{Epochs: 4, EvalEvery: 3, EvalOn: held(), KeepBest: dir, About: about()}
		got, err := c.Train(t.Context(), m, endless(), opt)
		if rank == 0 {
			rep = got
		}
		return err
	})
	if rep.BestStep == 0 || rep.Stopped {
		t.Fatalf("report %+v", rep)
	}
	c := connect(t, l, worker.Config{Job: "of the best"})
	defer end(t, c)
	man, err := c.Load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := newShared(t.Context(), c, sgd(0.5))
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Evaluate(t.Context(), m, held())
	if err != nil {
		t.Fatal(err)
	}
	if got.LogLoss() != rep.Best || man.Step != rep.BestStep || man.About.Model != "shared" {
		t.Errorf("log loss %v of step %d, want %v of step %d", got.LogLoss(), man.Step, rep.Best, rep.BestStep)
	}
}
