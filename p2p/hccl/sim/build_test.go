package sim

import (
	"testing"
)

func TestBuild(t *testing.T) {
	if _, err := build(t.Context(), t.TempDir(), "-Wall", "-Wextra", "-Werror"); err != nil {
		t.Fatal(err)
	}
}
