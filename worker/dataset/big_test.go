package dataset_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"hcclps/worker/dataset"
)

// generated is text of one format, of about that many rows.
func generated(format string, rows int) string {
	rng := rand.New(rand.NewPCG(1, 2))
	var out strings.Builder
	if format == dataset.FormatCSV || format == dataset.FormatTSV {
		writeRow(&out, rng, format+" header")
	}
	for range rows {
		writeRow(&out, rng, format)
	}
	return out.String()
}

// writeRow writes a row of a click log: 13 numbers, 13 ids as text, 13 numbers
// as text.
func writeRow(w io.Writer, rng *rand.Rand, format string) {
	var b []byte
	sep := byte('\t')
	switch format {
	case "csv header", "tsv header":
		if format == "csv header" {
			sep = ','
		}
		b = append(b, "label"...)
		for i := range 39 {
			b = fmt.Appendf(append(b, sep), "f%d", i)
		}
	case dataset.FormatCSV, dataset.FormatTSV, dataset.FormatCriteo:
		if format == dataset.FormatCSV {
			sep = ','
		}
		b = strconv.AppendInt(b, rng.Int64N(2), 10)
		for i := range 39 {
			b = append(b, sep)
			if i < 13 {
				b = strconv.AppendInt(b, rng.Int64N(1000), 10)
			} else {
				b = strconv.AppendUint(b, rng.Uint64N(1<<32)|1<<31, 16)
			}
		}
	case dataset.FormatRatings:
		b = fmt.Appendf(b, "%d::%d::%d::%d", rng.IntN(20000), rng.IntN(10000), rng.IntN(11), 1370000000+rng.IntN(1e8))
	default:
		b = strconv.AppendInt(b, rng.Int64N(2), 10)
		key := int64(0)
		for i := range 39 {
			b = append(b, ' ')
			if format == dataset.FormatLibffm {
				b = append(strconv.AppendInt(b, int64(i), 10), ':')
			}
			key += 1 + rng.Int64N(100_000)
			b = append(strconv.AppendInt(b, key, 10), ":1"...)
		}
	}
	_, _ = w.Write(append(b, '\n')) // into memory, or a bufio.Writer that keeps the error
}

// BenchmarkFormats reads rows of 39 features (ratings: 2) of each format.
func BenchmarkFormats(b *testing.B) {
	const rows = 32_000
	for _, format := range dataset.Formats() {
		b.Run(format, func(b *testing.B) {
			text := generated(format, rows)
			r := open(b, dataset.Config{Format: format, Paths: []string{file(b, "data", text)}})
			var batch dataset.Batch
			b.SetBytes(int64(len(text)) / (rows / 256))
			n := 0
			b.ResetTimer()
			for b.Loop() {
				if _, err := r.Next(&batch); err != nil {
					b.Fatal(err)
				}
				n += batch.Rows
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// TestBigFileInLittleMemory reads 1 GiB of csv.gz in under 200 MiB. It takes
// minutes: HCCLPS_BIG=1 asks for it, or a number of MiB.
func TestBigFileInLittleMemory(t *testing.T) {
	size, err := strconv.Atoi(os.Getenv("HCCLPS_BIG"))
	if err != nil {
		t.Skip("set HCCLPS_BIG=1, or to a number of MiB")
	}
	if size == 1 {
		size = 1024
	}
	path := filepath.Join(t.TempDir(), "big.csv.gz")
	rows := writeBig(t, path, int64(size)<<20)
	debug.FreeOSMemory()
	before := peak(t)
	start := time.Now()
	r := open(t, dataset.Config{Format: "csv", Paths: []string{path}})
	var b dataset.Batch
	got := 0
	for next(t, r, &b) {
		got += b.Rows
	}
	seconds := time.Since(start).Seconds()
	t.Logf("%d rows in %.1f s, %.0f rows/s; peak memory %d MiB, %d before reading", got, seconds, float64(got)/seconds, peak(t)>>20, before>>20)
	if got != rows {
		t.Errorf("%d rows, want %d", got, rows)
	}
	if p := peak(t); p > 200<<20 {
		t.Errorf("peak memory %d MiB, want at most 200", p>>20)
	}
}

// writeBig writes a csv.gz of at least size bytes and returns its rows.
func writeBig(t *testing.T, path string, size int64) int {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriterSize(z, 1<<20)
	rng := rand.New(rand.NewPCG(3, 4))
	writeRow(w, rng, "csv header")
	rows := 0
	for written := int64(0); written < size; rows += 10_000 {
		for range 10_000 {
			writeRow(w, rng, dataset.FormatCSV)
		}
		if written, err = f.Seek(0, io.SeekCurrent); err != nil {
			t.Fatal(err)
		}
	}
	for _, end := range []func() error{w.Flush, z.Close, f.Close} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	return rows
}

// peak is the largest memory that the process has had.
func peak(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Skip("no VmHWM")
	return 0
}
