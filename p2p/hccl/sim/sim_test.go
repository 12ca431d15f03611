package sim

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// built is the simulator of this test binary and its programs, made by the first tests that need them.
var built struct {
	dir      string
	once     sync.Once
	err      error
	mu       sync.Mutex
	programs map[string]*sync.Once
}

// More tests run at once than there are cores: what they wait for is time-outs.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	dir, err := os.MkdirTemp("", "hccl-sim-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built.dir, built.programs = dir, map[string]*sync.Once{}
	code := m.Run()
	os.RemoveAll(dir) //nolint:errcheck // of the temporary folder
	os.Exit(code)
}

// simulator builds the library once, with every warning an error.
func simulator(t *testing.T) string {
	t.Helper()
	needCompiler(t)
	built.once.Do(func() {
		_, built.err = build(context.Background(), built.dir, "-Wall", "-Wextra", "-Werror")
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir
}

func needCompiler(t *testing.T) {
	t.Helper()
	if _, err := compiler(); err != nil {
		t.Skipf("the simulator needs a C compiler: %v", err)
	}
}

// program compiles testdata/name.c against the simulator in dir, once.
func program(t *testing.T, dir, name string, more ...string) string {
	t.Helper()
	cc, err := compiler()
	if err != nil {
		t.Skipf("the test program needs a C compiler: %v", err)
	}
	exe := filepath.Join(dir, name)
	built.mu.Lock()
	if built.programs[exe] == nil {
		built.programs[exe] = new(sync.Once)
	}
	once := built.programs[exe]
	built.mu.Unlock()
	once.Do(func() {
		args := []string{
			"-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread",
			"-I", filepath.Join(dir, "include"), "-I", "testdata", filepath.Join("testdata", name+".c"),
			"-o", exe, "-L", dir, "-lhccl", "-lhcomm", "-lascendcl",
		}
		if err := run(t.Context(), cc, append(args, more...)); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := os.Stat(exe); err != nil {
		t.Fatal(err)
	}
	return exe
}

// world is one run of a program as several ranks.
type world struct {
	exe  string
	dir  string // of the simulator
	size int
	env  []string
	args []string
}

// end is how a rank ended.
type end struct {
	code   int // -1: by a signal
	signal syscall.Signal
	stderr string
	took   time.Duration
	rss    int64 // bytes at the most
}

func (e end) String() string {
	return fmt.Sprintf("exit %d signal %d after %v: %s", e.code, e.signal, e.took.Round(time.Millisecond), e.stderr)
}

// start runs all ranks to their end, which comes within minutes.
func (w world) start(t *testing.T) []end {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	root := filepath.Join(t.TempDir(), "root")
	ends := make([]end, w.size)
	var all sync.WaitGroup
	for rank := range w.size {
		all.Go(func() {
			args := append([]string{strconv.Itoa(rank), strconv.Itoa(w.size), root}, w.args...)
			ends[rank] = w.rank(ctx, args)
		})
	}
	all.Wait()
	return ends
}

func (w world) rank(ctx context.Context, args []string) end {
	cmd := exec.CommandContext(ctx, w.exe, args...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+w.dir, "HCCL_SIM_QUIET=1", "ASCEND_GLOBAL_LOG_LEVEL=4")
	cmd.Env = append(cmd.Env, w.env...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	began := time.Now()
	err := cmd.Run()
	e := end{stderr: strings.TrimSpace(said.String()), took: time.Since(began)}
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		e.code, e.stderr = -1, err.Error()
		return e
	}
	e.code = cmd.ProcessState.ExitCode()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.signal = status.Signal()
	}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		e.rss = usage.Maxrss * 1024
	}
	return e
}

// run fails the test unless every rank exits with 0.
func (w world) run(t *testing.T) []end {
	t.Helper()
	ends := w.start(t)
	for rank, e := range ends {
		if e.code != 0 {
			t.Errorf("rank %d of %d: %v", rank, w.size, e)
		}
	}
	return ends
}

// quick makes HCCL's own time-outs (120 s and more) last a hundredth.
const quick = "HCCL_SIM_SECOND_MS=10"

// scenarios runs each named scenario of one program as size ranks.
func scenarios(t *testing.T, name string, cases []scenario) {
	t.Helper()
	dir := simulator(t)
	exe := program(t, dir, name)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := world{exe: exe, dir: dir, size: max(c.size, 1), env: c.env, args: append([]string{c.name}, c.args...)}
			w.run(t)
		})
	}
}

type scenario struct {
	name string
	size int
	env  []string
	args []string
}
