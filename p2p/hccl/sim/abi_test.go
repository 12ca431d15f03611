package sim

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestLayouts(t *testing.T) {
	t.Parallel()
	dir := simulator(t)
	cmd := exec.CommandContext(t.Context(), program(t, dir, "layout"))
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir)
	got, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/layout.golden")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("layouts differ from testdata/layout.golden:\n%s", got)
	}
}

// The exported names are those of the file and no others: what a real library has not, a program must not find here.
func TestExportedNames(t *testing.T) {
	t.Parallel()
	dir := simulator(t)
	f, err := elf.Open(filepath.Join(dir, "libhccl.so"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			got = append(got, s.Name)
		}
	}
	slices.Sort(got)
	text, err := os.ReadFile("testdata/symbols.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(string(text))
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("%s is not exported", name)
		}
	}
	for _, name := range got {
		if !slices.Contains(want, name) && !strings.HasPrefix(name, "_") {
			t.Errorf("%s is exported and not in testdata/symbols.txt", name)
		}
	}
}
