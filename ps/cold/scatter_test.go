package cold_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hcclps/ps/table"
)

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

// TestReadsBringNothingElse: each file of the log is read without a readahead, the first and those that come when it is full.
func TestReadsBringNothingElse(t *testing.T) {
	s, dir := open(t, table.NewMemory(64<<20))
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	units := s.Table()
	data := make([]byte, 1<<20)
	for id := range uint32(70) { // a file has 32 MiB
		if err := units.Write([]uint32{id}, data); err != nil {
			t.Fatal(err)
		}
	}
	flags := flagsOf(t, dir)
	if len(flags) < 2 {
		t.Fatalf("mapped are %v, want some files of the log", flags)
	}
	for file, f := range flags {
		if !strings.Contains(f, " rr ") {
			t.Errorf("%s is read with a readahead: flags %s", file, f)
		}
	}
}
