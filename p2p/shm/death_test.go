package shm_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/shm"
)

// patience bounds how long the death of a peer may go unnoticed.
const patience = time.Minute

// leavesNothing checks, when all other cleanups are done, that no shared memory is mapped or open.
func leavesNothing(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Error(err)
		}
		if n := strings.Count(string(maps), "memfd:hcclps"); n != 0 {
			t.Errorf("%d mappings left", n)
		}
		fds, err := filepath.Glob("/proc/self/fd/*")
		if err != nil {
			t.Error(err)
		}
		for _, fd := range fds {
			if name, err := os.Readlink(fd); err == nil && strings.Contains(name, "memfd:hcclps") {
				t.Errorf("descriptor left: %s", name)
			}
		}
	})
}

// mustEnd waits for a Request that must fail with want.
func mustEnd(t *testing.T, r *p2p.Request, want error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.Wait(ctx); !errors.Is(err, want) {
		t.Errorf("transfer with a dead peer: %v, want %v", err, want)
	}
}

// mustReturn waits for the end of rank 0's Run.
func (p *process) mustReturn(t *testing.T, want error) {
	t.Helper()
	select {
	case err := <-p.ran:
		if !errors.Is(err, want) {
			t.Errorf("run with a dead peer: %v, want %v", err, want)
		}
	case <-time.After(patience):
		t.Error("run does not end")
	}
}

func TestKilledWhileNegotiating(t *testing.T) {
	leavesNothing(t)
	for _, writes := range []int{0, 1} {
		p := startPeer(t, "tcp", "stall:"+string(rune('0'+writes)))
		failed := make(chan error, 1)
		go func() {
			_, err := shm.Negotiate(context.Background(), p.conn, 0, shm.Config{Timeout: time.Minute})
			failed <- err
		}()
		p.says(t, "stalled")
		p.kill()
		select {
		case err := <-failed:
			if !errors.Is(err, p2p.ErrPeer) {
				t.Errorf("killed after %d writes: %v", writes, err)
			}
		case <-time.After(patience):
			t.Errorf("killed after %d writes: not noticed", writes)
		}
	}
}

func TestKilledIdle(t *testing.T) {
	leavesNothing(t)
	for _, network := range []string{"unix", "tcp"} {
		p := startPeer(t, network, "idle")
		c := p.join(t, shm.Config{})
		p.says(t, "idle")
		p.kill()
		p.mustReturn(t, p2p.ErrPeer)
		mustEnd(t, c.Isend(1, p2p.Bytes(nil)), p2p.ErrClosed)
	}
}

func TestKilledWhileWeSleep(t *testing.T) {
	leavesNothing(t)
	p := startPeer(t, "unix", "idle")
	c := p.join(t, shm.Config{})
	p.says(t, "idle")
	watched, waited := c.Irecv(1, p2p.Bytes(make([]byte, 8))), c.Irecv(1, p2p.Bytes(make([]byte, 8)))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		mustEnd(t, waited, p2p.ErrPeer)
	}()
	done := watched.Done()
	for !c.Asleep() {
		runtime.Gosched()
	}
	p.kill()
	select {
	case <-done:
	case <-time.After(patience):
		t.Error("the transfer does not end")
	}
	mustEnd(t, watched, p2p.ErrPeer)
	<-ended
	p.mustReturn(t, p2p.ErrPeer)
}

func TestKilledMidMessage(t *testing.T) {
	const size, at = 16 << 20, 3
	for role, post := range map[string]func(*shm.Comm, func([]byte) error) *p2p.Request{
		"source:16777216": func(c *shm.Comm, each func([]byte) error) *p2p.Request { return c.IrecvFunc(1, size, each) },
		"sink:16777216":   func(c *shm.Comm, each func([]byte) error) *p2p.Request { return c.IsendFunc(1, size, each) },
	} {
		leavesNothing(t)
		p := startPeer(t, "unix", role)
		c := p.join(t, shm.Config{})
		pieces := 0
		r := post(c, func([]byte) error {
			if pieces++; pieces == at {
				p.kill()
			}
			return nil
		})
		mustEnd(t, r, p2p.ErrPeer)
		p.mustReturn(t, p2p.ErrPeer)
		if pieces < at {
			t.Errorf("%s: %d pieces", role, pieces)
		}
	}
}
