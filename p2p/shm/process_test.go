package shm_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/shm"
)

// The tests start this binary again as the other process. It is told by two variables where to connect and what to do.
const (
	peerAddr = "HCCLPS_SHM_PEER_ADDR" // network and address
	peerRole = "HCCLPS_SHM_PEER_ROLE"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(peerAddr); addr != "" {
		if err := playPeer(addr, os.Getenv(peerRole)); err != nil {
			fmt.Fprintln(os.Stderr, "peer process:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// process is this binary, running as the peer.
type process struct {
	*exec.Cmd
	conn net.Conn
	out  *bufio.Scanner
}

// startPeer starts the peer process with a connection to it.
func startPeer(tb testing.TB, network, role string) *process {
	tb.Helper()
	addr := "127.0.0.1:0"
	if network == "unix" {
		addr = filepath.Join(tb.TempDir(), "s")
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	p := &process{Cmd: exec.Command("/proc/self/exe")}
	p.Env = append(os.Environ(), peerAddr+"="+network+" "+l.Addr().String(), peerRole+"="+role)
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	if err := p.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = p.Process.Kill() // it may have ended
		_ = p.Wait()
	})
	if p.conn, err = l.Accept(); err != nil {
		tb.Fatal(err)
	}
	return p
}

// says waits for a line of the peer's output.
func (p *process) says(tb testing.TB, want string) {
	tb.Helper()
	if !p.out.Scan() || p.out.Text() != want {
		tb.Fatalf("peer said %q (%v), want %q", p.out.Text(), p.out.Err(), want)
	}
}

// join makes rank 0 with the peer and runs it until the test is over.
func (p *process) join(tb testing.TB, config shm.Config) *shm.Comm {
	tb.Helper()
	c, err := shm.Negotiate(tb.Context(), p.conn, 0, config)
	if err != nil {
		tb.Fatal(err)
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() { _ = c.Run(ctx) })
	tb.Cleanup(func() {
		_ = c.Close()
		wg.Wait()
		cancel()
	})
	return c
}

// playPeer is the other process: rank 1.
func playPeer(addr, role string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	network, addr, _ := strings.Cut(addr, " ")
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return err
	}
	name, arg, _ := strings.Cut(role, ":")
	size, _ := strconv.Atoi(arg)
	c, err := shm.Negotiate(ctx, conn, 1, shm.Config{})
	if err != nil {
		return err
	}
	ran := make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()
	switch name {
	case "echo":
		err = playEcho(ctx, c, size)
	case "sink":
		err = playSink(ctx, c, size)
	default:
		err = fmt.Errorf("unknown role %q", role)
	}
	if errors.Is(err, p2p.ErrPeer) || errors.Is(err, p2p.ErrClosed) {
		err = nil // the test is over
	}
	return errors.Join(err, c.Close())
}

// buffers are n pieces of memory that have been used before.
func buffers(n, size int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = make([]byte, size)
		for j := range all[i] {
			all[i][j] = byte(i + j)
		}
	}
	return all
}

// playEcho sends back what comes.
func playEcho(ctx context.Context, c *shm.Comm, size int) error {
	for i, bufs := 0, buffers(turn, size); ; i++ {
		b := p2p.Bytes(bufs[i%turn])
		if err := p2p.Recv(ctx, c, 0, b); err != nil {
			return err
		}
		if err := p2p.Send(ctx, c, 0, b); err != nil {
			return err
		}
	}
}

// playSink takes windows of messages and answers each window.
func playSink(ctx context.Context, c *shm.Comm, size int) error {
	bufs := buffers(turn, size)
	var reqs [turn]*p2p.Request
	for n := uint64(0); ; n++ {
		for i := range reqs {
			reqs[i] = c.Irecv(0, p2p.Bytes(bufs[i]))
		}
		for _, r := range reqs {
			if err := r.Wait(ctx); err != nil {
				return err
			}
		}
		if err := p2p.Send(ctx, c, 0, p2p.Bytes(binary.LittleEndian.AppendUint64(nil, n))); err != nil {
			return err
		}
	}
}
