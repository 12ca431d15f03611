package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hcclps/worker"
	"hcclps/worker/dataset"
)

// randomBatch has the features of sharedSchema, so that all kinds of bags come
// up; rows from on of a batch of any size are the same.
func randomBatch(from, rows int) dataset.Batch {
	rng := rand.New(rand.NewPCG(3, 4))
	b := dataset.Batch{Rows: rows}
	ids := map[string][][]uint64{}
	numbers := map[string][]float32{}
	for i := range from + rows {
		label, user, item := float32(rng.IntN(2)), rng.Uint64N(20), rng.Uint64N(30)
		row := map[string][]uint64{"user": {user}, "item": {item}, "user-item": {1000*user + item}}
		for range rng.IntN(4) {
			row["seen"] = append(row["seen"], rng.Uint64N(30))
			row["tags"] = append(row["tags"], rng.Uint64N(9))
		}
		age, price := float32(rng.NormFloat64()), float32(rng.NormFloat64())
		if i < from {
			continue
		}
		b.Label, b.Weight = append(b.Label, label), append(b.Weight, 1)
		for _, name := range []string{"user", "item", "user-item", "seen", "tags"} {
			ids[name] = append(ids[name], row[name])
		}
		numbers["age"], numbers["price"] = append(numbers["age"], age), append(numbers["price"], price)
	}
	for _, name := range []string{"user", "item", "user-item", "seen", "tags"} {
		b.Features = append(b.Features, bags(name, ids[name]...))
	}
	for _, name := range []string{"age", "price"} {
		b.Features = append(b.Features, dataset.Column{Name: name, Numeric: numbers[name]})
	}
	return b
}

func TestAccumulatedBatchesGiveTheBitsOfOne(t *testing.T) {
	t.Parallel()
	l := cluster(t)
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schema := sharedSchema()
			if name == NameMF {
				schema = pairSchema()
			}
			digest := func(job string, accumulate int, src *batches) string {
				c := connect(t, l, worker.Config{Job: name + job})
				sgd := worker.Optimizer{Name: "sgd", Params: map[string]float64{"lr": 0.5}}
				m, err := New(t.Context(), c, schema, Options{Model: name, Optimizer: sgd})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.Train(t.Context(), m, src, worker.TrainOptions{Epochs: 3, Accumulate: accumulate}); err != nil {
					t.Fatal(err)
				}
				d, err := c.Digest(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			whole := &batches{all: []dataset.Batch{randomBatch(0, 256), randomBatch(256, 256)}}
			cut := &batches{}
			for at := 0; at < 512; at += 64 {
				cut.all = append(cut.all, randomBatch(at, 64))
			}
			if a, b := digest("whole", 1, whole), digest("cut", 4, cut); a != b {
				t.Errorf("digest %s of batches of 256 rows, %s of four times 64", a, b)
			}
		})
	}
}

func TestWhatNewRefuses(t *testing.T) {
	t.Parallel()
	c := connect(t, cluster(t), worker.Config{Job: "refused"})
	schema := func(change func(f []dataset.Feature)) *dataset.Schema {
		s := sharedSchema()
		change(s.Features)
		return s
	}
	same := func([]dataset.Feature) {}
	for _, bad := range []struct {
		o      Options
		schema *dataset.Schema
		want   string
	}{
		{Options{Model: "deep-fm"}, nil, `nearest is "deepfm"`},
		{Options{Model: "FFM"}, nil, `nearest is "fm"`},
		{Options{Model: "tower"}, nil, `nearest is "twotower"`},
		{Options{}, nil, `unknown name ""`},
		{Options{Model: NameMF}, schema(same), `"user" "item" "seen"`},
		{Options{Model: NameMF}, nil, "one sparse feature of the user"},
		{Options{Model: NameDLRM}, nil, "no pair"},
		{Options{Model: NameTwoTower}, nil, "item"},
		{Options{Model: NameTwoTower, User: []string{"usr"}}, schema(same), `user feature "usr"`},
		{Options{Model: NameFM}, schema(func(f []dataset.Feature) { f[1].Dim, f[3].Dim = 4, 8 }), `feature "item": dim 8`},
		{Options{Model: NameDeepFM}, schema(func(f []dataset.Feature) { f[4].Pooling = "none" }), `pooling "none"`},
		{Options{Model: NameWideDeep, Hidden: []int{8, 0}}, schema(same), "a layer of 8 inputs and 0 units"},
		{Options{Model: NameLR, Optimizer: worker.Optimizer{Name: "sgd", Params: map[string]float64{"speed": 1}}}, nil, "speed"},
	} {
		if _, err := New(t.Context(), c, bad.schema, bad.o); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%+v: error %v, want one with %q", bad.o, err, bad.want)
		}
	}
}

// The label says whether two ids are of different kinds: pairs say all, each id
// alone nothing.
func TestPairsAreLearned(t *testing.T) {
	t.Parallel()
	l := cluster(t)
	for _, format := range []string{dataset.FormatLibsvm, dataset.FormatLibffm} {
		var text strings.Builder
		for i := range 4096 {
			a, b := i%7, i/7%5
			line := fmt.Sprintf("%d %d:1 %d:1\n", (a+b)%2, 1+a, 10+b)
			if format == dataset.FormatLibffm {
				line = fmt.Sprintf("%d 0:%d:1 1:%d:1\n", (a+b)%2, 1+a, 10+b)
			}
			text.WriteString(line)
		}
		file := filepath.Join(t.TempDir(), format)
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		data := dataset.Config{Format: format, Paths: []string{file}}
		for _, name := range []string{NameLR, NameFM, NameDeepFM} {
			got, err := trial{model: name, train: data, test: data}.work(t.Context(), l, worker.Config{Job: name + format})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s, %s: AUC %.3f", format, name, got.auc)
			if (got.auc > 0.95) != (name != NameLR) {
				t.Errorf("%s, %s: AUC %.3f", format, name, got.auc)
			}
		}
	}
}

func TestCountsAreThePooling(t *testing.T) {
	t.Parallel()
	b := worker.Ragged{Offsets: []int32{0, 2, 2, 3, 5}, Keys: make([]uint64, 5), Weights: []float32{1, 3, -2, 1, -1}}
	for pool, want := range map[worker.Pool][]float32{
		worker.Sum:  {1, 3, -2, 1, -1},
		worker.Mean: {0.25, 0.75, 1, 0, 0},
		worker.Sqrt: {float32(1 / math.Sqrt(10)), 3 * float32(1/math.Sqrt(10)), -1, float32(math.Sqrt(0.5)), -float32(math.Sqrt(0.5))},
	} {
		if got := counts(nil, b, pool); !slices.Equal(got, want) {
			t.Errorf("pooling %d: %v, want %v", pool, got, want)
		}
	}
}

// Features may have vectors of their own lengths where they only meet in a layer.
func TestDimsOfTheSchema(t *testing.T) {
	t.Parallel()
	c := connect(t, cluster(t), worker.Config{Job: "dims"})
	s := sharedSchema()
	s.Features[1].Dim, s.Features[3].Dim, s.Features[5].Dim = 4, 8, 2
	m, err := NewWideDeep(t.Context(), c, s, Options{Dim: 3})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]uint32{"user": 5, "item": 9, "seen": 9, "tags": 3, "user-item": 1}
	for _, f := range m.fields.fields {
		if f.rows.Dim != want[f.name] {
			t.Errorf("%s: rows of %d floats, want %d", f.name, f.rows.Dim, want[f.name])
		}
	}
	if m.width != 4+8+8+2+2 {
		t.Errorf("deep input of %d floats, want 24", m.width)
	}
}
