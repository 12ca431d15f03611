package main

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"hcclps/worker/dataset"
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

func TestLabelsFollowTheirProbabilities(t *testing.T) {
	truth, err := newWorld(1).file(filepath.Join(t.TempDir(), "clicks.csv"), rand.New(rand.NewPCG(1, 9)), 50_000)
	if err != nil {
		t.Fatal(err)
	}
	if auc, cal := truth.AUC(), truth.Calibration(); auc < 0.80 || auc > 0.88 || cal < 0.97 || cal > 1.03 {
		t.Errorf("AUC of the true probabilities %.4f, their mean by that of the labels %.4f", auc, cal)
	}
}

// TestFilesHaveEverythingThatClickLogsHave reads a file back without being told
// its features.
func TestFilesHaveEverythingThatClickLogsHave(t *testing.T) {
	const rows = 20_000
	train, _, _, err := generate(t.TempDir(), 1, rows, 1)
	if err != nil {
		t.Fatal(err)
	}
	cfg := dataset.Config{Format: dataset.FormatCSV, Paths: []string{train}, Label: dataset.Label{Column: "click"}, Batch: rows}
	seen, err := dataset.Check(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if seen.Rows != rows || seen.Bad != 0 || seen.Label.Mean < 0.2 || seen.Label.Mean > 0.45 {
		t.Errorf("%d rows, %d of them malformed, %.3f clicks a row", seen.Rows, seen.Bad, seen.Label.Mean)
	}
	want := []struct {
		name     string
		kind     dataset.Kind
		distinct int     // ids or buckets, without that of a missing value
		missing  float64 // share of rows
		entries  float64 // a row
	}{
		{"user", dataset.KindID, users, 0, 1},
		{"item", dataset.KindID, items, 0, 1},
		{"category", dataset.KindID, categories, 0, 1},
		{"tags", dataset.KindIDs, tags, 0.2, 2},
		{"device", dataset.KindID, len(devices()) - 1, noDevice, 1},
		{"price", dataset.KindNumeric, 20, noPrice, 1},
	}
	if len(seen.Features) != len(want) {
		t.Fatalf("features %+v", seen.Features)
	}
	for i, w := range want {
		f := seen.Features[i]
		if f.Name != w.name || f.Kind != w.kind || f.Distinct != w.distinct {
			t.Errorf("feature %s of kind %s has %d values, want %+v", f.Name, f.Kind, f.Distinct, w)
		}
		if got := float64(f.Missing) / rows; got < w.missing-0.12 || got > w.missing+0.12 || (got > 0) != (w.missing > 0) {
			t.Errorf("feature %s: missing in %.3f of the rows, want about %.3f", f.Name, got, w.missing)
		}
		if got := float64(f.Entries) / rows; got < 0.6*w.entries || got > 1.4*w.entries {
			t.Errorf("feature %s: %.2f ids a row, want about %.2f", f.Name, got, w.entries)
		}
	}
	head := topShare(t, cfg, "user")
	if head < 0.3 || head > 0.9 {
		t.Errorf("a tenth of the users have %.2f of the rows: want many, as by Zipf's law", head)
	}
}

// topShare is the share of the rows that the first tenth of a feature's ids, by
// frequency, have.
func topShare(t *testing.T, cfg dataset.Config, feature string) float64 {
	t.Helper()
	r, err := dataset.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b dataset.Batch
	if _, err := r.Next(&b); err != nil {
		t.Fatal(err)
	}
	counts := map[uint64]int{}
	for _, k := range b.Column(feature).Keys {
		counts[k]++
	}
	sorted := slices.Sorted(maps.Values(counts))
	top := 0
	for _, n := range sorted[len(sorted)-len(sorted)/10:] {
		top += n
	}
	return float64(top) / float64(b.Rows)
}

func TestGenerateSaysWhatIsWrong(t *testing.T) {
	if _, _, _, err := generate(filepath.Join(t.TempDir(), "none"), 1, 1, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing folder: %v", err)
	}
	if _, _, _, err := generate(t.TempDir(), 1, 0, 1); err == nil {
		t.Error("no rows: accepted")
	}
}
