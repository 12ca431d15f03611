package collective_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"hcclps/p2p"
	"hcclps/p2p/backend"
	"hcclps/p2p/collective"
	"hcclps/p2p/p2ptest"
	"hcclps/p2p/shm/region"
	processes "hcclps/p2p/world"
)

// The tests start this binary again as the ranks. They are told by a variable what to do besides who they are.
const rankVar = "HCCLPS_TEST_SHARED_RANK"

// TestMain plays such a rank, or runs the tests: on one processor where the race detector watches. The timers of a synctest bubble
// share one context of the detector, and two processors that fire such timers at the same time crash it in its own code (Go 1.26;
// a calibration has thousands). It finds races all the same: it judges by what happens before what, not by what overlapped.
func TestMain(m *testing.M) {
	if role := os.Getenv(rankVar); role != "" {
		if err := playRank(context.Background(), role, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "rank:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if watched {
		runtime.GOMAXPROCS(1)
	}
	code := m.Run()
	if simDir != "" {
		_ = os.RemoveAll(simDir)
	}
	os.Exit(code)
}

// playRank is a rank in a process of its own.
func playRank(ctx context.Context, role string, out io.Writer) error {
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	defer stop()
	cfg, err := processes.Env(os.LookupEnv)
	if err != nil {
		return err
	}
	bulk, err := backend.NewBulk(backend.Config{Transport: backend.SHM})
	if err != nil {
		return err
	}
	cfg.Pair, cfg.Info = bulk.Pair, fmt.Sprintf("process %d", os.Getpid())
	cfg.Suspect = time.Minute // the machine may be busy, and a process that is killed is heard of at once
	if cfg.Network, err = backend.OpenSockets(backend.Sockets{}); err != nil {
		return err
	}
	w, err := processes.Open(ctx, cfg)
	if err != nil {
		return err
	}
	var all errgroup.Group
	all.Go(func() error {
		_ = w.Run(ctx) // what it says the group says too
		return nil
	})
	err = playShared(ctx, w, role, out)
	stop()
	return errors.Join(err, all.Wait())
}

func playShared(ctx context.Context, w *processes.World, role string, out io.Writer) (err error) {
	comm, err := w.Comm(ctx, "shared", nil)
	if err != nil {
		return err
	}
	memory, err := backend.Share(ctx, comm, w.Hosts(), region.Config{Memory: 64 << 20})
	if err != nil {
		return err
	}
	if memory == nil {
		return errors.New("no memory is shared")
	}
	defer func() { err = errors.Join(err, memory.Close()) }()
	cfg := collective.Config{Comm: comm, Control: w, Shared: memory, Watchdog: time.Minute}
	if role == "alone" {
		cfg.Control = nil // a death is seen in the memory, or never
	}
	g, err := collective.New(cfg)
	if err != nil {
		return err
	}
	var all errgroup.Group
	all.Go(func() error {
		_ = g.Run(ctx) // the operations say it
		return nil
	})
	if role == "work" {
		err = playWork(ctx, g)
		fmt.Fprintln(out, "done")
	} else {
		err = playUntilTheEnd(ctx, g, out)
	}
	return errors.Join(err, g.Close(), all.Wait())
}

// playWork does some of everything and checks it.
func playWork(ctx context.Context, g *collective.Group) error {
	p := g.Size()
	for _, n := range []int{1, 100, 10_000, 300_001} {
		own, err := g.Alloc(4 * n)
		if err != nil {
			return err
		}
		for _, b := range []p2p.Buffer{own, p2p.Bytes(make([]byte, 4*n))} {
			for i := range n {
				put(p2p.Float32, b.Host(), i, float64(i%97+g.Rank()))
			}
			if err := g.AllReduce(b, b, p2p.Float32, collective.Sum).Wait(ctx); err != nil {
				return err
			}
			for i := range n {
				if got, want := get(p2p.Float32, b.Host(), i), float64(i%97*p+p*(p-1)/2); got != want {
					return fmt.Errorf("element %d of %d is %v, want %v", i, n, got, want)
				}
			}
			all := make([]byte, 4*n*p)
			if err := g.AllGather(b, p2p.Bytes(all), p2p.Float32).Wait(ctx); err != nil {
				return err
			}
			if !bytes.Equal(all, bytes.Repeat(b.Host(), p)) {
				return fmt.Errorf("gathered %d elements are not what all have", n)
			}
		}
	}
	return g.Barrier().Wait(ctx)
}

// playUntilTheEnd reduces until that fails, and says why.
func playUntilTheEnd(ctx context.Context, g *collective.Group, out io.Writer) error {
	small, large := p2p.Bytes(make([]byte, 8)), p2p.Bytes(make([]byte, 4<<20))
	for i := 0; ; i++ {
		for _, b := range []p2p.Buffer{small, large} {
			if err := g.AllReduce(b, b, p2p.Float32, collective.Sum).Wait(ctx); err != nil {
				fmt.Fprintln(out, err)
				if !errors.Is(err, p2p.ErrPeer) && !errors.Is(err, p2p.ErrClosed) {
					return err
				}
				return nil
			}
		}
		if i == 10 {
			fmt.Fprintln(out, "ready")
		}
	}
}

// rankProcess is the process of a rank.
type rankProcess struct {
	*exec.Cmd
	out *bufio.Scanner
}

func startRanks(ctx context.Context, t *testing.T, n int, role string) []rankProcess {
	t.Helper()
	at := p2ptest.FreeAddr(t) // for rank 0
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var all []rankProcess
	for r := range n {
		cmd := exec.CommandContext(ctx, exe)
		cmd.Env = append(os.Environ(), rankVar+"="+role, "RANK="+strconv.Itoa(r), "WORLD_SIZE="+strconv.Itoa(n), "LOCAL_RANK="+strconv.Itoa(r),
			"MASTER_ADDR="+at.IP.String(), "MASTER_PORT="+strconv.Itoa(at.Port))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()
		})
		all = append(all, rankProcess{cmd, bufio.NewScanner(out)})
	}
	return all
}

func (p rankProcess) says(t *testing.T) string {
	t.Helper()
	if !p.out.Scan() {
		t.Fatalf("a rank has ended without a word: %v", p.out.Err())
	}
	return p.out.Text()
}

func TestProcessesShareMemory(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for r, p := range startRanks(ctx, t, 4, "work") {
		if line := p.says(t); line != "done" {
			t.Errorf("rank %d says %q", r, line)
		}
		if err := p.Wait(); err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// A rank that is killed in the middle of an operation ends it at all others, which name it. Its memory has no name that could stay.
func TestARankThatSharesMemoryIsKilled(t *testing.T) {
	const ranks = 4
	for _, role := range []string{"controlled", "alone"} {
		for _, victim := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s/%d", role, victim), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				all := startRanks(ctx, t, ranks, role)
				for r, p := range all {
					if line := p.says(t); line != "ready" {
						t.Fatalf("rank %d says %q", r, line)
					}
				}
				if err := all[victim].Process.Kill(); err != nil {
					t.Fatal(err)
				}
				for r, p := range all {
					if r == victim {
						continue
					}
					line := p.says(t)
					named := strings.Contains(line, fmt.Sprintf("rank %d", victim))
					if role == "alone" {
						named = strings.Contains(line, "rank ") // it may have been told by one that saw it first
					}
					if !named {
						t.Errorf("rank %d says %q of rank %d", r, line, victim)
					}
					if err := p.Wait(); err != nil {
						t.Errorf("rank %d: %v", r, err)
					}
				}
				_ = all[victim].Wait() // it was killed
			})
		}
	}
}
