package hccl_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/hccl"
	"hcclps/p2p/hccl/acl"
)

// roleVar makes a process of this test binary play a role in place of running tests; it holds the role as JSON.
const roleVar = "HCCL_TEST_ROLE"

// role is what a process of a test does.
type role struct {
	Kind   string // survivor, sink, source or mirror
	Addr   string // of the survivor, for the others
	Device int
}

// start starts a process in a role, with variables for the simulator. What it prints, line by line, comes out of the channel.
func start(t *testing.T, r role, env ...string) (*exec.Cmd, <-chan string) {
	t.Helper()
	needSim(t)
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"="+string(text), acl.EnvLib+"="+simLib, "HCCL_SIM_QUIET=1", "ASCEND_GLOBAL_LOG_LEVEL=4")
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 64)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	return cmd, lines
}

// say prints what a role has to tell.
func say(what string, more ...any) { fmt.Println(append([]any{what}, more...)...) }

func playRole(text string) int {
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		say("error", err)
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	d, err := hccl.Open(hccl.Config{Device: r.Device})
	if err != nil {
		say("error", err)
		return 1
	}
	go func() { _ = d.Run(ctx) }()
	switch r.Kind {
	case "survivor":
		err = survive(ctx, d)
	case "sink", "source":
		err = serve(ctx, d, r)
	case "mirror":
		err = mirror(ctx, d, r)
	default:
		err = errors.New("no such role")
	}
	if err != nil {
		say("error", err)
		return 1
	}
	return 0
}

const (
	roleBytes    = 1 << 20
	survivorRank = 1
)

func dial(ctx context.Context, d *hccl.Device, r role) (*hccl.Comm, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.Addr)
	if err != nil {
		return nil, err
	}
	c, err := d.Pair(ctx, conn, 1-survivorRank)
	if err != nil {
		return nil, err
	}
	go func() { _ = c.Run(ctx) }()
	return c, nil
}

// serve pairs with the survivor and receives, or sends, until the pair ends.
func serve(ctx context.Context, d *hccl.Device, r role) error {
	c, err := dial(ctx, d, r)
	if err != nil {
		return err
	}
	buf := make([]byte, roleBytes)
	for i := byte(0); ; i++ {
		buf[0], buf[len(buf)-1] = i, i
		if r.Kind == "source" {
			err = p2p.Send(ctx, c, survivorRank, p2p.Bytes(buf))
		} else if err = p2p.Recv(ctx, c, survivorRank, p2p.Bytes(buf)); err == nil && buf[0] != buf[len(buf)-1] {
			err = p2p.ErrCorrupt
		}
		if err != nil {
			return err
		}
	}
}

// mirrored is the length of the i-th message to a mirror.
func mirrored(i int) int {
	return []int{0, 1, 4097, 100_000, 2 << 20, 2<<20 + 1, 5_000_001, 64}[i%8]
}

const mirrorCount = 64

// mirror sends every message back, while the next ones arrive.
func mirror(ctx context.Context, d *hccl.Device, r role) error {
	c, err := dial(ctx, d, r)
	if err != nil {
		return err
	}
	var sends []*p2p.Request
	for i := range mirrorCount {
		buf := make([]byte, mirrored(i))
		if err := p2p.Recv(ctx, c, survivorRank, p2p.Bytes(buf)); err != nil {
			return err
		}
		sends = append(sends, c.Isend(survivorRank, p2p.Bytes(buf)))
	}
	for _, s := range sends {
		if err := s.Wait(ctx); err != nil {
			return err
		}
	}
	return c.Close()
}

// survive pushes to the first peer without pause, while the next ones come and die, and tells what they do and what the
// longest push took.
func survive(ctx context.Context, d *hccl.Device) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	say("listens", l.Addr())
	first, err := accept(ctx, d, l)
	if err != nil {
		return err
	}
	pushes := make(chan error, 1)
	marks := make(chan chan struct{}) // asks for the time after ten more pushes
	go func() { pushes <- push(ctx, first, marks) }()
	for {
		if err := tenPushes(ctx, marks, pushes); err != nil {
			return fmt.Errorf("the pair that lives: %w", err)
		}
		say("pushed")
		c, err := accept(ctx, d, l)
		if err != nil {
			say("refused", err)
			continue
		}
		say("paired")
		buf := make([]byte, roleBytes)
		for err == nil {
			err = p2p.Recv(ctx, c, 1-survivorRank, p2p.Bytes(buf))
		}
		say("lost", err)
	}
}

func accept(ctx context.Context, d *hccl.Device, l net.Listener) (*hccl.Comm, error) {
	conn, err := l.Accept()
	if err != nil {
		return nil, err
	}
	c, err := d.Pair(ctx, conn, survivorRank)
	if err != nil {
		return nil, err
	}
	go func() { _ = c.Run(ctx) }()
	return c, nil
}

// push sends for ever, and says what the longest push took.
func push(ctx context.Context, c *hccl.Comm, marks <-chan chan struct{}) error {
	buf := make([]byte, roleBytes)
	var waiter chan struct{}
	var worst time.Duration
	left := 0
	for i := byte(0); ; i++ {
		select {
		case waiter = <-marks:
			left = 10
		default:
		}
		buf[0], buf[len(buf)-1] = i, i
		began := time.Now()
		if err := p2p.Send(ctx, c, 1-survivorRank, p2p.Bytes(buf)); err != nil {
			return err
		}
		worst = max(worst, time.Since(began))
		if left--; left == 0 {
			say("worst", worst.Round(time.Millisecond/10))
			close(waiter)
		}
	}
}

func tenPushes(ctx context.Context, marks chan<- chan struct{}, ended <-chan error) error {
	done := make(chan struct{})
	select {
	case marks <- done:
	case err := <-ended:
		return err
	}
	select {
	case <-done:
		return nil
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
