package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hcclps/cmd/internal/program"
	"hcclps/p2p/backend"
	"hcclps/p2p/world"
)

// meeting is where the workers of a job meet: in launch, so that each of them may die, or stand still. nil where there is one worker.
type meeting struct {
	host *world.Host
}

// openMeeting makes the rendezvous.
func (l *launcher) openMeeting(ctx context.Context) (*meeting, error) {
	n := l.c.Int("workers")
	if n < 2 {
		return nil, nil
	}
	sockets := program.Sockets(l.c, l.cluster, nil)
	sockets.TokenFile = l.token
	network, err := backend.OpenSockets(sockets)
	if err != nil {
		return nil, err
	}
	at := "unix:" + filepath.Join(l.dir, "meet.sock")
	if l.c.Bool("tcp") {
		at = "127.0.0.1:0"
	} else if err := os.Remove(filepath.Join(l.dir, "meet.sock")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open rendezvous: %w", err)
	}
	h, err := world.OpenHost(ctx, world.Config{Size: n, Master: at, Network: network, Info: "ps-worker launch", Logger: l.procs.log})
	if err != nil {
		return nil, err
	}
	return &meeting{h}, nil
}

// run serves the workers until stop is called, also beyond the end of ctx: the workers are told to end before that.
func (m *meeting) run(ctx context.Context, fail context.CancelCauseFunc) (stop func()) {
	if m == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := m.host.Run(ctx); err != nil {
			fail(err)
		}
	}()
	return func() { cancel(); <-ended }
}

// address is that of the rendezvous, "" without.
func (m *meeting) address() string {
	if m == nil {
		return ""
	}
	return m.host.Addr()
}

// living is how many workers are together there.
func (m *meeting) living() int {
	if m == nil {
		return 0
	}
	return m.host.Living()
}

// restarts is how often workers that die are started again: what was asked for, or else as often as the program's workers let others come.
func (l *launcher) restarts() (int, error) {
	n := l.c.Int("max-rebuilds")
	if l.c.IsSet("max-rebuilds") {
		if n < 0 {
			return 0, program.Usage("--max-rebuilds %d: want 0 or more", n)
		}
		return n, nil
	}
	for i, a := range l.command {
		name, value, given := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if name != "max-rebuilds" || !strings.HasPrefix(a, "-") {
			continue
		}
		if !given && i+1 < len(l.command) {
			value = l.command[i+1]
		}
		if n, err := strconv.Atoi(value); err == nil && n >= 0 {
			return n, nil
		}
	}
	return n, nil
}

// withoutServers refuses what has no effect where there are none.
func (l *launcher) withoutServers() error {
	if l.c.Int("servers") > 0 {
		return nil
	}
	for _, flag := range []string{"replicas", "shards", "durability", "log-budget", "memory", "kill-leader-every", "ps-server", "server-devices", "checkpoint-dir", "checkpoint-every", "checkpoint-keep", "checkpoint-rate", "restore"} {
		if l.c.IsSet(flag) {
			return program.Usage("--%s is for servers, of which there are none: --servers 0", flag)
		}
	}
	return nil
}
