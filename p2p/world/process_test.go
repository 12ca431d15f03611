package world_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"hcclps/p2p"
	"hcclps/p2p/backend"
	"hcclps/p2p/p2ptest"
	"hcclps/p2p/world"
)

const childVar = "HCCLPS_TEST_WORLD_TRANSPORT"

// patience is how long a rank over real sockets may be silent, and the measure of how long processes may take, on a machine that is busy.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	if transport := os.Getenv(childVar); transport != "" {
		play := playRank
		if os.Getenv(elasticVar) != "" {
			play = playElastic
		}
		if err := play(context.Background(), transport, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// playRank is a rank in a process of its own: it passes messages to the right and takes them from the left until that fails, and prints why.
func playRank(ctx context.Context, transport string, out io.Writer) error {
	cfg, err := world.Env(os.LookupEnv)
	if err != nil {
		return err
	}
	bulk, err := backend.NewBulk(backend.Config{Transport: backend.Transport(transport)})
	if err != nil {
		return err
	}
	cfg.Pair, cfg.Info = bulk.Pair, fmt.Sprintf("process %d", os.Getpid())
	cfg.Suspect = patience // the machine may be busy, and a process that is killed is heard of at once
	if cfg.Network, err = backend.OpenSockets(backend.Sockets{}); err != nil {
		return err
	}
	w, err := world.Open(ctx, cfg)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, 4*patience)
	defer stop()
	var all errgroup.Group
	all.Go(func() error { return w.Run(ctx) })
	err = pass(ctx, w, out)
	select {
	case <-w.Failed():
	case <-ctx.Done():
	}
	rank, reason := w.Verdict()
	fmt.Fprintf(out, "verdict %d %s: %v\n", rank, reason, err)
	stop()
	if err := all.Wait(); !errors.Is(err, p2p.ErrPeer) {
		return fmt.Errorf("run ended with %w", err)
	}
	return nil
}

// pass is a ring of messages without an end.
func pass(ctx context.Context, w *world.World, out io.Writer) error {
	c, err := w.Comm(ctx, "ring", nil)
	if err != nil {
		return err
	}
	in, mine := make([]byte, 1<<20), make([]byte, 1<<20)
	right, left := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	for i := 0; ; i++ {
		mine[0] = byte(i)
		recv, send := c.Irecv(left, p2p.Bytes(in)), c.Isend(right, p2p.Bytes(mine))
		if err := errors.Join(recv.Wait(ctx), send.Wait(ctx)); err != nil {
			return err
		}
		if in[0] != byte(i) {
			return fmt.Errorf("message %d is %d", i, in[0])
		}
		if i == 10 {
			fmt.Fprintln(out, "ready with hosts", w.Hosts())
		}
	}
}

// A rank that is killed is named by all others, whichever it is and whatever carries the bytes.
func TestProcesses(t *testing.T) {
	const n = 4
	for _, transport := range []backend.Transport{backend.SHM, backend.TCP} {
		for _, victim := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s kill %d", transport, victim), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
				defer cancel()
				at := p2ptest.FreeAddr(t)
				var ranks [n]*child
				for r := range ranks {
					ranks[r] = startRank(ctx, t, r, n, at, transport)
				}
				for r, c := range ranks {
					if line := c.line(t); line != "ready with hosts [0 0 0 0]" {
						t.Fatalf("rank %d says %q", r, line)
					}
				}
				check(t, ranks[victim].cmd.Process.Kill())
				for r, c := range ranks {
					if r == victim {
						continue
					}
					line := c.line(t)
					dead := fmt.Sprintf("rank %d (process %d) failed", victim, ranks[victim].cmd.Process.Pid)
					if !strings.HasPrefix(line, fmt.Sprintf("verdict %d ", victim)) || !strings.Contains(line, dead) {
						t.Errorf("rank %d says %q, want that %s", r, line, dead)
					}
					checkSoft(t, c.cmd.Wait())
				}
				_ = ranks[victim].cmd.Wait() // it was killed
			})
		}
	}
}

// child is the process of a rank.
type child struct {
	cmd *exec.Cmd
	out *bufio.Scanner
}

func (c *child) line(t *testing.T) string {
	t.Helper()
	if !c.out.Scan() {
		t.Fatalf("rank has ended: %v", c.out.Err())
	}
	return c.out.Text()
}

func startRank(ctx context.Context, t *testing.T, rank, size int, at *net.TCPAddr, transport backend.Transport) *child {
	t.Helper()
	return begin(t, rankCommand(ctx, t, rank, size, at, transport))
}

// rankCommand is the process of a rank, not yet started.
func rankCommand(ctx context.Context, t *testing.T, rank, size int, at *net.TCPAddr, transport backend.Transport) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	check(t, err)
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), childVar+"="+string(transport), fmt.Sprint("RANK=", rank), fmt.Sprint("WORLD_SIZE=", size),
		fmt.Sprint("LOCAL_RANK=", rank), "MASTER_ADDR="+at.IP.String(), fmt.Sprint("MASTER_PORT=", at.Port))
	cmd.Stderr = os.Stderr
	return cmd
}

func begin(t *testing.T, cmd *exec.Cmd) *child {
	t.Helper()
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	return &child{cmd, bufio.NewScanner(out)}
}
