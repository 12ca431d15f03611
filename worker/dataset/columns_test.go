package dataset_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hcclps/worker/dataset"
)

// columns is the first batch of data, in order.
func columns(t testing.TB, cfg dataset.Config, features string) *dataset.Batch {
	t.Helper()
	if features != "" {
		cfg.Schema = schema(t, features)
	}
	cfg.InOrder = true
	r := open(t, cfg)
	b := &dataset.Batch{}
	next(t, r, b)
	return b
}

func schema(t testing.TB, features string) *dataset.Schema {
	t.Helper()
	s, err := dataset.ParseSchema("features.yaml", []byte(features))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const numberLabel = "features:\n  - {name: label, kind: label, number: true}\n"

func TestColumnForms(t *testing.T) {
	text := "label,a,b\n1,5,x\n2,6,\"y,\"\"z\"\"\nw\"\n3,7,ü\xe9\n"
	plain := columns(t, dataset.Config{Format: "csv", Paths: []string{file(t, "f", text)}}, numberLabel+"  - {name: a, kind: id}\n  - {name: b, kind: id}\n")
	if !slices.Equal(plain.Label, []float32{1, 2, 3}) || !slices.Equal(plain.Column("a").Keys, []uint64{5, 6, 7}) || len(plain.Column("b").Keys) != 3 {
		t.Fatalf("%+v", plain)
	}
	forms := map[string]struct {
		cfg  dataset.Config
		text string
	}{
		"gzip":        {dataset.Config{Format: "csv"}, zip(t, text[:20]) + zip(t, text[20:])},
		"bom":         {dataset.Config{Format: "csv"}, "\xef\xbb\xbf" + text},
		"bom quoted":  {dataset.Config{Format: "csv"}, "\xef\xbb\xbf\"label\",\"a\",\"b\"\n" + text[len("label,a,b\n"):]},
		"no last end": {dataset.Config{Format: "csv"}, strings.TrimSuffix(text, "\n")},
		"blank lines": {dataset.Config{Format: "csv"}, "\n\n" + strings.ReplaceAll(text, "\n3", "\n\n  \n3")},
		"blanks":      {dataset.Config{Format: "csv"}, strings.NewReplacer("1,5,x", " 1 ,\t5 , x ", `"y`, ` "y`, "w\"\n", "w\"  \n").Replace(text)},
		"quoted":      {dataset.Config{Format: "csv"}, strings.NewReplacer("1,5,x", `"1","5","x"`, "label,a", `"label",a`).Replace(text)},
		"tsv":         {dataset.Config{Format: "tsv"}, strings.NewReplacer("y,", "y,", ",", "\t").Replace(strings.ReplaceAll(text, "y,", "y;"))},
		"separator":   {dataset.Config{Format: "csv", Separator: ";"}, strings.ReplaceAll(strings.ReplaceAll(text, ",", ";"), "y;", "y,")},
	}
	for name, f := range forms {
		t.Run(name, func(t *testing.T) {
			f.cfg.Paths = []string{file(t, "f", f.text)}
			got := columns(t, f.cfg, numberLabel+"  - {name: a, kind: id}\n  - {name: b, kind: id}\n")
			want := plain
			if name == "tsv" {
				got.Column("b").Keys[1] = plain.Column("b").Keys[1]
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%v\nwant %v", got, want)
			}
		})
	}
	for name, end := range map[string]string{"crlf": "\r\n", "cr": "\r"} {
		t.Run(name, func(t *testing.T) {
			cfg := dataset.Config{Format: "csv", Paths: []string{file(t, "f", strings.ReplaceAll(text, "\n", end))}}
			got := columns(t, cfg, numberLabel+"  - {name: a, kind: id}\n  - {name: b, kind: id}\n")
			if !slices.Equal(got.Label, plain.Label) || !slices.Equal(got.Column("a").Keys, plain.Column("a").Keys) {
				t.Errorf("%v, want %v", got, plain)
			}
			if got.Column("b").Keys[0] != plain.Column("b").Keys[0] || got.Column("b").Keys[1] == plain.Column("b").Keys[1] {
				t.Error("a line end within quotes is not kept as it is")
			}
		})
	}
}

func TestHeaderIsFoundByNames(t *testing.T) {
	cases := []struct {
		name, text, label, header, features string
		format                              string
		rows                                int
		says                                string
	}{
		{name: "label in first line", text: "y,a\n1,2\n", label: "y", rows: 1},
		{name: "label c0", text: "1,2\n0,3\n", label: "c0", rows: 2},
		{name: "a column called c0", text: "c1,c0\n1,0\n", label: "c0", rows: 1},
		{name: "default label", text: "a,label\n1,1\n", rows: 1},
		{name: "absent label", text: "y,a\n1,2\n", label: "z", says: `no column "z" for the label: its first line has y, a`},
		{name: "told no", text: "1,2\n0,3\n", label: "c1>=3", header: "no", rows: 2},
		{name: "told yes", text: "c5,a\n1,3\n", label: "c5", header: "yes", rows: 1},
		{name: "names given", text: "1,2\n0,3\n", label: "u", features: "columns: [u, v]\nfeatures: []\n", rows: 2},
		{name: "names given and there", text: "u,v\n0,3\n", label: "u", features: "columns: [u, v]\nfeatures: []\n", rows: 1},
		{name: "too many names", text: "1,2\n", label: "u", features: "columns: [u, v, w]\nfeatures: []\n", says: "f:1:1: \"1,2\": want 3 fields"},
		{name: "no name", text: ",y\n7,1\n", label: "y", rows: 1},
		{name: "ratings", format: "ratings", text: "1::2::3::4\n", rows: 1},
		{name: "ratings with header", format: "ratings", text: "user,item,rating\n1,2,3\n", rows: 1, says: ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg := dataset.Config{Format: "csv", Paths: []string{file(t, "f", c.text)}, Header: c.header, Label: label(t, c.label)}
			if c.format != "" {
				cfg.Format = c.format
			}
			if c.features != "" {
				cfg.Schema = schema(t, c.features)
			}
			r, err := dataset.Open(cfg)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("error %v, want it to say %q", err, c.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if n, err := r.Count(); n != c.rows || err != nil {
				t.Errorf("%d rows, want %d: %v", n, c.rows, err)
			}
		})
	}
}

func TestFeatureKinds(t *testing.T) {
	path := file(t, "f", "label,w,n,i,s,q\n"+
		"3,0.5,1,18446744073709551615,a|b|c|d,1 2 3\n"+
		"4,2,,0,,\n"+
		"5,1,-3,007,b||?,3\n"+
		"6,1,100,x,a,\n")
	b := columns(t, dataset.Config{Format: "csv", Paths: []string{path}}, numberLabel+`
  - {name: w, kind: weight}
  - {name: raw, column: n, kind: numeric, transform: raw}
  - {name: log, column: n, kind: numeric, transform: log}
  - {name: std, column: n, kind: numeric, transform: standard}
  - {name: edge, column: n, kind: numeric, transform: edges, edges: [0, 1, 50]}
  - {name: i, kind: id}
  - {name: skip, column: n, kind: id, missing: skip}
  - {name: tags, column: s, kind: ids, max: 3}
  - {name: last, column: q, kind: sequence, separator: " ", max: 2}
  - {name: pair, kind: cross, of: [edge, tags]}
  - {name: first, column: s, kind: id, match: '^(\w)'}
  - {name: tag, column: s, kind: id, table: tags, match: '^\w'}
`)
	if !slices.Equal(b.Weight, []float32{0.5, 2, 1, 1}) || !slices.Equal(b.Label, []float32{3, 4, 5, 6}) {
		t.Errorf("weights %v, labels %v", b.Weight, b.Label)
	}
	numeric := func(name string, want ...float32) {
		t.Helper()
		if !slices.Equal(b.Column(name).Numeric, want) {
			t.Errorf("%s is %v, want %v", name, b.Column(name).Numeric, want)
		}
	}
	numeric("raw", 1, 0, -3, 100)
	numeric("log", 0.6931472, 0, -1.3862944, 4.6151204)
	if std := b.Column("std").Numeric; std[1] != 0 || std[0]+std[2]+std[3] > 1e-6 || std[3] < 1.4 {
		t.Errorf("standard %v", std)
	}
	if k := b.Column("edge").Keys; !slices.Equal(k, []uint64{2, 4, 0, 3}) {
		t.Errorf("buckets %v", k)
	}
	i := b.Column("i").Keys
	if i[0] != 1<<64-1 || i[1] != 0 || i[2] == 7 {
		t.Errorf("ids %v", i)
	}
	lengths := func(name string, want ...int32) {
		t.Helper()
		if got := b.Column(name).Offsets[1:]; !slices.Equal(got, want) {
			t.Errorf("%s: offsets %v, want %v", name, got, want)
		}
	}
	lengths("skip", 1, 1, 2, 3)
	lengths("tags", 3, 3, 5, 6)
	lengths("last", 2, 2, 3, 3)
	lengths("pair", 3, 3, 5, 6)
	lengths("first", 1, 2, 3, 4)
	if k := b.Column("last").Keys; !slices.Equal(k, []uint64{2, 3, 3}) {
		t.Errorf("the last of each sequence are %v", k)
	}
	tags, tag, first := b.Column("tags").Keys, b.Column("tag").Keys, b.Column("first").Keys
	if tag[0] != tags[0] || tag[2] != tags[3] || tag[0] != tags[5] || first[0] == tag[0] {
		t.Errorf("features of one table disagree: %v, %v; another table's: %v", tags, tag, first)
	}
	if p := b.Column("pair").Keys; len(slices.Compact(slices.Sorted(slices.Values(p)))) != 6 {
		t.Errorf("crossed ids %v", p)
	}
}

// TestHashesArePinned: a stored model knows its ids by them.
func TestHashesArePinned(t *testing.T) {
	b := columns(t, dataset.Config{Format: "csv", Paths: []string{file(t, "f", "label,a,b\n1,text,42\n")}},
		"features:\n  - {name: a, kind: id}\n  - {name: b, kind: id}\n  - {name: x, kind: cross, of: [a, b]}\n  - {name: t, column: b, kind: id, as: text}\n")
	got := []uint64{b.Column("a").Keys[0], b.Column("b").Keys[0], b.Column("x").Keys[0], b.Column("t").Keys[0]}
	want := []uint64{0xd8967b813ed14162, 42, 0x4bc488d77d8f3a0d, 0xb5e8981cb0920aa8}
	if !slices.Equal(got, want) {
		t.Errorf("ids %#v, want %#v", got, want)
	}
}

func TestHashBits(t *testing.T) {
	var text strings.Builder
	text.WriteString("label,a\n")
	for i := range 1000 {
		fmt.Fprintf(&text, "1,%d\n1,t%d\n", i, i)
	}
	cfg := dataset.Config{Format: "csv", Paths: []string{file(t, "f", text.String())}, HashBits: 6, Batch: 5000}
	seen := map[uint64]bool{}
	for _, k := range columns(t, cfg, "features:\n  - {name: a, kind: id}\n").Column("a").Keys {
		seen[k] = true
		if k >= 64 {
			t.Fatalf("id %d of 6 bits", k)
		}
	}
	if len(seen) != 64 {
		t.Errorf("%d of 64 ids", len(seen))
	}
}

func TestInference(t *testing.T) {
	var text strings.Builder
	text.WriteString("n,one,u,t,m,g,half,void,label\n")
	for i := range 1000 {
		fmt.Fprintf(&text, "%d,5,%d.5,t%d,%s,%s,%s,,%d\n", i, i%7, i%3, []string{"?", "1", "2"}[i%3], []string{"a|b", "c", "a|c|d"}[i%3], []string{"a|b", "c"}[i%2], i%2)
	}
	path := file(t, "f", text.String())
	s, err := dataset.Inspect(dataset.Config{Format: "csv", Paths: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.YAML()
	if err != nil {
		t.Fatal(err)
	}
	want := `features:
  - name: label
    kind: label
    column: label
  - name: "n"
    kind: numeric
    transform: quantile
    buckets: 20
  - name: one
    kind: numeric
    transform: quantile
    buckets: 20
  - name: u
    kind: numeric
    transform: quantile
    buckets: 20
  - name: t
    kind: id
    as: text
  - name: m
    kind: numeric
    transform: quantile
    buckets: 20
    na: ['?']
  - name: g
    kind: ids
    as: text
    separator: '|'
  - name: half
    kind: id
    as: text
  - name: void
    kind: id
    as: text
`
	if string(got) != want {
		t.Errorf("inferred:\n%s", got)
	}
	r := open(t, dataset.Config{Format: "csv", Paths: []string{path}, Schema: schema(t, string(got))})
	_, _, keys := read(t, r)
	for name, n := range map[string]int{"n": 20, "one": 1, "u": 7, "t": 3, "m": 3, "g": 4, "half": 2, "void": 1} {
		if len(keys[name]) != n {
			t.Errorf("%s: %d ids, want %d", name, len(keys[name]), n)
		}
	}
	for bucket, rows := range keys["n"] {
		if rows != 50 {
			t.Errorf("bucket %d of n has %d rows, want 50", bucket, rows)
		}
	}
}

// TestFitDoesNotSeeTestRows: the rows of the other part of the split say nothing.
func TestFitDoesNotSeeTestRows(t *testing.T) {
	var text strings.Builder
	text.WriteString("label,n\n")
	for i := range 1000 {
		n := i % 90
		if i%10 == 9 {
			n = 1_000_000 + i
		}
		fmt.Fprintf(&text, "1,%d\n", n)
	}
	cfg := dataset.Config{Format: "csv", Paths: []string{file(t, "f", text.String())}, Split: dataset.Split{Every: 10}}
	edges := open(t, cfg).Schema().Features[1].Fit.Edges
	if len(edges) != 19 || slices.Max(edges) >= 90 {
		t.Errorf("edges %v", edges)
	}
}

func TestSideTable(t *testing.T) {
	side := file(t, "side.csv", "id,title,year\n7,\"a, b\",1999\n8,c,\n")
	features := "features:\n  - {name: item, kind: id}\n  - {name: title, kind: id}\n  - {name: year, kind: id, missing: skip}\njoin:\n  - {file: " + side + ", key: id, on: item}\n"
	path := file(t, "f", "label,item\n1,7\n0,8\n1,9\n")
	b := columns(t, dataset.Config{Format: "csv", Paths: []string{path}}, features)
	titles := b.Column("title").Keys
	if len(titles) != 3 || titles[0] == titles[1] || titles[1] == titles[2] || !slices.Equal(b.Column("year").Keys, []uint64{1999}) || !slices.Equal(b.Column("year").Offsets, []int32{0, 1, 1, 1}) {
		t.Errorf("%+v", b.Features)
	}
	short := file(t, "short.csv", "id,tag\n7,1\n8,2\n9,3\n")
	b = columns(t, dataset.Config{Format: "csv", Paths: []string{path}},
		"features:\n  - {name: t, column: s_tag, kind: id}\njoin:\n  - {file: "+short+", key: id, on: item, prefix: s_}\n")
	if k := b.Column("t").Keys; !slices.Equal(k, []uint64{1, 2, 3}) {
		t.Errorf("one joined column is %v", k)
	}
	cases := map[string]struct{ side, join, says string }{
		"twice":     {"id,x\n7,1\n7,2\n", "key: id, on: item", `:3:1: "7": want a key that no other row has`},
		"no key":    {"id,x\n7,1\n", "key: nr, on: item", `key "nr" is none of its columns id, x`},
		"no column": {"id,x\n7,1\n", "key: id", `column "id" is none of the data's: label, item`},
		"clash":     {"id,item\n7,1\n", "key: id, on: item", `column "item" is in the data too`},
		"cut row":   {"id,x\n7\n", "key: id, on: item", ":2:1:"},
		"empty":     {"", "key: id, on: item", "empty"},
		"header":    {"id,x\n", "key: id, on: item", "no rows"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := schema(t, "features:\n  - {name: item, kind: id}\njoin:\n  - {file: "+file(t, "s.csv", c.side)+", "+c.join+"}\n")
			_, err := dataset.Open(dataset.Config{Format: "csv", Paths: []string{path}, Schema: s})
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "s.csv") {
				t.Errorf("error %v, want it to say %q", err, c.says)
			}
		})
	}
	gone := schema(t, "features: []\njoin:\n  - {file: "+filepath.Join(t.TempDir(), "none")+", key: item}\n")
	if _, err := dataset.Open(dataset.Config{Format: "csv", Paths: []string{path}, Schema: gone}); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("missing side table: %v", err)
	}
}
