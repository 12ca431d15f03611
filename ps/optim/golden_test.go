package optim_test

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hcclps/ps/optim"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// TestGolden pins the bits of every rule after 1,000 steps. The file is the same for every CPU: run it under qemu-user for arm64.
func TestGolden(t *testing.T) {
	var b strings.Builder
	for _, c := range cases() {
		fmt.Fprintf(&b, "%x  %s\n", digest(t, c), caseName(c))
	}
	path := filepath.Join("testdata", "golden.txt")
	if *rewrite {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the bits have changed (-rewrite accepts them, and no stored training run continues as it was):\n%swant\n%s", b.String(), want)
	}
}

// TestGoldenWithoutKernels pins the same bits with the plain loops of internal/vec, in a process of its own, since the choice is made at its start.
func TestGoldenWithoutKernels(t *testing.T) {
	if *rewrite {
		t.Skip("TestGolden writes the file")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), exe, "-test.run", "^TestGolden$", "-test.v")
	c.Env = append(os.Environ(), "HCCLPS_NOSIMD=1")
	out, err := c.CombinedOutput()
	if errors.Is(err, syscall.ENOEXEC) {
		t.Skip("under an emulator a test cannot start itself")
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: TestGolden ") {
		t.Errorf("%v\n%s", err, out)
	}
}

// digest is the SHA-256 of a row of 64 weights and its slots after 1,000 steps on seeded gradients.
func digest(t *testing.T, c optim.Config) []byte {
	t.Helper()
	r := mustNew(t, c)
	rng := rand.New(rand.NewPCG(1, 1000))
	row, grad := newRow(rng, r, 64), make([]float32, 64)
	var state optim.State
	for range 1000 {
		for i := range grad {
			grad[i] = gradient(rng)
		}
		r.Advance(&state)
		r.Step(&state, 1).Update(row, grad)
	}
	h := sha256.New()
	for _, v := range row {
		_ = binary.Write(h, binary.LittleEndian, math.Float32bits(v))
	}
	_ = binary.Write(h, binary.LittleEndian, state)
	return h.Sum(nil)
}

func BenchmarkUpdate(b *testing.B) {
	for _, name := range optim.Names() {
		b.Run(name, func(b *testing.B) {
			r := mustNew(b, optim.Config{Name: name})
			row, grad := make([]float32, 16+r.Slots(16)), make([]float32, 16)
			for i := range grad {
				grad[i] = 0.01 * float32(i)
			}
			var s optim.State
			r.Advance(&s)
			u := r.Step(&s, 1)
			for b.Loop() {
				u.Update(row, grad)
			}
			b.ReportMetric(16/1e6/(b.Elapsed().Seconds()/float64(b.N)), "Mweights/s")
		})
	}
}
