package dataset_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"hcclps/worker/dataset"
)

func TestParseLabel(t *testing.T) {
	for text, want := range map[string]string{
		"": "{   false}", "y": "{y   false}", "y>=8": "{y 8  false}", "y>=-0.5": "{y -0.5  false}", "c14=>50K,>50K.": "{c14  >50K;>50K. false}", ">=3": "{ 3  false}",
	} {
		l, err := dataset.ParseLabel(text)
		at := ""
		if l.AtLeast != nil {
			at = fmt.Sprint(*l.AtLeast)
		}
		if got := fmt.Sprintf("{%s %s %s %v}", l.Column, at, strings.Join(l.OneOf, ";"), l.Number); got != want || err != nil {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
		if l.String() != text {
			t.Errorf("%q is written as %q", text, l)
		}
	}
	for _, text := range []string{"y>=", "y>=x", "y=", "y=a,,b", "y>=nan"} {
		if _, err := dataset.ParseLabel(text); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", text)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestLabelRules(t *testing.T) {
	path := file(t, "f", "y,a\n7,1\n8.5,2\n-1,3\n")
	for rule, want := range map[string][]float32{"y>=8": {0, 1, 0}, "y=7,-1": {1, 0, 1}} {
		b := columns(t, dataset.Config{Format: "csv", Paths: []string{path}, Label: label(t, rule)}, "")
		if !slices.Equal(b.Label, want) || len(b.Features) != 1 {
			t.Errorf("%s: labels %v, features %v", rule, b.Label, b.Features)
		}
	}
	b := columns(t, dataset.Config{Format: "csv", Paths: []string{path}, Label: dataset.Label{Column: "y", Number: true}}, "")
	if !slices.Equal(b.Label, []float32{7, 8.5, -1}) {
		t.Errorf("labels %v", b.Label)
	}
	svm := columns(t, dataset.Config{Paths: []string{file(t, "svm", "7 1:1\n2 1:1\n")}, Label: label(t, ">=3")}, "")
	if !slices.Equal(svm.Label, []float32{1, 0}) {
		t.Errorf("libsvm labels %v", svm.Label)
	}
}

func TestSchemaFaults(t *testing.T) {
	cases := map[string]string{
		"":                                      "empty",
		"features: 3\n":                         "line 1",
		"feature: []\n":                         "field feature not found",
		"features: [\n":                         "features.yaml",
		"--- 1\n--- 2\n":                        "features.yaml",
		"features: []\n---\nfeatures: []\n":     "one document",
		"features:\n  - {kind: id}\n":           "features.yaml:2:5: feature \"\": no name",
		"features:\n  - {name: a}\n":            "no kind",
		"features:\n  - {name: a, kind: idd}\n": `kind "idd": want one of id, ids`,
		"features:\n  - {name: a, kind: id}\n  - {name: a, kind: id}\n":                                     "features.yaml:3:5: feature \"a\": the name is there twice",
		"features:\n  - {name: a, kind: id, separator: x}\n":                                                "separator means nothing for kind id",
		"features:\n  - {name: a, kind: numeric, transform: log, buckets: 3}\n":                             "buckets means nothing",
		"features:\n  - {name: a, kind: numeric, transform: cube}\n":                                        `transform "cube"`,
		"features:\n  - {name: a, kind: numeric, transform: edges}\n":                                       "no edges",
		"features:\n  - {name: a, kind: numeric, transform: edges, edges: [2, 1]}\n":                        "rising",
		"features:\n  - {name: a, kind: numeric, transform: edges, edges: [.nan]}\n":                        "rising",
		"features:\n  - {name: a, kind: numeric, buckets: 1}\n":                                             "out of range",
		"features:\n  - {name: l, kind: label, missing: error}\n":                                           "missing means nothing for kind label",
		"features:\n  - {name: l, kind: label, at_least: .inf}\n":                                           "finite",
		"features:\n  - {name: a, kind: numeric, transform: edges, edges: [1, .inf]}\n":                     "rising",
		"features:\n  - {name: a, kind: numeric, transform: raw, dim: 3}\n":                                 "dim means nothing",
		"features:\n  - {name: a, kind: id, dim: -1}\n":                                                     "out of range",
		"features:\n  - {name: a, kind: id, pooling: max}\n":                                                `pooling "max"`,
		"features:\n  - {name: a, kind: id, missing: zero}\n":                                               `missing "zero"`,
		"features:\n  - {name: a, kind: numeric, transform: raw, missing: own}\n":                           `missing "own"`,
		"features:\n  - {name: a, kind: id, match: '('}\n":                                                  "match",
		"features:\n  - {name: a, kind: cross, of: [b]}\n":                                                  "cross of 1 features",
		"features:\n  - {name: a, kind: cross, of: [b, c]}\n":                                               "comes before",
		"features:\n  - {name: a, kind: label}\n  - {name: b, kind: label}\n":                               "2 labels",
		"features:\n  - {name: a, kind: label, number: true, at_least: 3}\n":                                "one of at_least",
		"features:\n  - {name: a, kind: id, table: t, dim: 4}\n  - {name: b, kind: id, table: t, dim: 8}\n": `dim 8 of table "t", which has dim 4 in feature "a"`,
		"hash_bits: 65\nfeatures: []\n":                                                                     "hash_bits 65",
		"features: []\njoin:\n  - {key: a}\n":                                                               "join 0: no file",
		"features: []\njoin:\n  - {file: x}\n":                                                              "join x: no key",
		"features: []\njoin:\n  - {file: x, key: a, format: libsvm}":                                        `format "libsvm"`,
	}
	for text, says := range cases {
		_, err := dataset.ParseSchema("features.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "features.yaml") {
			t.Errorf("%q: error %v, want it to say %q", text, err, says)
		}
	}
	if _, err := dataset.ReadSchema(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("missing file: %v", err)
	}
}

func TestSparseSchemas(t *testing.T) {
	svm, ffm := file(t, "svm", "1 5:1\n0 6:2\n"), file(t, "ffm", "1 0:5:1 2:7:2\n0 2:6:1 0:1:1 2:8:3\n")
	b := columns(t, dataset.Config{Paths: []string{svm}}, "features:\n  - {name: words, column: features, kind: ids, table: w, dim: 4}\n")
	if !slices.Equal(b.Column("words").Keys, []uint64{5, 6}) {
		t.Errorf("%+v", b)
	}
	b = columns(t, dataset.Config{Format: "libffm", Paths: []string{ffm}}, "")
	if len(b.Features) != 3 || !slices.Equal(b.Column("f0").Keys, []uint64{5, 1}) || !slices.Equal(b.Column("f2").Keys, []uint64{7, 6, 8}) || !slices.Equal(b.Column("f2").Offsets, []int32{0, 1, 3}) || len(b.Column("f1").Keys) != 0 {
		t.Errorf("%+v", b)
	}
	b = columns(t, dataset.Config{Format: "libffm", Paths: []string{ffm}}, "features:\n  - {name: two, column: '2', kind: ids}\n")
	if len(b.Features) != 1 || !slices.Equal(b.Column("two").Weights, []float32{2, 1, 3}) {
		t.Errorf("%+v", b)
	}
	for features, says := range map[string]string{
		"features:\n  - {name: a, kind: ids}\n":                                                               `format libsvm has only "features"`,
		"features:\n  - {name: features, kind: id}\n":                                                         "features of format libsvm are ids: of columns",
		"features: []\njoin:\n  - {file: x, key: y}\n":                                                        "no columns to join",
		"features:\n  - {name: a, kind: ids, column: features}\n  - {name: b, kind: ids, column: features}\n": "one feature, not 2",
	} {
		if _, err := dataset.Open(dataset.Config{Paths: []string{svm}, Schema: schema(t, features)}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", features, err)
		}
	}
	if _, err := dataset.Open(dataset.Config{Format: "libffm", Paths: []string{ffm}, Schema: schema(t, "features:\n  - {name: a, kind: ids}\n")}); err == nil || !strings.Contains(err.Error(), "number of a field") {
		t.Error(err)
	}
}

// TestSchemaTravelsWithTheModel: what JSON carries makes another Reader see the
// same ids, also in data that would fit otherwise.
func TestSchemaTravelsWithTheModel(t *testing.T) {
	var train strings.Builder
	train.WriteString("label,n,s,g\n")
	for i := range 500 {
		fmt.Fprintf(&train, "%d,%v,%v,t%d|u\n", i%2, float64(i)/7, i*i, i%5)
	}
	r := open(t, dataset.Config{Format: "csv", Paths: []string{file(t, "train", train.String())}, Schema: schema(t, `features:
  - {name: n, kind: numeric}
  - {name: s, kind: numeric, transform: standard}
  - {name: g, kind: ids}
  - {name: x, kind: cross, of: [n, g]}
`), HashBits: 20})
	text, err := json.Marshal(r.Schema())
	if err != nil {
		t.Fatal(err)
	}
	var stored dataset.Schema
	if err := json.Unmarshal(text, &stored); err != nil {
		t.Fatal(err)
	}
	held := file(t, "held", "x,g,s,n,label\nz,t1|v,9,3.25,1\nz,,,,0\n")
	read := func(s *dataset.Schema) *dataset.Batch {
		b := &dataset.Batch{}
		next(t, open(t, dataset.Config{Format: "csv", Paths: []string{held}, Schema: s, InOrder: true}), b)
		return b
	}
	if a, b := read(r.Schema()), read(&stored); !reflect.DeepEqual(a, b) || a.Column("n").Keys[0] != 0 && len(a.Column("x").Keys) != 2 {
		t.Errorf("%+v\n%+v", a, b)
	}
	if s := read(&stored).Column("s").Numeric; s[0] > -1 || s[1] != 0 {
		t.Errorf("standardized %v", s)
	}
	want := []dataset.Table{{Name: "n", Features: []string{"n"}}, {Name: "g", Features: []string{"g"}}, {Name: "x", Features: []string{"x"}}}
	if got := stored.Tables(); !reflect.DeepEqual(got, want) {
		t.Errorf("tables %v", got)
	}
}

func TestNoLabel(t *testing.T) {
	r := open(t, dataset.Config{Format: "csv", Paths: []string{file(t, "f", "label,a\n1,2\n0,3\n")}})
	unlabelled := file(t, "g", "a\n2\n3\n")
	b := &dataset.Batch{}
	next(t, open(t, dataset.Config{Format: "csv", Paths: []string{unlabelled}, Schema: r.Schema(), NoLabel: true, InOrder: true}), b)
	if !slices.Equal(b.Label, []float32{0, 0}) || !slices.Equal(b.Column("a").Keys, []uint64{0, 1}) {
		t.Errorf("%+v", b)
	}
	if _, err := dataset.Open(dataset.Config{Format: "csv", Paths: []string{unlabelled}, NoLabel: true}); err == nil || !strings.Contains(err.Error(), "needs a schema") {
		t.Error(err)
	}
}

// TestSeekOverColumns: a cursor means the same rows whatever was read before.
func TestSeekOverColumns(t *testing.T) {
	var text strings.Builder
	text.WriteString("label,a,b\n")
	for i := range dataset.WindowRows + 1000 {
		fmt.Fprintf(&text, "%d,%d,\"t%d\"\n", i%2, i, i%100)
	}
	cfg := dataset.Config{
		Format: "csv", Paths: []string{file(t, "f.gz", zip(t, text.String()))}, Batch: 500, Seed: 4,
		Schema: schema(t, "features:\n  - {name: a, kind: id}\n  - {name: b, kind: id}\n"),
	}
	straight, jumping := open(t, cfg), open(t, cfg)
	var all [][]uint64
	var b dataset.Batch
	for next(t, straight, &b) {
		all = append(all, slices.Clone(b.Column("a").Keys))
	}
	for _, at := range []int{130, 3, 132, 0, 133} {
		if err := jumping.Seek(0, at); err != nil {
			t.Fatal(err)
		}
		if next(t, jumping, &b); !slices.Equal(b.Column("a").Keys, all[at]) {
			t.Errorf("batch %d differs", at)
		}
	}
	if slices.IsSorted(all[0]) || len(all) != 134 {
		t.Errorf("%d batches, the first %v", len(all), all[0][:10])
	}
}

func TestCheck(t *testing.T) {
	var text strings.Builder
	text.WriteString("label,id,tags,n\n")
	for i := range 2000 {
		fmt.Fprintf(&text, "%d,t%d,%s,%s\n", i%2, i%1500, []string{"a|b", "", "c"}[i%3], []string{"", "2.5"}[i%2])
	}
	text.WriteString("1,cut\n")
	features := "features:\n  - {name: id, kind: id}\n  - {name: tags, kind: ids}\n  - {name: n, kind: numeric, transform: raw}\n  - {name: x, kind: cross, of: [id, tags]}\n"
	cfg := dataset.Config{Format: "csv", Paths: []string{file(t, "f", text.String())}, Schema: schema(t, features)}
	rep, err := dataset.Check(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Rows != 2000 || rep.Bad != 1 || rep.FirstBad == nil || rep.Label.Mean != 0.5 || rep.Label.Max != 1 {
		t.Errorf("%+v", rep)
	}
	id, tags, n, x := rep.Features[0], rep.Features[1], rep.Features[2], rep.Features[3]
	if id.Missing != 0 || id.Distinct != 1500 || id.Collisions != 0 || id.Entries != 2000 || id.Estimated {
		t.Errorf("%+v", id)
	}
	if tags.Missing != 667 || tags.Distinct != 3 || tags.Entries != 2*667+666 || x.Missing != 667 {
		t.Errorf("%+v %+v", tags, x)
	}
	if n.Missing != 1000 || n.Numbers != (dataset.Summary{Count: 1000, Min: 2.5, Max: 2.5, Mean: 2.5}) {
		t.Errorf("%+v", n)
	}
	cfg.HashBits = 10
	if rep, err = dataset.Check(cfg); err != nil {
		t.Fatal(err)
	}
	// 1500 values in 1024 places: about 1024 x (1 - e^-1.465) = 787 are taken.
	if id := rep.Features[0]; id.Distinct+id.Collisions != 1500 || id.Distinct < 740 || id.Distinct > 830 {
		t.Errorf("with 10 bits: %+v", id)
	}
	sparse, err := dataset.Check(dataset.Config{Paths: []string{file(t, "svm", "1 5:1 7:1\n0\n2 1:1\n")}})
	if err != nil || sparse.Bad != 1 || sparse.Rows != 2 || sparse.Features[0].Missing != 1 || sparse.Features[0].Distinct != 2 {
		t.Errorf("%+v, %v", sparse, err)
	}
}

func TestCheckEstimates(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 600,000 rows")
	}
	var text strings.Builder
	text.WriteString("label,id\n")
	for i := range 600_000 {
		fmt.Fprintf(&text, "1,t%d\n", i)
	}
	rep, err := dataset.Check(dataset.Config{Format: "csv", Paths: []string{file(t, "f", text.String())}})
	if err != nil {
		t.Fatal(err)
	}
	if id := rep.Features[0]; !id.Estimated || id.Distinct < 580_000 || id.Distinct > 620_000 || id.Collisions != 0 {
		t.Errorf("%+v", id)
	}
}

func FuzzParseSchema(f *testing.F) {
	f.Add([]byte("columns: [a, b]\nhash_bits: 20\nfeatures:\n  - {name: a, kind: id, dim: 8}\n  - {name: n, kind: numeric, transform: edges, edges: [1, 2.5]}\n  - {name: x, kind: cross, of: [a, n]}\n"))
	f.Add([]byte("features:\n  - {name: l, kind: label, at_least: 8}\njoin:\n  - {file: f, key: k, format: ratings, columns: [k, v]}\n"))
	f.Add([]byte("features:\n  - &a {name: l, kind: label, one_of: [1, yes]}\n  - *a\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := dataset.ParseSchema("f", text)
		if err != nil {
			return
		}
		once, err := s.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, err := dataset.ParseSchema("f", once)
		if err != nil {
			t.Fatalf("%s: %v", once, err)
		}
		if twice, err := again.YAML(); err != nil || string(once) != string(twice) {
			t.Fatalf("%s\nthen\n%s: %v", once, twice, err)
		}
	})
}

func TestReadSchemaFindsSideTables(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "features.yaml")
	if err := os.WriteFile(path, []byte("features: []\njoin:\n  - {file: side.csv, key: k}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := dataset.ReadSchema(path)
	if err != nil || s.Join[0].File != filepath.Join(dir, "side.csv") {
		t.Errorf("%+v, %v", s, err)
	}
}
