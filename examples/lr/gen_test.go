package main

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"hcclps/worker/dataset"
	"hcclps/worker/metric"
)

func TestGenerateIsAFunctionOfTheSeed(t *testing.T) {
	files := func(seed uint64, rows int) (train, test []byte, best float64) {
		a, b, best, err := generate(t.TempDir(), seed, rows, 500)
		if err != nil {
			t.Fatal(err)
		}
		for path, into := range map[string]*[]byte{a: &train, b: &test} {
			if *into, err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
		return train, test, best
	}
	train, test, best := files(1, 2000)
	sameTrain, sameTest, sameBest := files(1, 2000)
	if !bytes.Equal(train, sameTrain) || !bytes.Equal(test, sameTest) || best != sameBest {
		t.Error("the same seed gives other files")
	}
	longer, longerTest, _ := files(1, 2100)
	if !bytes.HasPrefix(longer, train) || !bytes.Equal(test, longerTest) {
		t.Error("more train rows change the others")
	}
	if other, _, _ := files(2, 2000); bytes.Equal(train, other) {
		t.Error("another seed gives the same file")
	}
}

// TestGeneratedDataIsLearnable trains plain logistic regression on the
// generated files: a model that is told nothing must come near bestAUC, and none
// may pass it by more than chance.
func TestGeneratedDataIsLearnable(t *testing.T) {
	train, test, best, err := generate(t.TempDir(), 1, 50_000, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	weights, squares := make([]float64, ids+2), make([]float64, ids+2)
	predict := func(b *dataset.Batch, i int) float64 {
		z := weights[ids+1]
		for _, k := range keys(b, i) {
			z += weights[k]
		}
		return 1 / (1 + math.Exp(-z))
	}
	step := func(key uint64, g float64) {
		squares[key] += g * g
		weights[key] -= 0.1 * g / math.Sqrt(squares[key]+1e-8)
	}
	entries, rows := 0, 0
	for range 3 {
		read(t, train, func(b *dataset.Batch) {
			for i := range b.Rows {
				g := predict(b, i) - float64(b.Label[i])
				for _, k := range keys(b, i) {
					step(k, g)
				}
				step(ids+1, g)
			}
			rows += b.Rows
			entries += len(b.Column(dataset.Features).Keys)
		})
	}
	var judged metric.Binary
	read(t, test, func(b *dataset.Batch) {
		for i := range b.Rows {
			judged.Add(float32(predict(b, i)), b.Label[i])
		}
	})
	auc := judged.AUC()
	t.Logf("best AUC %.4f, trained %.4f, log loss %.4f, %.1f entries a row", best, auc, judged.LogLoss(), float64(entries)/float64(rows))
	if rows != 150_000 || judged.Rows() != 10_000 || entries < 13*rows || entries > 15*rows {
		t.Errorf("%d rows trained, %d judged, %d entries", rows, judged.Rows(), entries)
	}
	if best < 0.75 || best > 0.95 || auc < best-0.03 || auc > best+0.005 {
		t.Errorf("best AUC %.4f, trained %.4f", best, auc)
	}
}

// read gives each batch of one epoch of a file to use.
// keys is the features of row i.
func keys(b *dataset.Batch, i int) []uint64 {
	bags := b.Column(dataset.Features)
	return bags.Keys[bags.Offsets[i]:bags.Offsets[i+1]]
}

func read(t *testing.T, path string, use func(*dataset.Batch)) {
	t.Helper()
	r, err := dataset.Open(dataset.Config{Paths: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	var b dataset.Batch
	for {
		more, err := r.Next(&b)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			break
		}
		use(&b)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestGenerateSaysWhatIsWrong(t *testing.T) {
	if _, _, _, err := generate(filepath.Join(t.TempDir(), "none"), 1, 1, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing folder: %v", err)
	}
	if _, _, _, err := generate(t.TempDir(), 1, 0, 1); err == nil {
		t.Error("no rows: accepted")
	}
}
