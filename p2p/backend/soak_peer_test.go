package backend_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hcclps/p2p/hccl/acl"
	"hcclps/p2p/hccl/sim"
)

// siteVar makes a process of this test binary a station that dies; it holds its site as JSON.
const siteVar = "HCCLPS_TEST_SITE"

// TestMain plays a station, or runs the tests and removes the simulator that they built.
func TestMain(m *testing.M) {
	if text := os.Getenv(siteVar); text != "" {
		if err := playStation(text); err != nil {
			fmt.Fprintln(os.Stdout, "fault", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if simDir != "" {
		_ = os.RemoveAll(simDir)
	}
	os.Exit(code)
}

// simDir is where this process has built the simulator, "" if it has not.
var simDir string

// simulator is the library that was given, or else the simulator of CANN, built once: a process must not load two.
var simulator = sync.OnceValues(func() (string, error) {
	if given := os.Getenv(acl.EnvLib); given != "" {
		return given, nil
	}
	dir, err := os.MkdirTemp("", "backend-sim-")
	if err != nil {
		return "", err
	}
	simDir = dir
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return sim.Build(ctx, dir)
})

// simulated are the variables for the simulator: its seconds are short, so that what waits for HCCL's time-outs comes to an end.
func simulated(lib string) map[string]string {
	return map[string]string{acl.EnvLib: lib, "HCCL_SIM_QUIET": "1", "HCCL_SIM_SECOND_MS": "20", "ASCEND_GLOBAL_LOG_LEVEL": "4"}
}

// needSimulator makes this process use the simulator. It says whether there is one.
func needSimulator(t *testing.T) bool {
	t.Helper()
	path, err := simulator()
	if errors.Is(err, sim.ErrNoCompiler) {
		t.Logf("NOT RUN over hccl, which needs the simulator: %v", err)
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	lib, err := acl.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range simulated(path) {
		if err := lib.Setenv(name, value); err != nil {
			t.Fatal(err)
		}
	}
	return true
}

// playStation is a station until standard input ends. It says where it listens, and what must not happen.
func playStation(text string) error {
	var s site
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if s.Role != "" {
		return s.playEnd(ctx)
	}
	st, err := newStation(ctx, s, &load{fault: func(err error) { fmt.Fprintln(os.Stdout, "fault", err) }})
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, "listens", st.ln.Addr())
	return st.run(ctx)
}

// victim is the other station: a process, or for inproc a part of this one.
type victim struct {
	addr  string
	stall func(stop bool) // nil: it cannot be stopped
	kill  func() error    // and waits until it is gone
}

// startVictim starts the station of s. What it must not do is told to fault.
func startVictim(ctx context.Context, s site, fault func(error)) (*victim, error) {
	if s.Transport == "inproc" {
		return startInside(ctx, s, fault)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), siteVar+"="+string(text))
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(output)
	v := &victim{stall: func(stop bool) {
		signal := syscall.SIGCONT
		if stop {
			signal = syscall.SIGSTOP
		}
		_ = cmd.Process.Signal(signal)
	}}
	if lines.Scan() {
		v.addr, _ = strings.CutPrefix(lines.Text(), "listens ")
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines.Scan() {
			fault(fmt.Errorf("the other process: %s", lines.Text()))
		}
	}()
	v.kill = func() error {
		_ = cmd.Process.Kill()
		<-read
		err := cmd.Wait()
		_ = input.Close()
		if state, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !state.Signaled() || state.Signal() != syscall.SIGKILL {
			return fmt.Errorf("the process ended before it was killed: %w", err)
		}
		return nil
	}
	return v, nil
}

// startInside starts a station in this process.
func startInside(ctx context.Context, s site, fault func(error)) (*victim, error) {
	ctx, cancel := context.WithCancel(ctx)
	st, err := newStation(ctx, s, &load{fault: fault})
	if err != nil {
		cancel()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- st.run(ctx) }()
	return &victim{addr: st.ln.Addr().String(), kill: func() error {
		cancel()
		return <-ended
	}}, nil
}
