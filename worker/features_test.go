package worker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hcclps/worker"
	"hcclps/worker/dataset"
)

// fields is a model over several features, of which two share a table, with bags
// of its own besides.
type fields struct {
	shared, own worker.Embedding
	scale       worker.Dense
	ask         string // another feature that the model asks for
}

func newFields(t *testing.T, c *worker.Client) *fields {
	t.Helper()
	opt := worker.Optimizer{Name: "adagrad"}
	var m fields
	var err error
	if m.shared, err = c.Embedding(t.Context(), "shared", worker.EmbeddingSpec{Dim: 2, Optimizer: opt}); err != nil {
		t.Fatal(err)
	}
	if m.own, err = c.Embedding(t.Context(), "own", worker.EmbeddingSpec{Dim: 2, Optimizer: opt}); err != nil {
		t.Fatal(err)
	}
	if m.scale, err = c.Dense(t.Context(), "scale", []int{1}, worker.DenseSpec{Optimizer: opt}); err != nil {
		t.Fatal(err)
	}
	return &m
}

// Step gives gradients that depend on what was read, so that a wrong row shows.
func (m *fields) Step(s *worker.Step) error {
	own := worker.Ragged{Offsets: []int32{0}}
	for i, x := range s.Numeric("n") {
		own.Keys, own.Weights = append(own.Keys, uint64(i%3)), append(own.Weights, x)
		own.Offsets = append(own.Offsets, int32(len(own.Keys)))
	}
	if m.ask != "" {
		s.Ragged(m.ask)
	}
	uses := []struct {
		table worker.Embedding
		bags  worker.Ragged
	}{{m.shared, s.Ragged("u")}, {m.shared, s.Ragged("v")}, {m.own, own}}
	var scale float32
	for _, use := range uses {
		rows, err := s.Lookup(use.table, use.bags, worker.Sum)
		if err != nil {
			return err
		}
		grad := make([]float32, len(rows.Data))
		for i, x := range rows.Data {
			grad[i] = s.Label()[i/2] - x
			scale += x
		}
		if err := s.Grad(rows, grad); err != nil {
			return err
		}
	}
	v, err := s.Value(m.scale)
	if err != nil {
		return err
	}
	return s.Grad(v, []float32{scale})
}

func TestManyFeaturesAreReadAhead(t *testing.T) {
	t.Parallel()
	l := cluster(t)
	var text strings.Builder
	text.WriteString("label,u,v,n\n")
	for i := range 400 {
		fmt.Fprintf(&text, "%d,%d,%d|%d,%d.5\n", i%2, i%17, i%5, i%11, i%4)
	}
	path := filepath.Join(t.TempDir(), "data.csv")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	schema, err := dataset.ParseSchema("f", []byte("features:\n  - {name: u, kind: id, table: t}\n  - {name: v, kind: ids, table: t}\n  - {name: n, kind: numeric, transform: raw}\n"))
	if err != nil {
		t.Fatal(err)
	}
	run := func(job, ask string, opt worker.TrainOptions) (string, error) {
		src, err := dataset.Open(dataset.Config{Format: "csv", Paths: []string{path}, Schema: schema, Batch: 32})
		if err != nil {
			t.Fatal(err)
		}
		c := connect(t, l, worker.Config{Job: job})
		m := newFields(t, c)
		m.ask = ask
		if _, err := c.Train(t.Context(), m, src, opt); err != nil {
			c.Abandon()
			return "", err
		}
		digest, err := c.Digest(t.Context())
		end(t, c)
		return digest, err
	}
	ahead, err := run("ahead", "", worker.TrainOptions{Epochs: 3})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := run("plain", "", worker.TrainOptions{Epochs: 3, NoPrefetch: true})
	if err != nil || plain != ahead {
		t.Errorf("digest %s read ahead, %s not: %v", ahead, plain, err)
	}
	for _, absent := range []string{"w", "n"} {
		if _, err := run("absent "+absent, absent, worker.TrainOptions{}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("no sparse feature %q", absent)) {
			t.Errorf("feature %q: %v", absent, err)
		}
	}
}
