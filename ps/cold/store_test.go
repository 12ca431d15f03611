package cold_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"hcclps/ps/cold"
	"hcclps/ps/table"
)

func open(t testing.TB, memory *table.Memory) (*cold.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cold")
	s, err := cold.Open(cold.Config{Dir: dir, Memory: memory})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, dir
}

// TestUnits: what was written last is read, of each table its own, in any order of calls.
func TestUnits(t *testing.T) {
	memory := table.NewMemory(64 << 20)
	s, dir := open(t, memory)
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 || memory.Used() != 0 {
		t.Fatalf("a store in which nothing is cold: %d files, %v, %d bytes", len(files), err, memory.Used())
	}
	rng := rand.New(rand.NewPCG(1, 1))
	sizes := []int{48, 1160, 100_000} // in the tree, in the log, a very wide row
	tables := []table.Cold{s.Table(), s.Table(), s.Table()}
	want := []map[uint32][]byte{{}, {}, {}}
	pick := func(n int) []uint32 {
		ids := make([]uint32, n)
		for i := range ids {
			ids[i] = rng.Uint32N(500)
		}
		slices.Sort(ids)
		return slices.Compact(ids)
	}
	for round := range 60 {
		i := round % len(tables)
		ids := pick(1 + rng.IntN(60))
		var data []byte
		for _, id := range ids {
			unit := bytes.Repeat([]byte{byte(rng.Uint32())}, sizes[i])
			want[i][id] = unit
			data = append(data, unit...)
		}
		if err := tables[i].Write(t.Context(), ids, data); err != nil {
			t.Fatal(err)
		}
		ids = slices.DeleteFunc(pick(100), func(id uint32) bool { return want[i][id] == nil })
		if len(ids) == 0 {
			continue
		}
		got := make([]byte, len(ids)*sizes[i])
		if err := tables[i].Read(ids, got); err != nil {
			t.Fatal(err)
		}
		for k, id := range ids {
			if !bytes.Equal(got[k*sizes[i]:][:sizes[i]], want[i][id]) {
				t.Fatalf("unit %d of table %d is another", id, i)
			}
		}
	}
	if st := s.Stats(); st.Writes == 0 || st.Reads == 0 || st.Memory > memory.Used() || st.Memory == 0 {
		t.Errorf("%+v, %d bytes in use", st, memory.Used())
	}
	if err := tables[1].Read([]uint32{600}, make([]byte, 1160)); err == nil || !strings.Contains(err.Error(), "unit 600 of table 2") {
		t.Errorf("a unit that was never written: %v", err)
	}
	var some uint32
	for id := range want[1] {
		some = id
	}
	if err := tables[1].Read([]uint32{some}, make([]byte, 1000)); err == nil || !strings.Contains(err.Error(), "has 1160 bytes, want 1000") {
		t.Errorf("a unit of another length: %v", err)
	}
	if err := tables[1].Close(); err != nil {
		t.Fatal(err)
	}
	if err := tables[1].Read([]uint32{some}, make([]byte, 1160)); err == nil {
		t.Error("a unit of a closed table is still there")
	}
	if err := s.Close(); err != nil || memory.Used() != 0 {
		t.Errorf("close: %v, %d bytes in use", err, memory.Used())
	}
	if err := tables[0].Write(t.Context(), []uint32{1}, make([]byte, 48)); !errors.Is(err, cold.ErrClosed) {
		t.Errorf("write after close: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
}

// TestSpace: units that are written over and over do not fill the disk.
func TestSpace(t *testing.T) {
	s, dir := open(t, table.NewMemory(64<<20))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	units := s.Table()
	rng := rand.New(rand.NewPCG(1, 3))
	const size, count, batch = 4096, 2000, 100
	written, most := int64(0), int64(0)
	for written < 480<<20 {
		ids := make([]uint32, batch)
		for i := range ids {
			ids[i] = rng.Uint32N(count)
		}
		slices.Sort(ids)
		ids = slices.Compact(ids)
		data := make([]byte, len(ids)*size)
		for i, id := range ids {
			data[i*size] = byte(id)
		}
		if err := units.Write(t.Context(), ids, data); err != nil {
			t.Fatal(err)
		}
		if written += int64(len(data)); written>>20%16 == 0 {
			most = max(most, onDisk(t, dir))
		}
		got := make([]byte, len(data))
		if err := units.Read(ids, got); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("read back: %v", err)
		}
	}
	t.Logf("%d MiB written, of %d, at most %d on disk; %+v", written>>20, count*size>>20, most>>20, s.Stats())
	if most > 320<<20 {
		t.Errorf("%d MiB on disk", most>>20)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// onDisk is what the files of a folder take.
func onDisk(t *testing.T, dir string) (n int64) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		var st syscall.Stat_t
		if syscall.Stat(filepath.Join(dir, f.Name()), &st) == nil { // it may be gone by now
			n += st.Blocks * 512
		}
	}
	return n
}

// TestOpenEmpties: what another process has left is removed.
func TestOpenEmpties(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "000001.vlog"), []byte("of another life"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := cold.Open(cold.Config{Dir: dir, Memory: table.NewMemory(1 << 20)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("%d files, %v", len(files), err)
	}
	if err := s.Table().Write(t.Context(), []uint32{1}, make([]byte, 100)); err != nil {
		t.Error(err)
	}
}

// TestDamage: bytes that were changed on disk are not taken for rows.
func TestDamage(t *testing.T) {
	s, dir := open(t, table.NewMemory(1<<20))
	units := s.Table()
	mark := bytes.Repeat([]byte("cold row"), 500)
	if err := units.Write(t.Context(), []uint32{7}, mark); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.vlog"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no value log: %v", err)
	}
	for _, file := range files {
		f, err := os.OpenFile(file, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		head := make([]byte, 64<<10)
		n, _ := f.ReadAt(head, 0)
		if at := bytes.Index(head[:n], mark); at >= 0 {
			if _, err := f.WriteAt([]byte("C"), int64(at)+100); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := units.Read([]uint32{7}, make([]byte, len(mark))); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a damaged unit: %v", err)
	}
}

// scale writes the gradient into a row.
type scale struct{}

func (scale) Update(row, grad []float32) { copy(row, grad) }

// TestTable: a table of several times its memory keeps its rows here.
func TestTable(t *testing.T) {
	memory := table.NewMemory(9 << 20)
	s, _ := open(t, memory)
	spec := table.Spec{Dim: 32, Slots: 32, Memory: memory, Cold: s.Table}
	tab, err := table.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	var mu sync.RWMutex
	rng := rand.New(rand.NewPCG(1, 2))
	last := map[uint64]float32{}
	for round := range 60 {
		keys := make([]uint64, 2000)
		for i := range keys {
			keys[i] = rng.Uint64N(60_000)
		}
		slices.Sort(keys)
		keys = slices.Compact(keys)
		grads := make([]float32, len(keys)*spec.Dim)
		for i := range grads {
			grads[i] = float32(round)
		}
		if err := tab.Warm(t.Context(), &mu, keys); err != nil {
			t.Fatal(err)
		}
		if err := tab.Apply(keys, grads, table.Stamp{}, scale{}); err != nil {
			t.Fatal(err)
		}
		if err := tab.Cool(t.Context(), &mu); err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			last[key] = float32(round)
		}
	}
	rows := 0
	tab.Scan(0, true, 0, func(r table.Row) bool {
		if want, ok := last[r.Key]; !ok || r.Values[0] != want || r.Values[31] != want {
			t.Errorf("key %d: %v, want %v", r.Key, r.Values, want)
		}
		rows++
		return true
	})
	st := tab.Stats()
	if rows != len(last) || tab.Err() != nil || st.Cold.Rows < st.Rows/2 {
		t.Errorf("%d rows of %d, %v; %+v", rows, len(last), tab.Err(), st)
	}
	if memory.Used() > memory.Limit()*11/10 {
		t.Errorf("%d bytes in use of %d", memory.Used(), memory.Limit())
	}
}
