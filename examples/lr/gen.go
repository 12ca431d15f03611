package main

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"hcclps/worker/metric"
)

// The generated world: rows of 8 to 20 of 5,000 features, few of which are in
// most rows and most in few, as in click data.
const (
	ids       = 5000
	fewest    = 8
	most      = 20
	skew      = 1.2  // exponent of the Zipf law of the ids
	spread    = 0.55 // standard deviation of the true weights
	intercept = -0.4
)

// Which random stream a draw belongs to, so that one does not shift another.
const (
	streamWeights = iota + 1
	streamTrain
	streamTest
)

// generate writes train.libsvm and test.libsvm into dir: labels drawn from a
// logistic model whose weights are a function of seed. bestAUC is the AUC on the
// test file of the model the labels were drawn from: no trained one can expect
// more. The files are a function of the other arguments.
func generate(dir string, seed uint64, rows, testRows int) (train, test string, bestAUC float64, err error) {
	if rows < 1 || testRows < 1 {
		return "", "", 0, fmt.Errorf("generate data: %d train and %d test rows: want 1 or more of each", rows, testRows)
	}
	weights := make([]float64, ids)
	rng := rand.New(rand.NewPCG(seed, streamWeights))
	for i := range weights {
		weights[i] = spread * rng.NormFloat64()
	}
	train, test = filepath.Join(dir, "train.libsvm"), filepath.Join(dir, "test.libsvm")
	if _, err = writeRows(train, rand.New(rand.NewPCG(seed, streamTrain)), weights, rows); err != nil {
		return "", "", 0, err
	}
	truth, err := writeRows(test, rand.New(rand.NewPCG(seed, streamTest)), weights, testRows)
	if err != nil {
		return "", "", 0, err
	}
	return train, test, truth.AUC(), nil
}

// writeRows writes a file of n rows and judges the model behind it by them.
func writeRows(path string, rng *rand.Rand, weights []float64, n int) (truth metric.Binary, err error) {
	f, err := os.Create(path)
	if err != nil {
		return truth, fmt.Errorf("create data file: %w", err)
	}
	defer func() {
		if cerr := f.Close(); cerr != nil {
			err = errors.Join(err, fmt.Errorf("close data file: %w", cerr))
		}
	}()
	w := bufio.NewWriter(f)
	zipf := rand.NewZipf(rng, skew, 4, ids-1)
	var row []uint64
	for range n {
		row = drawRow(row[:0], rng, zipf)
		z := intercept
		for _, id := range row {
			z += weights[id]
		}
		p := 1 / (1 + math.Exp(-z))
		label, text := float32(0), "-1"
		if rng.Float64() < p {
			label, text = 1, "+1"
		}
		truth.Add(float32(p), label)
		w.WriteString(text)
		for _, id := range row {
			fmt.Fprintf(w, " %d:1", id+1)
		}
		w.WriteByte('\n')
	}
	if err := w.Flush(); err != nil {
		return truth, fmt.Errorf("write data file %s: %w", path, err)
	}
	return truth, nil
}

// drawRow appends the distinct ids of a row, rising.
func drawRow(row []uint64, rng *rand.Rand, zipf *rand.Zipf) []uint64 {
	n := fewest + rng.IntN(most-fewest+1)
	for len(row) < n {
		if id := zipf.Uint64(); !slices.Contains(row, id) {
			row = append(row, id)
		}
	}
	slices.Sort(row)
	return row
}
