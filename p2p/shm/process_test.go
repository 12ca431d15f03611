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
	"syscall"
	"testing"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/shm"
)

// The tests start this binary again as the other process. It is told by two variables where to connect and what to do.
const (
	peerAddr = "HCCLPS_SHM_PEER_ADDR" // network and address
	peerRole = "HCCLPS_SHM_PEER_ROLE" // a name, or a name:number
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

// process is this binary, running as the peer: rank 1.
type process struct {
	*exec.Cmd
	conn    net.Conn // to negotiate on
	control net.Conn // a second one, for orders
	out     *bufio.Scanner
	ran     chan error // of rank 0's Run
}

// startPeer starts the peer process with two connections to it.
func startPeer(tb testing.TB, network, role string) *process {
	tb.Helper()
	return startPeerAs(tb, network, role, nil)
}

func startPeerAs(tb testing.TB, network, role string, attr *syscall.SysProcAttr) *process {
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
	p := &process{Cmd: exec.Command("/proc/self/exe"), ran: make(chan error, 1)}
	p.SysProcAttr = attr
	p.Env = append(os.Environ(), peerAddr+"="+network+" "+l.Addr().String(), peerRole+"="+role)
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	if err := p.Start(); err != nil {
		if attr != nil && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC)) {
			tb.Skipf("this system does not let a test start such a process: %v", err)
		}
		tb.Fatal(err)
	}
	tb.Cleanup(p.kill)
	for _, conn := range []*net.Conn{&p.conn, &p.control} {
		if *conn, err = l.Accept(); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = (*conn).Close() })
	}
	return p
}

// kill ends the peer as no program can prevent, and returns when it is gone.
func (p *process) kill() {
	_ = p.Process.Kill() // it may have ended
	_ = p.Wait()
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
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { p.ran <- c.Run(ctx) })
	tb.Cleanup(func() {
		_ = c.Close()
		wg.Wait()
		cancel()
	})
	return c
}

// playPeer is the other process: rank 1.
func playPeer(where, role string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	conn, err := dialPeer(ctx, where)
	if err != nil {
		return err
	}
	control, err := dialPeer(ctx, where)
	if err != nil {
		return err
	}
	name, arg, _ := strings.Cut(role, ":")
	n, _ := strconv.Atoi(arg)
	if name == "stall" {
		conn = &stalling{Conn: conn, writes: n}
	}
	c, err := shm.Negotiate(ctx, conn, 1, shm.Config{})
	if name == "stranger" {
		return playStranger(conn, err)
	}
	if err != nil {
		return err
	}
	ran := make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()
	switch name {
	case "remote":
		err = playRemote(ctx, c, control)
	case "echo":
		err = playEcho(ctx, c, n)
	case "sink":
		err = playSink(ctx, c, n)
	case "source":
		err = p2p.Send(ctx, c, 0, p2p.Bytes(make([]byte, n)))
	case "idle":
		fmt.Println("idle")
		err = <-ran
	default:
		err = fmt.Errorf("unknown role %q", role)
	}
	if errors.Is(err, p2p.ErrPeer) || errors.Is(err, p2p.ErrClosed) {
		err = nil // the test is over
	}
	return errors.Join(err, c.Close())
}

// stalling is a connection that says so and writes no more after so many writes.
type stalling struct {
	net.Conn
	writes int
}

func (s *stalling) Write(b []byte) (int, error) {
	if s.writes == 0 {
		fmt.Println("stalled")
		select {} // until it is killed
	}
	s.writes--
	return s.Conn.Write(b)
}

// playStranger reports why there is no shared memory, and uses the connection for something else.
func playStranger(conn net.Conn, err error) error {
	if !errors.Is(err, shm.ErrNotLocal) {
		return fmt.Errorf("negotiate: %w, want %w", err, shm.ErrNotLocal)
	}
	if _, err := conn.Write([]byte("hello")); err != nil {
		return err
	}
	b := make([]byte, 5)
	if _, err := conn.Read(b); err != nil || string(b) != "world" {
		return fmt.Errorf("read %q: %w", b, err)
	}
	return nil
}

// buffers are n pieces of memory that have been used before.
func buffers(n, size int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = make([]byte, size)
		for j := range all[i][:min(size, 1021)] {
			all[i][j] = byte(i + j)
		}
		for have := 1021; have < size; have *= 2 {
			copy(all[i][have:], all[i][:have])
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
