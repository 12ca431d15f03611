package worker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hcclps/worker"
)

func TestCheckSaveRefusesFoldersOfOthers(t *testing.T) {
	file := func(name string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fresh := filepath.Join(t.TempDir(), "a", "b")
	for _, dir := range []string{fresh, t.TempDir(), filepath.Dir(file("table-1-abcdefgh.rows.12.tmp"))} {
		if err := worker.CheckSave(dir); err != nil {
			t.Error(err)
		}
	}
	if files, err := os.ReadDir(fresh); err != nil || len(files) > 0 {
		t.Errorf("the check left %v, %v", files, err)
	}
	for _, dir := range []string{file("file"), "/proc/x", filepath.Dir(file("thesis.tex")), filepath.Dir(file("manifest.json"))} {
		if err := worker.CheckSave(dir); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
