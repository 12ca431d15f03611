package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The published table of 8 cards: each algorithm is fitted within a quarter, and the fits choose the fastest at every size.
func TestTheModelIsFittedToThePublishedTable(t *testing.T) {
	args := []string{"topo", "--calibrate", filepath.Join("testdata", "eight-cards.csv"), "--ranks", "8"}
	code, stdout, stderr := command(t.Context(), append(args, "--json")...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	var f fitted
	if err := json.Unmarshal([]byte(stdout), &f); err != nil {
		t.Fatal(err)
	}
	if len(f.Cells) != 6 || len(f.Each) != 3 {
		t.Fatalf("%d sizes of %d algorithms, want 6 of 3", len(f.Cells), len(f.Each))
	}
	for _, l := range f.Each {
		if l.Off > 0.15 || l.Off >= f.One.Off {
			t.Errorf("%s is off by %.2f, all together by %.2f", l.Algorithm, l.Off, f.One.Off)
		}
	}
	for _, c := range f.Cells {
		if c.Chosen != c.Fastest {
			t.Errorf("%d bytes: %s is chosen, %s is the fastest", c.Size, c.Chosen, c.Fastest)
		}
		for j, ms := range c.Millis {
			if off := c.Each[j]/ms - 1; off > 0.25 || off < -0.25 {
				t.Errorf("%d bytes by %s: %.3g ms predicted, %.3g published", c.Size, c.Algo[j], c.Each[j], ms)
			}
		}
	}
	code, stdout, stderr = command(t.Context(), args...)
	if code != 0 || strings.Count(stdout, "\n") != 4+2+6 || !strings.Contains(stdout, "118.4") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
}

func TestTablesThatAreNone(t *testing.T) {
	for text, says := range map[string]string{
		"":                         "head",
		"bytes,ring\n1MB,1\n":      "head",
		"size,ring\n":              "head",
		"size,rong\n1MB,1\n":       "rong",
		"size,pairwise\n1MB,1\n":   "pairwise",
		"size,ring\nlarge,1\n":     "line 2",
		"size,ring\n0,1\n":         "line 2",
		"size,ring\n1MB,0\n":       "milliseconds",
		"size,ring\n1MB,fast\n":    "milliseconds",
		"size,ring\n1MB,1,2\n":     "fields",
		"size,ring\n1MB,1\n2MB,\n": "line 3",
	} {
		file := filepath.Join(t.TempDir(), "table.csv")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := command(t.Context(), "topo", "--calibrate", file); code != 1 || !strings.Contains(stderr, says) {
			t.Errorf("%q: exit %d, %q: want 1 and %q", text, code, stderr, says)
		}
	}
	if code, _, stderr := command(t.Context(), "topo", "--calibrate", "there is none"); code != 1 || !strings.Contains(stderr, "there is none") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if code, _, stderr := command(t.Context(), "topo", "--ranks", "1"); code != 2 || !strings.Contains(stderr, "--ranks") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func FuzzPublishedTables(f *testing.F) {
	f.Add("size,ring,mesh\n1MB,0.08,0.12\n4GiB,1,2e3\n")
	f.Add("size,H-D_R\n# nothing\n1,1\n")
	f.Add("size,tree\n1.5KB,1e-300\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := readPublished(strings.NewReader(text))
		if err != nil {
			return
		}
		if len(table.sizes) == 0 || len(table.sizes) != len(table.millis) || len(table.algorithms) == 0 {
			t.Fatalf("%+v", table)
		}
		if fit, err := newFitted(table, 8); err == nil {
			var b strings.Builder
			if err := fit.write(&b); err != nil {
				t.Fatal(err)
			}
		}
	})
}
