package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hcclps/checkpoint"
	"hcclps/ps"
	"hcclps/worker"
	"hcclps/worker/model"
)

var adam = model.Options{Model: model.NameDeepFM, Optimizer: worker.Optimizer{Name: "adam"}}

// kept trains two epochs with a checkpoint after the last step, and returns its folder and the digest.
func kept(t *testing.T, job string) (dir, digest string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "c")
	cfg := worker.Config{Mode: worker.AllReduce, Job: job, Seed: 3, Checkpoints: worker.Checkpoints{Dir: dir}}
	return dir, crew{cfg: cfg, train: until(0, 22, adam, worker.TrainOptions{Epochs: 2})}.run(t)
}

// exported writes the newest checkpoint of a folder as tensors.
func exported(t *testing.T, dir string, o checkpoint.ExportOptions) string {
	t.Helper()
	s, err := checkpoint.Open(checkpoint.Config{Dir: dir, Owner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Load(t.Context(), all[len(all)-1].ID)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	out := filepath.Join(t.TempDir(), "export")
	if _, err := c.Export(t.Context(), out, o); err != nil {
		t.Fatal(err)
	}
	return out
}

// A job that begins with a checkpoint, or with what was exported from it, has its parameters, whoever keeps them.
func TestLoadTakesCheckpointsAndExports(t *testing.T) {
	t.Parallel()
	dir, want := kept(t, "kept")
	out := exported(t, dir, checkpoint.ExportOptions{Slots: true})
	bare := filepath.Join(t.TempDir(), "tensors")
	if err := os.Link(filepath.Join(out, checkpoint.TensorFile), bare); err != nil {
		t.Fatal(err)
	}
	l := scratch(t)
	for name, path := range map[string]string{"newest": dir, "by number": dir + "@1", "export": out, "tensors": bare} {
		m, err := worker.ReadModel(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if m.Bare() != (name == "tensors") || (name == "newest" || name == "by number") && (m.About.Model != "shared" || m.Step != 22) {
			t.Errorf("%s: bare %t, about %+v, step %d", name, m.Bare(), m.About, m.Step)
		}
		for servers, mode := range map[*ps.Local]worker.Mode{nil: worker.AllReduce, l: worker.PS} {
			for world := 1; world <= 2; world++ {
				cfg := worker.Config{Mode: mode, Job: fmt.Sprintf("%s %v %d", name, mode, world), World: world, Seed: 8}
				got := crew{cfg: cfg, servers: servers, train: func(ctx context.Context, c *worker.Client) error {
					if m.Bare() {
						if _, err := model.New(ctx, c, schema(), adam); err != nil {
							return err
						}
					}
					if _, err := c.Load(ctx, path); err != nil {
						return err
					}
					return fitted(adam, stream{}, worker.TrainOptions{})(ctx, c)
				}}.run(t)
				if got != want {
					t.Errorf("%s, %v, %d workers: digest %.8s, want %.8s", name, mode, world, got, want)
				}
			}
		}
	}
}

// What cannot be loaded is named.
func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	dir, _ := kept(t, "refused")
	weights := exported(t, dir, checkpoint.ExportOptions{Tables: []string{"user"}})
	if err := os.Remove(filepath.Join(weights, checkpoint.ExportFile)); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		empty:                      "there are none in it",
		filepath.Join(dir, "none"): "no such file",
		t.TempDir():                "no model (manifest.json), no checkpoint and no export",
		dir + "@77":                "there is no such checkpoint",
		weights:                    "is to be made before",
	} {
		c, err := worker.Connect(t.Context(), worker.Config{Mode: worker.AllReduce, Job: "refused"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Load(t.Context(), path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
		_, err = model.New(t.Context(), c, schema(), adam)
		if err == nil && (path == weights || path == empty) {
			_, err = c.Load(t.Context(), path)
			if !errors.Is(err, checkpoint.ErrTensor) || !strings.Contains(err.Error(), "it is missing") {
				t.Errorf("tensors of one table of many: %v", err)
			}
		}
		c.Abandon()
	}
}

// silent writes a checkpoint that no worker has brought anything to, of a job with the tables of one that there is.
func silent(t *testing.T, dir, job string, of *checkpoint.Manifest, id uint64) {
	t.Helper()
	s, err := checkpoint.Open(checkpoint.Config{Dir: dir, Owner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m := checkpoint.Manifest{ID: id, Job: job, HashSeed: of.HashSeed, Shards: of.Shards, Params: of.Params, Tables: of.Tables}
	for group := range uint32(of.Shards) {
		w, err := s.Begin(t.Context(), checkpoint.Spec{ID: id, Job: job, Group: group + 1, Shards: of.Shards, HashSeed: of.HashSeed, Tables: of.Tables})
		if err != nil {
			t.Fatal(err)
		}
		part, err := w.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m.Parts = append(m.Parts, part)
	}
	if _, err := s.Commit(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// A checkpoint that is made when all workers have ended is of the model that an older one of its job says.
func TestCheckpointsWithoutWorkersKnowTheirModel(t *testing.T) {
	t.Parallel()
	dir, _ := kept(t, "ended")
	of := newest(t, dir, "ended")
	silent(t, dir, "ended", of, of.ID+1)
	silent(t, dir, "ended", of, of.ID+2)
	silent(t, dir, "another", of, of.ID+3)
	fewer := *of
	fewer.Tables = of.Tables[1:]
	silent(t, dir, "ended", &fewer, of.ID+4)
	for after, model := range []string{"shared", "shared", "shared", "", ""} {
		id := of.ID + uint64(after)
		m, err := worker.ReadModel(t.Context(), fmt.Sprintf("%s@%d", dir, id))
		if err != nil {
			t.Fatal(err)
		}
		if m.About.Model != model || (m.About.Schema == nil) != (model == "") || m.Checkpoint() != id {
			t.Errorf("checkpoint %d, read as %d: about %+v, want model %q", id, m.Checkpoint(), m.About, model)
		}
	}
}
