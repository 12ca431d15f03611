package metric_test

import (
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"hcclps/worker/metric"
)

// TestKnownValues reads the cases of testdata.
func TestKnownValues(t *testing.T) {
	text, err := os.ReadFile("testdata/binary.txt")
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	for line := range strings.Lines(string(text)) {
		parts := strings.Split(line, "|")
		if strings.HasPrefix(line, "#") || len(parts) != 3 {
			continue
		}
		cases++
		var b metric.Binary
		for row := range strings.FieldsSeq(parts[1]) {
			score, label, _ := strings.Cut(row, "/")
			b.Add(number(t, score), number(t, label))
		}
		want := strings.Fields(parts[2])
		for i, got := range []float64{b.AUC(), b.LogLoss(), b.Accuracy()} {
			w, err := strconv.ParseFloat(want[i], 64)
			if err != nil {
				t.Fatal(err)
			}
			if !near(got, w) {
				t.Errorf("%s: %s is %v, want %v", parts[0], []string{"AUC", "log loss", "accuracy"}[i], got, w)
			}
		}
	}
	if cases != 10 {
		t.Errorf("%d cases read", cases)
	}
}

func number(t *testing.T, s string) float32 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 32)
	if err != nil {
		t.Fatal(err)
	}
	return float32(v)
}

func near(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-14*max(1, math.Abs(b))
}

// pairs is the AUC by its definition.
func pairs(scores, labels []float32) float64 {
	won, all := 0.0, 0.0
	for i, p := range scores {
		for j, n := range scores {
			if labels[i] == 1 && labels[j] == 0 {
				all++
				switch {
				case p > n:
					won++
				case p == n:
					won += 0.5
				}
			}
		}
	}
	return won / all
}

func TestAUCEqualsPairs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		n, grid := 2+rng.IntN(200), float32(1+rng.IntN(50))
		scores, labels := make([]float32, n), make([]float32, n)
		var b metric.Binary
		for i := range n {
			scores[i] = float32(math.Round(float64(rng.Float32()*grid))) / grid
			labels[i] = float32(rng.IntN(2))
			if rng.IntN(20) == 0 {
				scores[i] *= -1e30 // a score of any scale, and a zero of either sign
			}
			b.Add(scores[i], labels[i])
		}
		if got, want := b.AUC(), pairs(scores, labels); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Fatalf("round %d of %d rows: %v, want %v", round, n, got, want)
		}
	}
}

func TestMergeIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var all metric.Binary
	parts := make([]metric.Binary, 5)
	for range 10_000 {
		score, label := rng.Float32(), float32(rng.IntN(2))
		all.Add(score, label)
		parts[rng.IntN(len(parts))].Add(score, label)
	}
	var merged metric.Binary
	for i := range parts {
		before := parts[i].LogLoss()
		merged.Merge(&parts[i])
		if parts[i].LogLoss() != before {
			t.Error("merging changed what was merged")
		}
	}
	if merged.Rows() != all.Rows() || merged.AUC() != all.AUC() || merged.LogLoss() != all.LogLoss() || merged.Accuracy() != all.Accuracy() {
		t.Errorf("merged %v %v %v, at once %v %v %v", merged.AUC(), merged.LogLoss(), merged.Accuracy(), all.AUC(), all.LogLoss(), all.Accuracy())
	}
	merged.Add(0, 1)
	if merged.AUC() == all.AUC() || merged.Rows() != all.Rows()+1 {
		t.Error("a row after the first AUC is not counted")
	}
}

func TestNaNAndNothing(t *testing.T) {
	var b metric.Binary
	if b.Rows() != 0 || !math.IsNaN(b.AUC()) || !math.IsNaN(b.LogLoss()) || !math.IsNaN(b.Accuracy()) {
		t.Error("no rows should give NaN")
	}
	b.Add(0.5, 1)
	b.Add(0.2, 0)
	b.Add(float32(math.NaN()), 1)
	if !math.IsNaN(b.AUC()) || !math.IsNaN(b.LogLoss()) {
		t.Errorf("a NaN score gives AUC %v, log loss %v", b.AUC(), b.LogLoss())
	}
}

func BenchmarkAUC(b *testing.B) {
	rng := rand.New(rand.NewPCG(5, 6))
	var all metric.Binary
	for range 100_000 {
		all.Add(rng.Float32(), float32(rng.IntN(2)))
	}
	for b.Loop() {
		all.Merge(&metric.Binary{}) // forgets that it is sorted
		if auc := all.AUC(); auc < 0.4 || auc > 0.6 {
			b.Fatal(auc)
		}
	}
}
