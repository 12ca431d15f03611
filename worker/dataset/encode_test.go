package dataset

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"hcclps/internal/vec"
)

// twinID is the id of a value, or the whole value if it has none.
func twinID(v, table string, as string) string {
	hash := func() string { return fmt.Sprint(vec.Mix64(xxhash.Sum64String(v), xxhash.Sum64String(table))) }
	digits := v != "" && strings.Trim(v, "0123456789") == ""
	switch {
	case as == "text" || !digits && as == "" || digits && as == "" && v != "0" && v[0] == '0':
		return hash()
	case !digits:
		return "bad"
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		return "bad"
	}
	return fmt.Sprint(n)
}

// FuzzEncode compares each kind of feature with its twin on one field.
func FuzzEncode(f *testing.F) {
	for _, s := range []string{
		"", "0", "7", "007", "x", "18446744073709551615", "18446744073709551616", "a|b||c", "|", " 1 | 2", "-3.5", "1e400", "nan", "1|2|3|4|5|6", "0.5", "+7", "1_0", "0x1p3",
	} {
		f.Add([]byte(s))
	}
	edges := []float64{-1, 0, 0.5, 7}
	s := &Schema{Features: []Feature{
		{Name: "id", Kind: KindID},
		{Name: "text", Kind: KindID, As: "text", Table: "t"},
		{Name: "number", Kind: KindID, As: "number"},
		{Name: "ids", Kind: KindIDs, Max: 3},
		{Name: "seq", Kind: KindSequence, Max: 2, Table: "ids"},
		{Name: "bucket", Kind: KindNumeric, Transform: TransformEdges, Edges: edges},
		{Name: "raw", Kind: KindNumeric, Transform: TransformRaw},
	}}
	for i := range s.Features {
		s.Features[i].Column = "c"
	}
	if err := s.Validate(); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, field []byte) {
		v := string(field)
		var pieces []string
		for p := range strings.SplitSeq(v, "|") {
			if p = strings.Trim(p, " "); p != "" {
				pieces = append(pieces, p)
			}
		}
		ids := func(p []string) (out []string) {
			for _, v := range p {
				out = append(out, twinID(v, "ids", ""))
			}
			return out
		}
		x, err := strconv.ParseFloat(v, 64)
		number := err == nil && !math.IsInf(x, 0) && !math.IsNaN(x) && !strings.ContainsAny(v, "xXpP_")
		bucket, raw := []string{"bad"}, []string{"bad"}
		if number {
			n := 0
			for _, e := range edges {
				if e <= x {
					n++
				}
			}
			bucket = []string{strconv.Itoa(n)}
			if !math.IsInf(float64(float32(x)), 0) {
				raw = []string{fmt.Sprint(float32(x))}
			}
		}
		want := [][]string{{twinID(v, "id", "")}, {twinID(v, "t", "text")}, {twinID(v, "number", "number")}, ids(pieces[:min(3, len(pieces))]), ids(pieces[max(len(pieces)-2, 0):]), bucket, raw}
		if v == "" {
			own := func(table string) []string { return []string{twinID("", table, "text")} }
			want = [][]string{own("id"), own("t"), own("number"), nil, nil, {strconv.Itoa(len(edges) + 1)}, {"0"}}
		}
		for i := range s.Features {
			one := &Schema{Features: s.Features[i : i+1]}
			got := encodeOne(t, one, field)
			if slices.Contains(want[i], "bad") {
				want[i] = []string{"bad"}
			}
			if !slices.Equal(got, want[i]) {
				t.Fatalf("%q as %s: got %q, want %q", v, s.Features[i].Name, got, want[i])
			}
		}
	})
}

// encodeOne is what a schema of one feature makes of a field.
func encodeOne(t *testing.T, s *Schema, field []byte) (out []string) {
	t.Helper()
	e, err := newEncoder(s, []string{"c"}, false)
	if err != nil {
		t.Fatal(err)
	}
	r := rows{shape: e.shape}
	rec := record{fields: [][]byte{field}, raw: field, spans: []span{{to: len(field)}}}
	if bad := e.encode(&rec, &r); bad != nil {
		if bad.Want == "" || bad.Field != "c" {
			t.Fatalf("%+v", bad)
		}
		return []string{"bad"}
	}
	for _, k := range r.keys {
		out = append(out, fmt.Sprint(k))
	}
	for _, v := range r.numeric {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

func TestQuantiles(t *testing.T) {
	repeat := func(v float64, n int) []float64 { return slices.Repeat([]float64{v}, n) }
	var ramp []float64
	for i := range 1000 {
		ramp = append(ramp, float64(i))
	}
	cases := map[string]struct {
		values []float64
		n      int
		want   []float64
	}{
		"nothing":   {nil, 20, nil},
		"constant":  {repeat(3, 50), 20, nil},
		"two":       {append(repeat(1, 30), repeat(2, 70)...), 20, []float64{2}},
		"ramp":      {ramp, 4, []float64{250, 500, 750}},
		"heavy":     {append(repeat(0, 900), ramp[900:]...), 3, []float64{900, 950}},
		"heavy mid": {slices.Concat(ramp[:100], repeat(500, 800), ramp[900:]), 3, []float64{500, 900}},
		"few":       {[]float64{3, 1, 2}, 20, []float64{2, 3}},
	}
	for name, c := range cases {
		if got := quantiles(slices.Clone(c.values), c.n); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		values := make([]float64, 1+rng.IntN(2000))
		for i := range values {
			values[i] = math.Floor(math.Pow(rng.Float64(), 3) * float64(1+rng.IntN(500)))
		}
		n := 2 + rng.IntN(30)
		edges := quantiles(values, n)
		if len(edges) >= n || !slices.IsSorted(edges) || len(slices.Compact(slices.Clone(edges))) != len(edges) {
			t.Fatalf("%d buckets: edges %v", n, edges)
		}
		counts := make([]int, len(edges)+1)
		for _, v := range values {
			counts[bucket(edges, v)]++
		}
		if slices.Contains(counts, 0) {
			t.Fatalf("an empty bucket: %v", counts)
		}
	}
}

// TestQuantilesAreEven: over distinct values no bucket is far from its share.
func TestQuantilesAreEven(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	values := make([]float64, 100_000)
	for i := range values {
		values[i] = rng.NormFloat64()
	}
	edges := quantiles(values, 20)
	counts := make([]int, 20)
	for _, v := range values {
		counts[bucket(edges, v)]++
	}
	if len(edges) != 19 || slices.Min(counts) < 4990 || slices.Max(counts) > 5010 {
		t.Errorf("%d edges, buckets of %v", len(edges), counts)
	}
}

func TestMoments(t *testing.T) {
	if m, d := moments([]float64{1, 2, 3, 4}); m != 2.5 || math.Abs(d-math.Sqrt(1.25)) > 1e-15 {
		t.Errorf("%v %v", m, d)
	}
	for _, v := range [][]float64{nil, {5}, {7, 7, 7}} {
		if _, d := moments(v); d != 1 {
			t.Errorf("%v: deviation %v", v, d)
		}
	}
}
