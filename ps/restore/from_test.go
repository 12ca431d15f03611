package restore_test

import (
	"os"
	"path/filepath"
	"testing"

	"hcclps/ps/restore"
)

func TestParseSource(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	there := filepath.Join(dir, "kept@7")
	if err := os.Mkdir(there, 0o700); err != nil {
		t.Fatal(err)
	}
	for s, want := range map[string]restore.Source{
		dir:                               {Dir: dir},
		dir + "@9":                        {Dir: dir, ID: 9},
		dir + "@0":                        {Dir: dir + "@0"},
		there:                             {Dir: there},
		there + "@9":                      {Dir: there, ID: 9},
		filepath.Join(dir, "kept") + "@8": {Dir: filepath.Join(dir, "kept"), ID: 8},
	} {
		if got, err := restore.ParseSource(s); err != nil || got != want {
			t.Errorf("%s: %+v, %v", s, got, err)
		}
	}
	if _, err := restore.ParseSource("@7"); err == nil {
		t.Error("a number without a folder was taken")
	}
}
