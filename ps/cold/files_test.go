package cold

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hcclps/ps/table"
)

// storeOf makes a store with units of a mebibyte, whose bytes are their numbers.
func storeOf(t *testing.T, count uint32) (*Store, *units) {
	t.Helper()
	s, err := Open(Config{Dir: filepath.Join(t.TempDir(), "cold"), Memory: table.NewMemory(64 << 20)})
	if err != nil {
		t.Fatal(err)
	}
	u := s.Table().(*units)
	t.Cleanup(func() {
		if err := errors.Join(u.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	for id := range count {
		if err := u.Write(t.Context(), []uint32{id}, bytes.Repeat([]byte{byte(id)}, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	return s, u
}

// check reads all units.
func check(t *testing.T, u *units, count uint32) {
	t.Helper()
	got := make([]byte, 1<<20)
	for id := range count {
		if err := u.Read([]uint32{id}, got); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{byte(id)}, 1<<20)) {
			t.Fatalf("unit %d: %v, %d", id, err, got[0])
		}
	}
}

// TestReadsOfFiles: units are read from the files of the log, without Badger, and those that are not where they were seen are found all the same, once.
func TestReadsOfFiles(t *testing.T) {
	const count = 70 // a file has 32 MiB
	s, u := storeOf(t, count)
	check(t, u, count)
	if n := s.stats.searched.Load(); n != 0 {
		t.Errorf("%d units were not where they were seen", n)
	}
	u.mu.Lock()
	first, second, third := u.places.of(0), u.places.of(1), u.places.of(2)
	at, _ := u.places.span(second)
	u.places.see(first, at)
	u.places.see(third, spot{file: 1 << 30, at: 5})
	u.mu.Unlock()
	check(t, u, count)
	check(t, u, count)
	if n := s.stats.searched.Load(); n != 2 {
		t.Errorf("%d units were searched, want 2", n)
	}
	s.files.close()
	check(t, u, count)
	if n := s.stats.searched.Load(); n != 2+count {
		t.Errorf("%d units were searched, want %d", n, 2+count)
	}
}

// TestMovedSegments: where segments are is found anew after their files went.
func TestMovedSegments(t *testing.T) {
	const count = 4
	s, u := storeOf(t, count)
	u.mu.Lock()
	for number := range u.places.segments {
		u.places.see(number, spot{file: 1 << 30})
	}
	u.mu.Unlock()
	gone := s.files.removed()
	if gone(spot{}) || gone(spot{file: 1}) || !gone(spot{file: 1 << 30}) {
		t.Errorf("gone: nowhere %t, the first file %t, no file %t", gone(spot{}), gone(spot{file: 1}), gone(spot{file: 1 << 30}))
	}
	u.find(s.db, gone)
	check(t, u, count)
	if n := s.stats.searched.Load(); n != 0 {
		t.Errorf("%d units were searched", n)
	}
}

// TestReadsBringNothingElse: full files of the log are read without a readahead.
func TestReadsBringNothingElse(t *testing.T) {
	s, _ := storeOf(t, 70)
	dir, err := filepath.EvalSymlinks(s.cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	flags := flagsOf(t, dir)
	if len(flags) < 2 {
		t.Fatalf("mapped are %v, want some files of the log", flags)
	}
	for file, f := range flags {
		if full := file != logName(s.files.next-1); full && !strings.Contains(f, " rr ") {
			t.Errorf("%s is read with a readahead: flags %s", file, f)
		}
	}
}

// flagsOf are the system's flags of what is mapped of a folder's value log, by file.
func flagsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skipf("the system does not say how files are mapped: %v", err)
	}
	out, file := map[string]string{}, ""
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if head, _, _ := strings.Cut(line, " "); !strings.HasSuffix(head, ":") { // of a mapping
			file = ""
			if _, name, ok := strings.Cut(line, dir+"/"); ok && strings.HasSuffix(name, ".vlog") {
				file = name
			}
		}
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && file != "" {
			out[file] = flags + " "
		}
	}
	return out
}
