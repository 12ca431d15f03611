package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hcclps/cmd/internal/pairbench"
	"hcclps/cmd/internal/program"
)

// TestMain lets the test binary be the other process of a measurement.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "bench" && (os.Args[2] == "peer" || os.Args[2] == "server" || os.Args[2] == "rank") {
		os.Exit(program.Main(app()))
	}
	os.Exit(m.Run())
}

func TestBenchOfTwoProcesses(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for _, transport := range []string{pairbench.Inproc, pairbench.Unix, pairbench.TLS} {
		code, stdout, stderr := command(ctx, "bench", "p2p", "--transport", transport, "--sizes", "8,64KiB", "--time", "20ms", "--rounds", "1", "--json", "--bidir")
		if code != 0 {
			t.Fatalf("%s: exit %d: %s", transport, code, stderr)
		}
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		for i, want := range []int{8, 64 << 10} {
			var r pairbench.Result
			if err := json.Unmarshal([]byte(lines[i]), &r); err != nil || r.Size != want || r.Wrong != 0 || r.Algbw <= 0 || r.Micros <= 0 {
				t.Errorf("%s: %s: %v", transport, lines[i], err)
			}
		}
		if len(lines) != 2 {
			t.Errorf("%s: %d lines, want 2: %s", transport, len(lines), stdout)
		}
	}
	if dirs, err := filepath.Glob(filepath.Join(os.TempDir(), "hcclps-bench-*")); err != nil || len(dirs) > 0 {
		t.Errorf("left behind: %q, %v", dirs, err)
	}
}

func TestUsageOfBench(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--transport", "tpc"}, "did you mean tcp?"},
		{[]string{"--sizes", "8,many"}, `"many"`},
		{[]string{"--sizes", "4GiB"}, "2GiB"},
		{[]string{"--stripes", "0"}, "stripes"},
		{[]string{"--rounds", "0"}, "rounds"},
		{[]string{"--transfer", "--transport", "inproc"}, "--transfer"},
		{[]string{"extra"}, `"extra"`},
	} {
		code, _, stderr := command(t.Context(), append([]string{"bench", "p2p"}, c.args...)...)
		if code != 2 || !strings.Contains(stderr, c.says) {
			t.Errorf("%q: exit %d, %q: want 2 and %q", c.args, code, stderr, c.says)
		}
	}
}

// What killed the other process of a measurement is the first cause, unless it was the end of this one.
func TestWhatKilledTheOtherProcessStandsFirst(t *testing.T) {
	killed := exec.CommandContext(t.Context(), "sh", "-c", "kill -KILL $$").Run()
	failed, interrupted := errors.New("peer lost"), errors.New("interrupt")
	for name, c := range map[string]struct{ err, cause, end, want error }{
		"all is well":   {},
		"it fails":      {err: failed},
		"it is killed":  {failed, killed, killed, errors.Join(killed, failed)},
		"we are ended":  {failed, interrupted, killed, failed},
		"its end alone": {nil, killed, killed, killed},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if c.cause != nil {
			cancel(c.cause)
		}
		ended := make(chan error, 1)
		ended <- c.end
		want := c.want
		if want == nil {
			want = c.err
		}
		if got := joinEnd(ctx, c.err, ended, cancel); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		cancel(nil)
	}
}
