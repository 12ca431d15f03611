package hccl_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/hccl"
	"hcclps/p2p/hccl/acl"
	"hcclps/p2p/hccl/sim"
)

const patience = time.Minute

// TestMain plays a role, or runs the tests and removes the simulator that they built.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		os.Exit(playRole(role))
	}
	code := m.Run()
	if simDir != "" {
		_ = os.RemoveAll(simDir)
	}
	os.Exit(code)
}

var (
	simOnce sync.Once
	simDir  string
	simLib  string
	errSim  error

	libOnce sync.Once
	theLib  *acl.Lib
	errLib  error
)

// needSim builds the simulator once, for this process and those it starts. It skips the test without a C compiler.
func needSim(t testing.TB) {
	t.Helper()
	simOnce.Do(func() {
		if simLib = os.Getenv(acl.EnvLib); simLib != "" {
			return // there is one already
		}
		if simDir, errSim = os.MkdirTemp("", "hccl-sim-"); errSim == nil { //nolint:usetesting // it outlives the test
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			simLib, errSim = sim.Build(ctx, simDir)
		}
	})
	if errors.Is(errSim, sim.ErrNoCompiler) {
		t.Skipf("%s needs the HCCL simulator: %v", t.Name(), errSim)
	}
	if errSim != nil {
		t.Fatal(errSim)
	}
}

// simulator is the simulator in this process, a 910B unless the environment says otherwise.
func simulator(t testing.TB) *acl.Lib {
	t.Helper()
	needSim(t)
	libOnce.Do(func() {
		if theLib, errLib = acl.Load(simLib); errLib == nil {
			errLib = errors.Join(theLib.Setenv("HCCL_SIM_QUIET", "1"), theLib.Setenv("ASCEND_GLOBAL_LOG_LEVEL", "4"))
		}
	})
	if errLib != nil {
		t.Fatal(errLib)
	}
	return theLib
}

// device opens and runs a device of the simulator.
func device(t testing.TB, cfg hccl.Config) *hccl.Device {
	t.Helper()
	cfg.Lib = simulator(t)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(complainer{slog.DiscardHandler, t})
	}
	d, err := hccl.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := d.Run(ctx); ctx.Err() == nil {
			t.Errorf("run device %d: %v", cfg.Device, err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return d
}

// complainer fails a test with every warning: HCCL has found a fault of ours.
type complainer struct {
	slog.Handler
	t testing.TB
}

func (c complainer) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (c complainer) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	c.t.Error(text)
	return nil
}

// pipe is a connection over loopback.
func pipe(t testing.TB) [2]net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return [2]net.Conn{a, b}
}

// pair makes a pair between two devices of this process.
func pair(t testing.TB, devices [2]*hccl.Device) ([2]*hccl.Comm, [2]error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conns := pipe(t)
	var comms [2]*hccl.Comm
	var errs [2]error
	var wg sync.WaitGroup
	for r := range 2 {
		wg.Go(func() { comms[r], errs[r] = devices[r].Pair(ctx, conns[r], r) })
	}
	wg.Wait()
	return comms, errs
}

func mustPair(t testing.TB, devices [2]*hccl.Device) [2]*hccl.Comm {
	t.Helper()
	comms, errs := pair(t, devices)
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return comms
}

// run runs the Comms of a pair until the test ends.
func run(t testing.TB, comms [2]*hccl.Comm) []p2p.Comm {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, c := range comms {
		wg.Go(func() { _ = c.Run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return []p2p.Comm{comms[0], comms[1]}
}

// relay listens for one connection and joins it with conn, so that a process can be given the other end of a pipe.
func relay(t testing.TB, conn net.Conn) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(conn, c)
			_ = conn.Close()
		}()
		_, _ = io.Copy(c, conn)
		_ = c.Close()
	}()
	return l.Addr().String()
}

var discard = slog.New(slog.DiscardHandler)
