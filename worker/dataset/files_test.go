package dataset_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hcclps/worker/dataset"
)

func TestForms(t *testing.T) {
	plain := "1 1:1\n0 2:1\n1 3:1\n"
	forms := map[string]string{
		"lf":           plain,
		"no last end":  strings.TrimSuffix(plain, "\n"),
		"crlf":         strings.ReplaceAll(plain, "\n", "\r\n"),
		"cr":           strings.ReplaceAll(plain, "\n", "\r"),
		"bom":          "\xef\xbb\xbf" + plain,
		"comments":     "# a header\n1 1:1 # one\n\n   \n0 2:1#two\n#\n1 3:1\n#end",
		"blanks":       "  1 1:1  \n\t0\t2:1\t\n1 3:1 \r\n\r\n",
		"gzip":         zip(t, plain),
		"gzip members": zip(t, "1 1:1\n0 ") + zip(t, "2:1\n1 3:1"),
	}
	for name, text := range forms {
		t.Run(name, func(t *testing.T) {
			r := open(t, dataset.Config{Paths: []string{file(t, "f", text)}, InOrder: true})
			var b dataset.Batch
			if !next(t, r, &b) || !slices.Equal(keysOf(&b), []uint64{1, 2, 3}) || !slices.Equal(b.Label, []float32{1, 0, 1}) {
				t.Errorf("%v %v", keysOf(&b), b.Label)
			}
		})
	}
}

// TestLongLines crosses the borders of the read buffer at every offset that
// matters, for each line end.
func TestLongLines(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		var text strings.Builder
		var want []uint64
		for i := range 3000 {
			want = append(want, uint64(i))
			fmt.Fprintf(&text, "1 %d:%s1%s", i, strings.Repeat("0", i%97), end)
		}
		fmt.Fprintf(&text, "1 3000:%s1%s0 3001:1", strings.Repeat("0", 1<<20), end)
		want = append(want, 3000, 3001)
		r := open(t, dataset.Config{Paths: []string{file(t, "f", text.String())}, InOrder: true, Batch: 5000})
		var b dataset.Batch
		if !next(t, r, &b) || !slices.Equal(keysOf(&b), want) {
			t.Errorf("line end %q: %d rows, want %d", end, b.Rows, len(want))
		}
	}
}

func TestBadFiles(t *testing.T) {
	good := file(t, "good", numbered(0, 10))
	whole := zip(t, numbered(0, 1000))
	cases := []struct {
		name, path string
		says       []string
	}{
		{"missing", filepath.Join(t.TempDir(), "none"), []string{"none", "no such file"}},
		{"directory", t.TempDir(), []string{"directory"}},
		{"empty", file(t, "empty", ""), []string{"empty", "it is empty"}},
		{"only comments", file(t, "hash", "# nothing\n\n"), []string{"hash", "no rows"}},
		{"empty gzip", file(t, "z", zip(t, "")), []string{"z", "no rows"}},
		{"truncated gzip", file(t, "cut.gz", whole[:len(whole)-5]), []string{"cut.gz", "truncated"}},
		{"gzip of two bytes", file(t, "two.gz", whole[:2]), []string{"two.gz", "truncated"}},
		{"garbage after gzip", file(t, "g.gz", whole+"no gzip member at all"), []string{"g.gz", "no gzip member"}},
		{"checksum of gzip", file(t, "c.gz", whole[:len(whole)-8]+"abcd"+whole[len(whole)-4:]), []string{"c.gz", "checksum"}},
		{"line too long", file(t, "long", "1 1:1\n1 "+strings.Repeat(" ", 17<<20)), []string{"long", "line 2", "16 MiB"}},
		{"bad row", file(t, "bad", "1 1:1\n\r\n\n1 5:1 4:1\n"), []string{"bad:4:7", `"4"`, "above"}},
		{"binary", file(t, "bin", "\x7fELF\x00\x01"), []string{"bin:1:5", "NUL"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r, err := dataset.Open(dataset.Config{Paths: []string{good, c.path}, Batch: 3})
			if err == nil {
				var b dataset.Batch
				for more := true; more && err == nil; {
					more, err = r.Next(&b)
				}
				_, again := r.Next(&b)
				if !errors.Is(again, err) || b.Rows != 0 {
					t.Errorf("after the error: %v, %d rows", again, b.Rows)
				}
				if _, count := r.Count(); count == nil {
					t.Error("Count did not see it")
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}
			for _, s := range c.says {
				if err == nil || !strings.Contains(err.Error(), s) {
					t.Errorf("error %v, want it to say %q", err, s)
				}
			}
		})
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("1 1:1\n0 2:1\r\n# c\n\r1 3:1"), uint8(2), uint8(0))
	f.Add([]byte("\x1f\x8b\x08\x00"), uint8(1), uint8(0))
	f.Add([]byte(zip(f, "1 1:1\n")), uint8(9), uint8(0))
	f.Add([]byte("\xef\xbb\xbf-1 0:2\r"), uint8(3), uint8(0))
	f.Add([]byte("3.5 7:1 2:-3e-4\n2 1:1\n"), uint8(1), uint8(1))
	f.Add([]byte("1 0:1:1 3:2:0.5\n0 0:9:2\n"), uint8(1), uint8(2))
	f.Add([]byte("label,a,b\n1,\"x\ny\",2\n0,,3\n1,|z|,?\n"), uint8(1), uint8(3))
	f.Add([]byte("label\ta\n1\tx\n\n0\t2\n"), uint8(1), uint8(4))
	f.Add([]byte("1"+strings.Repeat("\t5", 13)+strings.Repeat("\tab", 26)+"\n0"+strings.Repeat("\t", 39)), uint8(1), uint8(5))
	f.Add([]byte("1::2::3::4\n7::8::9::1\n"), uint8(1), uint8(6))
	f.Add([]byte("user,item,rating\n1,2,3\n4,5,x\n"), uint8(1), uint8(6))
	path := filepath.Join(f.TempDir(), "data")
	f.Fuzz(func(t *testing.T, text []byte, size, format uint8) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		name := dataset.Formats()[int(format)%len(dataset.Formats())]
		digest := func(batch int) ([32]byte, error) {
			h := sha256.New()
			r, err := dataset.Open(dataset.Config{Format: name, Paths: []string{path}, Batch: batch, SkipBad: true})
			if err != nil {
				return [32]byte{}, err
			}
			var b dataset.Batch
			for {
				more, err := r.Next(&b)
				if !more || err != nil {
					return [32]byte(h.Sum(nil)), errors.Join(err, r.Close())
				}
				for i := range b.Rows {
					fmt.Fprint(h, b.Label[i], rowOf(t, &b, i, name))
				}
			}
		}
		a, errA := digest(int(size) + 1)
		b, errB := digest(1000)
		if (errA == nil) != (errB == nil) || errA == nil && a != b {
			t.Fatalf("%s: batches of %d and of 1000 rows differ: %v, %v", name, size+1, errA, errB)
		}
	})
}

// rowOf is all of a row as text.
func rowOf(t *testing.T, b *dataset.Batch, i int, format string) string {
	t.Helper()
	var out strings.Builder
	for _, c := range b.Features {
		if c.Offsets == nil {
			fmt.Fprint(&out, c.Name, c.Numeric[i])
			continue
		}
		row := c.Keys[c.Offsets[i]:c.Offsets[i+1]]
		if format == dataset.FormatLibsvm && (!slices.IsSorted(row) || len(row) != len(slices.Compact(slices.Clone(row)))) {
			t.Fatalf("row %v does not rise", row)
		}
		fmt.Fprint(&out, c.Name, row, c.Weights[c.Offsets[i]:c.Offsets[i+1]])
	}
	return out.String()
}
