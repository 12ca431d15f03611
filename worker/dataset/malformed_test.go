package dataset_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hcclps/worker/dataset"
)

// TestMalformed goes through every kind of malformed file: the error names file,
// line, column and value.
func TestMalformed(t *testing.T) {
	whole := zip(t, "label,a\n"+strings.Repeat("1,2\n", 5000))
	head := "label,a,b\n1,2,x\n"
	id := "features:\n  - {name: a, kind: id}\n"
	cases := []struct {
		name, text, features string
		format               string
		says                 []string
	}{
		{name: "cut row", text: head + "0,3\n", says: []string{":3:3:", `"3"`, "3 fields, not 2"}},
		{name: "cut last row", text: head + "0", says: []string{":3:1:", `"0"`, "3 fields, not 1"}},
		{name: "extra column", text: head + "0,3,x,y\n", says: []string{":3:7:", `"y"`, "3 fields, not 4"}},
		{name: "unclosed quote", text: head + "0,3,\"x\n1,2,y\n", says: []string{":3:5:", `"\"x`, "closing quote"}},
		{name: "text after quote", text: head + "0,3,\"x\"y\n", says: []string{":3:8:", `"y"`, "after a closing quote"}},
		{name: "NUL", text: head + "0,3,x\x00\n", says: []string{":3:6:", `"\x00"`, "NUL"}},
		{name: "NUL in quotes", text: head + "0,3,\"x\n\x00\"\n", says: []string{":4:1:", `"\x00"`, "NUL"}},
		{name: "text for a number", text: head + "0,x,x\n", features: "features:\n  - {name: a, kind: numeric}\n", says: []string{":3:3:", `column "a"`, `"x"`, "a number"}},
		{name: "behind lines in quotes", text: head + "0,\"\r\n\n\",x\n1,y,\"\"\n", features: "features:\n  - {name: a, kind: numeric, na: [\"\\r\\n\\n\"]}\n", says: []string{":6:3:", `"y"`}},
		{name: "infinite number", text: head + "0,1e999,x\n", features: "features:\n  - {name: a, kind: numeric}\n", says: []string{":3:3:", `"1e999"`, "finite"}},
		{name: "too large for float32", text: head + "0,1e99,x\n", features: "features:\n  - {name: a, kind: numeric, transform: raw}\n", says: []string{":3:3:", `"1e99"`, "finite"}},
		{name: "label out of range", text: head + "2,3,x\n", says: []string{":3:1:", `column "label"`, `"2"`, "-1, 0 or 1"}},
		{name: "label missing", text: head + ",3,x\n", says: []string{":3:1:", `""`, "empty"}},
		{name: "label of text", text: head + "yes,3,x\n", says: []string{":3:1:", `"yes"`, "number"}},
		{name: "weight below 0", text: head + "1,-3,x\n", features: "features:\n  - {name: w, column: a, kind: weight}\n  - {name: b, kind: id}\n", says: []string{":3:3:", `"-3"`, "0 or more"}},
		{name: "id over 2^64-1", text: head + "0,18446744073709551616,x\n", features: id, says: []string{":3:3:", `"18446744073709551616"`, "18446744073709551615"}},
		{name: "id not a number", text: head + "0,x7,x\n", features: "features:\n  - {name: a, kind: id, as: number}\n", says: []string{":3:3:", `"x7"`, "18446744073709551615"}},
		{name: "missing and not allowed", text: head + "0,,x\n", features: "features:\n  - {name: a, kind: id, missing: error}\n", says: []string{":3:3:", `column "a"`, "empty"}},
		{name: "truncated gz", text: whole[:len(whole)-20], says: []string{"f", "truncated"}},
		{name: "empty file", text: "", says: []string{"f", "empty"}},
		{name: "blank file", text: "\n \n", says: []string{"f", "no rows"}},
		{name: "header only", text: "label,a\n", says: []string{"f", "no rows"}},
		{name: "duplicate header", text: "label,a,a\n1,2,3\n", says: []string{":1:9:", `"a"`, "no other column"}},
		{name: "unclosed header", text: "label,\"a\n1,2\n", says: []string{":1:7:", "closing quote"}},
		{name: "absent column", text: head, features: "features:\n  - {name: a, kind: id}\n  - {name: q, kind: id, column: z}\n", says: []string{"features.yaml:3:5", `"q"`, `column "z" is none of label, a, b`}},
		{name: "criteo of 39 columns", format: "criteo", text: strings.Repeat("1\t", 38) + "1\n", says: []string{"39 columns", "criteo"}},
		{name: "ratings of 2 columns", format: "ratings", text: "1::2\n", says: []string{"2 columns", "ratings"}},
		{name: "rating of text", format: "ratings", text: "1::2::3\n1::2::x\n", says: []string{":2:7:", `"x"`, "number"}},
		{name: "tsv cut", format: "tsv", text: "label\ta\n1\t2\n1\n", says: []string{":3:1:", "2 fields, not 1"}},
		{name: "libfm index", format: "libfm", text: "3.5 7:1 x:2\n", says: []string{":1:9:", `"x"`, "index"}},
		{name: "libffm field", format: "libffm", text: "1 0:1:1 1:2:1\n1 x:1:1\n", says: []string{":2:3:", `"x"`, "field number"}},
		{name: "libffm pair", format: "libffm", text: "1 0:1:1\n1 0:1\n", says: []string{":2:5:", `"1"`, "index:value"}},
		{name: "libffm single", format: "libffm", text: "1 0:1:1\n1 0\n", says: []string{":2:3:", `"0"`, "field:index:value"}},
		{name: "libffm value", format: "libffm", text: "1 0:1:nan\n", says: []string{":1:7:", `"nan"`, "finite"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg := dataset.Config{Format: "csv", Paths: []string{file(t, "f", c.text)}}
			if c.format != "" {
				cfg.Format = c.format
			}
			if c.features != "" {
				cfg.Schema = schema(t, c.features)
			}
			err := readAll(cfg)
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), cfg.Paths[0]) && !strings.Contains(err.Error(), "features.yaml") {
				t.Errorf("error %v does not name the file", err)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("error %v, want it to say %q", err, s)
				}
			}
		})
	}
}

// readAll opens and reads one epoch.
func readAll(cfg dataset.Config) error {
	r, err := dataset.Open(cfg)
	if err != nil {
		return err
	}
	var b dataset.Batch
	for more := true; more && err == nil; {
		more, err = r.Next(&b)
	}
	return errors.Join(err, r.Close())
}

func TestHeadersOfAllFilesAgree(t *testing.T) {
	first := file(t, "first", "label,a,b\n1,2,3\n")
	for text, says := range map[string]string{
		"label,b,a\n1,2,3\n":     `second:1:7: "b": want the columns label, a, b`,
		"label,a\n1,2\n":         `second:1:7: "a": want then the columns b`,
		"label,a,b,c\n1,2,3,4\n": `second:1:11: "c"`,
		"1,2,3\n":                `second:1:1: "1"`,
		"label,a,b\n":            "second: it has no rows",
	} {
		err := readAll(dataset.Config{Format: "csv", Paths: []string{first, file(t, "second", text)}})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: error %v, want it to say %q", text, err, says)
		}
	}
	if err := readAll(dataset.Config{Format: "csv", Paths: []string{first, file(t, "second", "label,a,b\n0,1,2\n")}}); err != nil {
		t.Error(err)
	}
}

// TestSkipBadGoesOnBehindAMalformedRow: a quote that is never closed costs its
// line, not the file.
func TestSkipBadGoesOnBehindAMalformedRow(t *testing.T) {
	text := "label,a\n1,1\n1,\"2\n1,3\n1\n1,\"4\"x\n1,\"5\"\"\r\n1,6\r\n1,7\n"
	b := columns(t, dataset.Config{Format: "csv", Paths: []string{file(t, "f", text)}, SkipBad: true}, "features:\n  - {name: a, kind: id}\n")
	if !slices.Equal(b.Column("a").Keys, []uint64{1, 3, 6, 7}) {
		t.Errorf("ids %v", b.Column("a").Keys)
	}
}

// A malformed first row of ratings is no header.
func TestBadFirstRatingIsNoHeader(t *testing.T) {
	open := func(text string) (*dataset.Reader, error) {
		path := filepath.Join(t.TempDir(), "r")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return dataset.Open(dataset.Config{Format: dataset.FormatRatings, Paths: []string{path}})
	}
	for text, rows := range map[string]int{
		"user::item::rating\n1::2::3\n": 1,
		"1::2::5\n1::2::3\n":            2,
		"1::2::abc\n1::2::3\n":          -1,
		"1::ab::\n1::2::3\n":            -1,
		"u::i::nan\n1::2::3\n":          -1,
	} {
		n := 0
		r, err := open(text)
		if err == nil {
			n, err = r.Count()
		}
		var row *dataset.RowError
		switch {
		case rows < 0 && (!errors.As(err, &row) || row.Line != 1 || row.Want == ""):
			t.Errorf("%q: %d rows, %v: want an error of line 1", text, n, err)
		case rows >= 0 && (n != rows || err != nil):
			t.Errorf("%q: %d rows, %v: want %d", text, n, err, rows)
		}
	}
}
