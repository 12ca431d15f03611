package sim

import (
	"os"
	"path/filepath"
	"testing"
)

func TestManyTransfersLeakNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("20,000 sends take seconds")
	}
	dir := simulator(t)
	world{exe: program(t, dir, "leak"), dir: dir, size: 2}.run(t)
}

func TestSanitizers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the simulator twice more")
	}
	needCompiler(t)
	for name, c := range map[string]struct {
		flag     string
		programs map[string][]string
	}{
		"address,undefined": {
			flag: "-fsanitize=address,undefined",
			programs: map[string][]string{
				"pingpong": nil, "collectives": nil, "misuse": {"two streams"}, "batch": {"all pairs"},
			},
		},
		"thread": {flag: "-fsanitize=thread", programs: map[string][]string{"pingpong": nil}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if !canSanitize(t, dir, c.flag) {
				t.Skipf("the compiler has no %s", c.flag)
			}
			if _, err := build(t.Context(), dir, c.flag, "-fno-sanitize-recover=all", "-O1"); err != nil {
				t.Fatal(err)
			}
			for prog, args := range c.programs {
				exe := program(t, dir, prog, c.flag)
				world{exe: exe, dir: dir, size: 2, args: args, env: []string{"TSAN_OPTIONS=halt_on_error=1"}}.run(t)
			}
		})
	}
}

// canSanitize tells whether the compiler can link with a flag: the run-time libraries are packages of their own.
func canSanitize(t *testing.T, dir, flag string) bool {
	t.Helper()
	cc, err := compiler()
	if err != nil {
		return false
	}
	src := filepath.Join(dir, "empty.c")
	if err := os.WriteFile(src, []byte("int main(void) { return 0; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return run(t.Context(), cc, []string{flag, src, "-o", filepath.Join(dir, "empty")}) == nil
}
