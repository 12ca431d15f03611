package dataset_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hcclps/worker/dataset"
)

// keysOf is the keys of a libsvm batch.
func keysOf(b *dataset.Batch) []uint64 { return b.Column(dataset.Features).Keys }

// file writes a data file and returns its path.
func file(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// numbered is n rows whose only key is the number of the row, from first.
func numbered(first, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d %d:1\n", (first+i)%2, first+i)
	}
	return b.String()
}

func zip(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func open(t testing.TB, cfg dataset.Config) *dataset.Reader {
	t.Helper()
	r, err := dataset.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// next reads one batch and checks that its parts fit together.
func next(t testing.TB, r dataset.Source, b *dataset.Batch) bool {
	t.Helper()
	more, err := r.Next(b)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Label) != b.Rows || len(b.Weight) != b.Rows || more != (b.Rows > 0) {
		t.Fatalf("%d rows, %d labels, %d weights", b.Rows, len(b.Label), len(b.Weight))
	}
	for _, c := range b.Features {
		if c.Offsets == nil {
			if len(c.Numeric) != b.Rows {
				t.Fatalf("%s: %d rows, %d values", c.Name, b.Rows, len(c.Numeric))
			}
			continue
		}
		if len(c.Offsets) != b.Rows+1 || int(c.Offsets[b.Rows]) != len(c.Keys) || len(c.Keys) != len(c.Weights) || c.Offsets[0] != 0 || c.Numeric != nil {
			t.Fatalf("%s: offsets %v, %d keys, %d weights", c.Name, c.Offsets, len(c.Keys), len(c.Weights))
		}
	}
	return more
}

// epoch reads to the end of the epoch: all keys, and the rows of each batch.
func epoch(t testing.TB, r dataset.Source) (keys []uint64, sizes []int) {
	t.Helper()
	var b dataset.Batch
	for next(t, r, &b) {
		keys = append(keys, keysOf(&b)...)
		sizes = append(sizes, b.Rows)
	}
	return keys, sizes
}

func TestEpochHoldsEachRowOnce(t *testing.T) {
	const n = 2*dataset.WindowRows + 1000
	paths := []string{file(t, "a", numbered(0, 90_000)), file(t, "b", numbered(90_000, n-90_000))}
	r := open(t, dataset.Config{Paths: paths, Batch: 1000, Seed: 7})
	first, sizes := epoch(t, r)
	if len(sizes) != n/1000+1 || sizes[len(sizes)-1] != n%1000 || slices.Min(sizes[:len(sizes)-1]) != 1000 {
		t.Errorf("batches of %v rows", sizes)
	}
	second, _ := epoch(t, r)
	if slices.Equal(first, second) {
		t.Error("two epochs have the same order")
	}
	for _, keys := range [][]uint64{first, second} {
		for w := 0; w < n; w += dataset.WindowRows {
			window := slices.Clone(keys[w:min(w+dataset.WindowRows, n)])
			if slices.IsSorted(window) {
				t.Errorf("the window at row %d is not shuffled", w)
			}
			slices.Sort(window)
			for i, k := range window {
				if k != uint64(w+i) {
					t.Fatalf("window at row %d: key %d in place %d", w, k, i)
				}
			}
		}
	}
}

func TestOrderIsAFunctionOfSeedAndEpoch(t *testing.T) {
	path := file(t, "a", numbered(0, 1000))
	order := func(seed uint64, e, batch int) []uint64 {
		r := open(t, dataset.Config{Paths: []string{path}, Batch: batch, Seed: seed})
		if err := r.Seek(e, 0); err != nil {
			t.Fatal(err)
		}
		keys, _ := epoch(t, r)
		return keys
	}
	base := order(1, 0, 10)
	if !slices.Equal(base, order(1, 0, 10)) {
		t.Error("the same seed gives another order")
	}
	if !slices.Equal(base, order(1, 0, 17)) {
		t.Error("the batch size changes the order of rows")
	}
	if slices.Equal(base, order(2, 0, 10)) || slices.Equal(base, order(1, 1, 10)) {
		t.Error("seed or epoch does not change the order")
	}
	// The order is a promise: workers of two versions may share an epoch.
	want := []uint64{176, 953, 681, 426, 166, 114, 55, 745}
	if !slices.Equal(base[:8], want) {
		t.Errorf("seed 1, epoch 0 begins with %v, want %v", base[:8], want)
	}
}

func TestInOrder(t *testing.T) {
	r := open(t, dataset.Config{Paths: []string{file(t, "a", numbered(0, 100))}, Batch: 7, InOrder: true})
	if keys, _ := epoch(t, r); len(keys) != 100 || !slices.IsSorted(keys) {
		t.Errorf("keys %v", keys)
	}
}

func TestSeekFindsTheSameBatch(t *testing.T) {
	const n, size = dataset.WindowRows + 5000, 512
	path := file(t, "a.gz", zip(t, numbered(0, n)))
	cfg := dataset.Config{Paths: []string{path}, Batch: size, Seed: 3}
	straight := open(t, cfg)
	var all [2][][]uint64
	var b dataset.Batch
	for e := range all {
		for next(t, straight, &b) {
			all[e] = append(all[e], slices.Clone(keysOf(&b)))
		}
	}
	last := len(all[0]) - 1
	r := open(t, cfg)
	for _, to := range [][2]int{{0, 0}, {0, 5}, {0, 127}, {0, 128}, {0, 129}, {1, last}, {1, 3}, {0, last}, {1, 0}, {1, 1}, {1, 1}} {
		if err := r.Seek(to[0], to[1]); err != nil {
			t.Fatal(err)
		}
		if e, i := r.Position(); e != to[0] || i != to[1] {
			t.Errorf("at %d, %d after seeking %v", e, i, to)
		}
		if !next(t, r, &b) || !slices.Equal(keysOf(&b), all[to[0]][to[1]]) {
			t.Errorf("batch %v differs from the one read straight", to)
		}
	}
	for _, past := range []int{last + 1, last + 100, math.MaxInt} {
		if err := r.Seek(0, past); err != nil {
			t.Fatal(err)
		}
		if next(t, r, &b) {
			t.Errorf("batch %d of %d", past, last+1)
		}
		if !next(t, r, &b) || !slices.Equal(keysOf(&b), all[1][0]) {
			t.Errorf("no epoch 1 after seeking batch %d of epoch 0", past)
		}
	}
	if err := r.Seek(0, -1); err == nil {
		t.Error("negative batch accepted")
	}
}

func TestRanksShareAnEpoch(t *testing.T) {
	const world = 3
	path := file(t, "a", numbered(0, 1000))
	var got []uint64
	for rank := range world {
		r := open(t, dataset.Config{Paths: []string{path}, Batch: 64, Seed: 9})
		var b dataset.Batch
		for batch := rank; ; batch += world {
			if err := r.Seek(0, batch); err != nil {
				t.Fatal(err)
			}
			if !next(t, r, &b) {
				break
			}
			got = append(got, keysOf(&b)...)
		}
		if e, batch := r.Position(); e != 1 || batch != 0 {
			t.Errorf("rank %d ends at %d, %d", rank, e, batch)
		}
	}
	slices.Sort(got)
	if len(got) != 1000 || got[999] != 999 || len(slices.Compact(got)) != 1000 {
		t.Errorf("%d rows over all ranks", len(got))
	}
}

// TestKnownEndIsNotReadFor takes the file away after one epoch.
func TestKnownEndIsNotReadFor(t *testing.T) {
	path := file(t, "a", numbered(0, 1000))
	r := open(t, dataset.Config{Paths: []string{path}, Batch: 100})
	epoch(t, r)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := r.Seek(0, 10); err != nil {
		t.Fatal(err)
	}
	var b dataset.Batch
	if next(t, r, &b) {
		t.Error("a batch past the end")
	}
	if _, err := r.Next(&b); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the next epoch needs the file: %v", err)
	}
}

func TestSplit(t *testing.T) {
	path := file(t, "a", numbered(0, 95))
	read := func(s dataset.Split) []uint64 {
		r := open(t, dataset.Config{Paths: []string{path}, Batch: 10, Split: s, InOrder: true})
		keys, _ := epoch(t, r)
		if n, err := r.Count(); n != len(keys) || err != nil {
			t.Errorf("count %d, %v of %d rows", n, err, len(keys))
		}
		return keys
	}
	if test := read(dataset.Split{Every: 10, Test: true}); !slices.Equal(test, []uint64{9, 19, 29, 39, 49, 59, 69, 79, 89}) {
		t.Errorf("test rows %v", test)
	}
	train := read(dataset.Split{Every: 10})
	if len(train) != 86 || slices.ContainsFunc(train, func(k uint64) bool { return k%10 == 9 }) {
		t.Errorf("train rows %v", train)
	}
}

func TestValidateJoinsFaults(t *testing.T) {
	_, err := dataset.Open(dataset.Config{Format: "xml", Paths: []string{""}, Batch: -1, Split: dataset.Split{Every: 1}})
	for _, s := range []string{`"xml"`, "empty name", "batch size -1", "every=1"} {
		if err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("error %v, want it to say %q", err, s)
		}
	}
	if _, err := dataset.Open(dataset.Config{}); err == nil || !strings.Contains(err.Error(), "no data file") {
		t.Errorf("without files: %v", err)
	}
}

func TestSkipBad(t *testing.T) {
	path := file(t, "a", "1 1:1\n1 x:1\n0 2:1\n7 3:1\n1 4:1\n")
	r := open(t, dataset.Config{Paths: []string{path}, SkipBad: true, InOrder: true})
	var b dataset.Batch
	if !next(t, r, &b) || !slices.Equal(keysOf(&b), []uint64{1, 2, 4}) {
		t.Errorf("keys %v", keysOf(&b))
	}
	n, first := r.Skipped()
	var bad *dataset.RowError
	if n != 2 || !errors.As(first, &bad) || bad.Line != 2 || bad.Path != path {
		t.Errorf("skipped %d, first %v", n, first)
	}
	all := open(t, dataset.Config{Paths: []string{file(t, "b", "x\ny\n")}, SkipBad: true})
	if _, err := all.Next(&b); err == nil || !strings.Contains(err.Error(), "2 malformed") {
		t.Errorf("only bad rows: %v", err)
	}
}

func TestProgressRises(t *testing.T) {
	r := open(t, dataset.Config{Paths: []string{file(t, "a", numbered(0, 70_000))}, Batch: 1000})
	var b dataset.Batch
	last := r.Progress()
	for next(t, r, &b) {
		if p := r.Progress(); p <= last || p > 1 {
			t.Fatalf("progress %v after %v", p, last)
		} else {
			last = p
		}
	}
	if last < 0.99 || r.Progress() != 0 {
		t.Errorf("progress ends at %v and begins again at %v", last, r.Progress())
	}
}

func TestNextReusesTheBatch(t *testing.T) {
	r := open(t, dataset.Config{Paths: []string{file(t, "a", numbered(0, 60_000))}, Batch: 10})
	var b dataset.Batch
	next(t, r, &b)
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := r.Next(&b); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a batch, want 0", n)
	}
}

// data returns a file of the real data sets, or skips the test.
func data(t *testing.T, path ...string) string {
	t.Helper()
	root := os.Getenv("HCCLPS_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared", "data")
	}
	full, err := filepath.Abs(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(full); err != nil {
		t.Skipf("set HCCLPS_DATA to the data folder: %v", err)
	}
	return full
}

func TestA9aNeedsData(t *testing.T) {
	train, test := data(t, "adult-a9a", "a9a"), data(t, "adult-a9a", "a9a.t")
	for path, want := range map[string]struct{ rows, positive, entries, max int }{
		train: {32561, 7841, 451592, 123},
		test:  {16281, 3846, 225731, 122},
	} {
		r := open(t, dataset.Config{Paths: []string{path}, Batch: 1000})
		var b dataset.Batch
		rows, positive, entries, top := 0, 0, 0, uint64(0)
		for next(t, r, &b) {
			rows += b.Rows
			entries += len(keysOf(&b))
			top = max(top, slices.Max(keysOf(&b)))
			for _, l := range b.Label {
				positive += int(l)
			}
		}
		if rows != want.rows || positive != want.positive || entries != want.entries || int(top) != want.max {
			t.Errorf("%s: %d rows, %d positive, %d entries, largest key %d, want %v", path, rows, positive, entries, top, want)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	var text bytes.Buffer
	var seed [8]byte
	for i := range 32_000 {
		text.WriteString("-1")
		key := uint64(0)
		for j := range 14 {
			binary.LittleEndian.PutUint64(seed[:], uint64(i*14+j))
			key += 1 + uint64(sha256.Sum256(seed[:])[0])
			fmt.Fprintf(&text, " %d:1", key)
		}
		text.WriteString("\n")
	}
	r := open(b, dataset.Config{Paths: []string{file(b, "a", text.String())}})
	var batch dataset.Batch
	b.SetBytes(int64(text.Len()) / (32_000 / 256))
	for b.Loop() {
		if _, err := r.Next(&batch); err != nil {
			b.Fatal(err)
		}
	}
}
