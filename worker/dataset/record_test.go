package dataset

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// textInput is an input over text in memory, with a buffer of that many bytes.
func textInput(text string, buffer int) *input {
	return &input{paths: []string{"f"}, text: iotest.OneByteReader(strings.NewReader(text)), buf: make([]byte, max(buffer, 2))}
}

// cutAll cuts text into records; nil is a malformed one.
func cutAll(t testing.TB, text string, d dialect, buffer int) [][]string {
	t.Helper()
	var out [][]string
	r := records{in: textInput(text, buffer), dialect: d}
	for {
		rec, bad, err := r.next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if bad != nil {
			if bad.Line < 1 || bad.Column < 1 || bad.Want == "" {
				t.Fatalf("%q: %+v", text, bad)
			}
			out = append(out, nil)
			continue
		}
		fields := make([]string, len(rec.fields))
		for i, f := range rec.fields {
			fields[i] = string(f)
		}
		out = append(out, fields)
	}
}

// twinRecords cuts text the plain way, byte by byte.
func twinRecords(text string, d dialect) [][]string {
	var out [][]string
	text = strings.TrimPrefix(text, utf8BOM)
	for len(text) > 0 {
		line, rest := twinLine(text)
		if line == "" || strings.Trim(line, " \t") == "" && d.separator != "\t" {
			text = rest
			continue
		}
		if !d.quotes || !strings.Contains(line, `"`) {
			var fields []string
			for f := range strings.SplitSeq(line, d.separator) {
				fields = append(fields, strings.Trim(f, " \t"))
			}
			if strings.Contains(line, "\x00") {
				fields = nil
			}
			out, text = append(out, fields), rest
			continue
		}
		fields, used := twinQuoted(text, d.separator[0])
		switch {
		case used < 0:
			out, text = append(out, nil), rest
		case strings.Contains(text[:used], "\x00"):
			_, text = twinLine(text[used:])
			out = append(out, nil)
		default:
			_, text = twinLine(text[used:])
			out = append(out, fields)
		}
	}
	return out
}

// twinLine takes a line and its end off text.
func twinLine(text string) (line, rest string) {
	i := strings.IndexAny(text, "\r\n")
	if i < 0 {
		return text, ""
	}
	if strings.HasPrefix(text[i:], "\r\n") {
		return text[:i], text[i+2:]
	}
	return text[:i], text[i+1:]
}

// twinQuoted reads a record that may have quotes, and says where it ends.
func twinQuoted(text string, sep byte) (fields []string, used int) {
	blanks := " \t"
	if sep == '\t' {
		blanks = " "
	}
	end := func(i int) bool { return i == len(text) || text[i] == '\n' || text[i] == '\r' }
	for i := 0; ; i++ {
		start := i
		for !end(i) && strings.IndexByte(blanks, text[i]) >= 0 {
			i++
		}
		var f strings.Builder
		if i < len(text) && text[i] == '"' {
			for i++; ; i++ {
				if i == len(text) {
					return nil, -1
				}
				if text[i] == '"' {
					if i+1 == len(text) || text[i+1] != '"' {
						break
					}
					i++
				}
				f.WriteByte(text[i])
			}
			for i++; !end(i) && text[i] != sep; i++ {
				if text[i] != ' ' && text[i] != '\t' {
					return nil, -1
				}
			}
			fields = append(fields, f.String())
		} else {
			for i = start; !end(i) && text[i] != sep; i++ {
				f.WriteByte(text[i])
			}
			fields = append(fields, strings.Trim(f.String(), " \t"))
		}
		if end(i) {
			return fields, i
		}
	}
}

func dialects() []dialect {
	return []dialect{{",", true}, {"\t", true}, {"\t", false}, {"::", false}, {";", true}}
}

func FuzzRecords(f *testing.F) {
	for _, s := range []string{
		"a,b\n1,2\r\n3,4\r5,6", "\"a\"\"b\",c\n", "\"a\nb\",\"c\r\nd\"\r\ne,f", "a,\"b\nc,d\n", "\xef\xbb\xbf\"a\", \"b\" ,c", "a\tb\n\n\t\n", "\"x\"y,z\n1,2",
		"1::2::3\n::\n", "a,\x00\n\"\x00\n\",b", "5\" disk,x\n", "\"a\r\n", "\"", "\"\"", ",\n,,", "\"a\r\"\n\r\n\"b\nc\"d\ne", "\"a\",\"b\r\rc",
	} {
		f.Add([]byte(s), uint8(0), uint8(3))
		f.Add([]byte(s), uint8(1), uint8(64))
		f.Add([]byte(s), uint8(3), uint8(2))
	}
	f.Fuzz(func(t *testing.T, text []byte, which, buffer uint8) {
		d := dialects()[int(which)%len(dialects())]
		got, want := cutAll(t, string(text), d, int(buffer)), twinRecords(string(text), d)
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Fatalf("%q cut at %q (quotes %v): got %q, want %q", text, d.separator, d.quotes, got, want)
		}
	})
}

// TestWriteAndReadBack writes random records by package csv and by hand.
func TestWriteAndReadBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "b7", `"`, `""`, ",", "\n", "\r\n", "\r", "é", "\xff", "::", "\t", " ", "x y", ""}
	for range 3000 {
		var want [][]string
		var byCSV, byHand bytes.Buffer
		w := csv.NewWriter(&byCSV)
		end := []string{"\n", "\r\n", "\r"}[rng.IntN(3)]
		for range 1 + rng.IntN(4) {
			rec := make([]string, 1+rng.IntN(4))
			for i := range rec {
				for range rng.IntN(4) {
					rec[i] += pieces[rng.IntN(len(pieces))]
				}
			}
			if len(rec) == 1 && rec[0] == "" {
				rec[0] = "lone"
			}
			want = append(want, rec)
			for i, f := range rec {
				if i > 0 {
					byHand.WriteString(",")
				}
				byHand.WriteString(`"` + strings.ReplaceAll(f, `"`, `""`) + `"`)
			}
			byHand.WriteString(end)
			if err := w.Write(rec); err != nil {
				t.Fatal(err)
			}
		}
		w.Flush()
		if got := cutAll(t, byHand.String(), dialect{",", true}, 2+rng.IntN(50)); !equal(got, want) {
			t.Fatalf("%q: got %q, want %q", byHand.String(), got, want)
		}
		for _, rec := range want { // package csv does not quote blanks behind a field, which do not count
			for i := range rec {
				rec[i] = strings.Trim(rec[i], " \t")
			}
		}
		got := cutAll(t, byCSV.String(), dialect{",", true}, 64)
		for _, rec := range got {
			for i := range rec {
				rec[i] = strings.Trim(rec[i], " \t")
			}
		}
		if !equal(got, want) {
			t.Fatalf("%q: got %q, want %q", byCSV.String(), got, want)
		}
	}
}

func equal(a, b [][]string) bool {
	return slices.EqualFunc(a, b, slices.Equal[[]string])
}

// TestUnclosedQuoteIsBounded: the record is given up after 1 MiB, and what
// follows its first line is read.
func TestUnclosedQuoteIsBounded(t *testing.T) {
	text := "1,\"2\n" + strings.Repeat("3,4\n", 1<<20)
	in := newInput([]string{"f"})
	in.text = strings.NewReader(text)
	r := records{in: in, dialect: dialect{",", true}}
	_, bad, err := r.next()
	if err != nil || bad == nil || bad.Line != 1 || bad.Column != 3 || bad.Want != wantClosing {
		t.Fatalf("%+v, %v", bad, err)
	}
	if len(in.buf) > 4*maxQuoted {
		t.Errorf("a buffer of %d bytes", len(in.buf))
	}
	n := 0
	for ; err == nil; n++ {
		var rec *record
		if rec, bad, err = r.next(); err == nil && (bad != nil || string(rec.fields[1]) != "4" || rec.line != n+2) {
			t.Fatalf("record %d: %+v, %v", n, rec, bad)
		}
	}
	if n != 1<<20+1 {
		t.Errorf("%d records behind it", n-1)
	}
}
