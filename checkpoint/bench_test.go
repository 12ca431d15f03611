package checkpoint

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// benchTable is 64 rows of 16 weights and 16 slots a page: 9,218 bytes.
func benchTable() []Table { return []Table{{ID: 1, Name: "user", Dim: 16, Slots: 16}} }

func cpuSeconds(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

const benchPages = 40_000 // 369 MB

// benchPart writes a part whose pages differ by seed in one of every `every`.
func benchPart(b *testing.B, s *Store, id, base uint64, every int) Part {
	b.Helper()
	w, err := s.Begin(b.Context(), Spec{ID: id, Job: testJob, Group: 1, Shards: 1, Tables: benchTable(), Base: base})
	if err != nil {
		b.Fatal(err)
	}
	page := []byte(makePage(&benchTable()[0], PageID{1, 0, 0}, 64, 1))
	for i := range benchPages {
		if base != 0 && i%every != 0 {
			continue
		}
		binary.LittleEndian.PutUint64(page[2:], uint64(i))
		seed := uint64(0)
		if i%every == 0 {
			seed = id
		}
		binary.LittleEndian.PutUint64(page[20:], seed)
		if err := w.WritePage(b.Context(), Page{PageID{1, uint16(i % 1024), uint32(i / 1024)}, page}); err != nil {
			b.Fatal(err)
		}
	}
	part, err := w.Finish(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	m := Manifest{ID: id, Job: testJob, Shards: 1, Tables: benchTable(), Parts: []Part{part}}
	if base != 0 {
		m.Base = &Base{ID: base}
	}
	if _, err := s.Commit(b.Context(), m); err != nil {
		b.Fatal(err)
	}
	return part
}

// BenchmarkFull and BenchmarkPlainFile: a full checkpoint, and a plain file of as
// many bytes, syncs counted on both sides. TMPDIR says where.
func BenchmarkFull(b *testing.B) {
	b.SetBytes(benchPages * 9218)
	cpu := 0.0
	for b.Loop() {
		b.StopTimer()
		dir := b.TempDir()
		s, err := Open(Config{Dir: filepath.Join(dir, "d"), Catalogue: filepath.Join(dir, "c")})
		if err != nil {
			b.Fatal(err)
		}
		begin := cpuSeconds(b)
		b.StartTimer()
		benchPart(b, s, 1, 0, 1)
		b.StopTimer()
		cpu += cpuSeconds(b) - begin
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		_ = os.RemoveAll(dir)
		b.StartTimer()
	}
	b.ReportMetric(cpu*1e9/float64(b.N)/(benchPages*9218/1e9)/1e9, "cpu-s/GB")
}

func BenchmarkPlainFile(b *testing.B) {
	b.SetBytes(benchPages * 9218)
	buf := make([]byte, 1<<20)
	for i := range buf {
		buf[i] = byte(i * 7)
	}
	for b.Loop() {
		b.StopTimer()
		dir := b.TempDir()
		b.StartTimer()
		f, err := os.Create(filepath.Join(dir, "f"))
		if err != nil {
			b.Fatal(err)
		}
		for left := benchPages * 9218; left > 0; left -= len(buf) {
			if _, err := f.Write(buf[:min(left, len(buf))]); err != nil {
				b.Fatal(err)
			}
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		_ = f.Close()
		b.StopTimer()
		_ = os.RemoveAll(dir)
		b.StartTimer()
	}
}

// BenchmarkAgain writes what is there already, BenchmarkRead reads it, BenchmarkVerify
// verifies it.
func BenchmarkAgain(b *testing.B) {
	dir := b.TempDir()
	s, err := Open(Config{Dir: filepath.Join(dir, "d"), Catalogue: filepath.Join(dir, "c")})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	benchPart(b, s, 1, 0, benchPages)
	id := uint64(1)
	b.SetBytes(benchPages * 9218)
	for b.Loop() {
		id++
		if p := benchPart(b, s, id, 0, benchPages); p.New > 1<<20 {
			b.Fatal(p)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	s, err := Open(Config{Dir: filepath.Join(dir, "d")})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	benchPart(b, s, 1, 0, 1)
	b.SetBytes(benchPages * 9218)
	for b.Loop() {
		c, err := s.Load(b.Context(), 1)
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for _, err := range c.Rows(b.Context(), Query{}) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 64*benchPages {
			b.Fatal(n)
		}
		c.Close()
	}
}

func BenchmarkVerify(b *testing.B) {
	dir := b.TempDir()
	s, err := Open(Config{Dir: filepath.Join(dir, "d")})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	benchPart(b, s, 1, 0, 1)
	b.SetBytes(benchPages * 9218)
	for b.Loop() {
		if _, err := s.Verify(b.Context(), nil); err != nil {
			b.Fatal(err)
		}
	}
}
