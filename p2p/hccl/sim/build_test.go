package sim

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBuildLaysTheNamesOfCANN(t *testing.T) {
	t.Parallel()
	needCompiler(t)
	dir := t.TempDir()
	lib, err := Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if lib != filepath.Join(dir, Library) {
		t.Errorf("library is %s", lib)
	}
	for _, name := range append(links(), "include/acl/acl.h", "include/hccl/hccl.h") {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "src-*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestBuildSaysWhatIsMissing(t *testing.T) {
	t.Setenv("CC", "no-such-compiler")
	_, err := Build(t.Context(), t.TempDir())
	if !errors.Is(err, ErrNoCompiler) || !strings.Contains(err.Error(), "gcc") {
		t.Errorf("got %v", err)
	}
}

func TestBuildTellsOfCompilerErrors(t *testing.T) {
	t.Parallel()
	needCompiler(t)
	_, err := build(t.Context(), t.TempDir(), "-DHcclSend=!")
	if err == nil || !strings.Contains(err.Error(), "error:") {
		t.Errorf("got %v", err)
	}
}
