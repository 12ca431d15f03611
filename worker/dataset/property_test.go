package dataset_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hcclps/worker/dataset"
)

// entry is a key with its value, in a field.
type entry struct {
	field int
	key   uint64
	value float32
}

// randomRows are rows with rising keys over some fields.
func randomRows(rng *rand.Rand, fields int) [][]entry {
	out := make([][]entry, 1+rng.IntN(40))
	for i := range out {
		for f := range fields {
			key := uint64(rng.IntN(3))
			for range rng.IntN(4) {
				value := math.Float32frombits(rng.Uint32())
				if value-value != 0 || value == 0 {
					value = -1.5
				}
				out[i] = append(out[i], entry{f, key, value})
				key += 1 + rng.Uint64()>>(2+rng.IntN(60))
			}
		}
	}
	return out
}

// TestSparseRowsAreReadBack writes random rows in each sparse format and finds
// them again, bit for bit.
func TestSparseRowsAreReadBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, format := range []string{dataset.FormatLibsvm, dataset.FormatLibfm, dataset.FormatLibffm} {
		for range 60 {
			fields := 1
			if format == dataset.FormatLibffm {
				fields = 1 + rng.IntN(5)
			}
			rows := randomRows(rng, fields)
			rows[0] = append(rows[0][:0:0], entry{fields - 1, 1, 1}) // all fields are in the sample
			var text strings.Builder
			for i, row := range rows {
				fmt.Fprint(&text, i%2)
				for _, e := range row {
					text.WriteString(" ")
					if format == dataset.FormatLibffm {
						fmt.Fprintf(&text, "%d:", e.field)
					}
					fmt.Fprintf(&text, "%d:%s", e.key, strconv.FormatFloat(float64(e.value), "eg"[rng.IntN(2)], -1, 32))
				}
				text.WriteString([]string{"\n", " \r\n", "\r", "\n\n"}[rng.IntN(4)])
			}
			b := columns(t, dataset.Config{Format: format, Paths: []string{file(t, "f", text.String())}, Batch: 100}, "")
			if b.Rows != len(rows) || len(b.Features) != fields {
				t.Fatalf("%s: %d rows of %d, %d fields of %d", format, b.Rows, len(rows), len(b.Features), fields)
			}
			for i, row := range rows {
				var got []entry
				for f, c := range b.Features {
					for j := c.Offsets[i]; j < c.Offsets[i+1]; j++ {
						got = append(got, entry{f, c.Keys[j], c.Weights[j]})
					}
				}
				if !slices.Equal(got, row) || b.Label[i] != float32(i%2) {
					t.Fatalf("%s: row %d is %v, want %v", format, i, got, row)
				}
			}
		}
	}
}

// TestColumnsAreReadBack writes random ids and numbers in each format of
// columns.
func TestColumnsAreReadBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	features := "  - {name: id, kind: id, as: number}\n  - {name: tags, kind: ids}\n  - {name: n, kind: numeric, transform: raw}\n"
	for _, sep := range []string{",", "\t", "::", ";", "||"} {
		for range 40 {
			n := 1 + rng.IntN(50)
			var text strings.Builder
			var ids, tags []uint64
			numbers := make([]float32, n)
			text.WriteString(strings.Join([]string{"label", "id", "tags", "n"}, sep) + "\n")
			for i := range n {
				ids = append(ids, rng.Uint64()>>rng.IntN(64))
				numbers[i] = float32(rng.NormFloat64())
				var own []string
				for range rng.IntN(4) {
					tags = append(tags, rng.Uint64N(1000))
					own = append(own, strconv.FormatUint(tags[len(tags)-1], 10))
				}
				join := "|"
				if sep == "||" {
					join = " "
				}
				fields := []string{strconv.Itoa(i), strconv.FormatUint(ids[i], 10), strings.Join(own, join), fmt.Sprint(numbers[i])}
				if len(sep) == 1 && rng.IntN(2) == 0 {
					for j := range fields {
						fields[j] = `"` + fields[j] + `"`
					}
				}
				text.WriteString(strings.Join(fields, sep) + "\n")
			}
			cfg := dataset.Config{Format: "csv", Separator: sep, Paths: []string{file(t, "f", text.String())}, Batch: 100}
			f := numberLabel + features
			if sep == "||" {
				f = strings.Replace(f, "kind: ids", `kind: ids, separator: " "`, 1)
			}
			b := columns(t, cfg, f)
			if b.Rows != n || !slices.Equal(b.Column("id").Keys, ids) || !slices.Equal(b.Column("tags").Keys, tags) || !slices.Equal(b.Column("n").Numeric, numbers) || b.Label[n-1] != float32(n-1) {
				t.Fatalf("separator %q: %q is read as %+v", sep, text.String(), b)
			}
		}
	}
}

// TestRowsStayWhole: in whatever order rows come, their parts come together.
func TestRowsStayWhole(t *testing.T) {
	var text strings.Builder
	text.WriteString("label,a,w,n,tags\n")
	const n = dataset.WindowRows + 5000
	for i := range n {
		fmt.Fprintf(&text, "%d,%d,%d,%d,%s\n", i%97, i, i%7, i%1000, strings.Repeat(strconv.Itoa(i)+"|", i%3))
	}
	r := open(t, dataset.Config{Format: "csv", Paths: []string{file(t, "f", text.String())}, Batch: 300, Seed: 2, Schema: schema(t, numberLabel+`
  - {name: w, kind: weight}
  - {name: a, kind: id}
  - {name: n, kind: numeric, transform: raw}
  - {name: tags, kind: ids}
  - {name: cut, column: n, kind: numeric, transform: edges, edges: [500]}
`)})
	seen := make([]bool, n)
	var b dataset.Batch
	for next(t, r, &b) {
		tags := b.Column("tags")
		for i, a := range b.Column("a").Keys {
			if seen[a] {
				t.Fatalf("row %d comes twice", a)
			}
			seen[a] = true
			own := tags.Keys[tags.Offsets[i]:tags.Offsets[i+1]]
			cut := uint64(0)
			if a%1000 >= 500 {
				cut = 1
			}
			if b.Label[i] != float32(a%97) || b.Weight[i] != float32(a%7) || b.Column("n").Numeric[i] != float32(a%1000) ||
				len(own) != int(a%3) || slices.ContainsFunc(own, func(k uint64) bool { return k != a }) || b.Column("cut").Keys[i] != cut {
				t.Fatalf("row %d: label %v, weight %v, n %v, tags %v", a, b.Label[i], b.Weight[i], b.Column("n").Numeric[i], own)
			}
		}
	}
	if slices.Contains(seen, false) {
		t.Error("a row is missing")
	}
}
