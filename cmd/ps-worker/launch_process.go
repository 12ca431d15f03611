package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is how to start one child.
type process struct {
	name   string
	path   string
	args   []string
	env    []string
	socket string // removed before a start: a killed server leaves it behind
	rank   int
	worker bool
}

// processes are launch's children. They are in process groups of their own, so
// that a Ctrl-C reaches launch alone, and die with it.
type processes struct {
	stdout, stderr io.Writer
	log            *slog.Logger
	onFailure      func(name string, err error) // a server ended that nobody killed
	stopping       bool

	mu       sync.Mutex
	children map[string]*child
	json     bool // rank 0 printed a line of JSON, which report prints instead
}

type child struct {
	process
	cmd    *exec.Cmd
	killed bool          // by us, to be started again
	ended  chan struct{} // closed when it has ended for good
	err    error
}

func newProcesses(stdout, stderr io.Writer, log *slog.Logger) *processes {
	return &processes{stdout: stdout, stderr: stderr, log: log, children: map[string]*child{}}
}

func (ps *processes) start(p process) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	c := &child{process: p, ended: make(chan struct{})}
	ps.children[p.name] = c
	return ps.spawn(c)
}

// spawn starts a child's process; the lock is held.
func (ps *processes) spawn(c *child) error {
	if c.socket != "" {
		if err := os.Remove(c.socket); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("start %s: %w", c.name, err)
		}
	}
	cmd := exec.Command(c.path, c.args...) //nolint:noctx // ended by kill and stopAll, never by a context
	cmd.Env = c.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out := &lines{to: ps.stdout, prefix: "[" + c.name + "] "}
	errs := &lines{to: ps.stderr, prefix: "[" + c.name + "] "}
	cmd.Stdout, cmd.Stderr = out, errs
	if c.worker && c.rank == 0 {
		out.prefix, out.take = "", ps.takeJSON
		cmd.Stderr = ps.stderr // a progress bar draws itself
	}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	c.cmd, c.killed = cmd, false
	go ps.reap(c, cmd)
	return nil
}

// takeJSON keeps rank 0's line of JSON back.
func (ps *processes) takeJSON(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("{")) {
		return false
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.json = true
	return true
}

// reap waits for a child; one that we killed is started again.
func (ps *processes) reap(c *child, cmd *exec.Cmd) {
	err := cmd.Wait()
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if c.killed && !ps.stopping {
		ps.log.Info("killed, starting again", "process", c.name)
		if serr := ps.spawn(c); serr == nil {
			return
		} else {
			err = serr
		}
	}
	c.err = err
	close(c.ended)
	if !c.worker && !ps.stopping && ps.onFailure != nil {
		if err == nil {
			err = errors.New("it stopped by itself")
		}
		ps.onFailure(c.name, err)
	}
}

// kill sends SIGKILL; the process is started again. It reports whether the
// process was still there.
func (ps *processes) kill(name string) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	c := ps.children[name]
	select {
	case <-c.ended:
		return false
	default:
	}
	c.killed = true
	return c.cmd.Process.Kill() == nil
}

// waitFor returns when all of these have ended well, or one has not.
func (ps *processes) waitFor(ctx context.Context, names []string) error {
	failed := make(chan error, len(names))
	var wg sync.WaitGroup
	for _, n := range names {
		c := ps.child(n)
		wg.Go(func() {
			select {
			case <-c.ended:
				if c.err != nil {
					failed <- fmt.Errorf("%s ended: %w", c.name, c.err)
				}
			case <-ctx.Done():
				failed <- context.Cause(ctx)
			}
		})
	}
	all := make(chan struct{})
	go func() { wg.Wait(); close(all) }()
	select {
	case err := <-failed:
		return err
	case <-all:
		select {
		case err := <-failed:
			return err
		default:
			return nil
		}
	}
}

func (ps *processes) child(name string) *child {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.children[name]
}

// stopAll ends workers, then servers: SIGTERM, and SIGKILL after ten seconds.
func (ps *processes) stopAll() {
	ps.mu.Lock()
	ps.stopping = true
	var workers, servers []*child
	for _, c := range ps.children {
		if c.worker {
			workers = append(workers, c)
		} else {
			servers = append(servers, c)
		}
	}
	ps.mu.Unlock()
	ps.stop(workers)
	ps.stop(servers)
}

func (ps *processes) stop(cs []*child) {
	for _, c := range cs {
		_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	}
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	for _, c := range cs {
		select {
		case <-c.ended:
			continue
		case <-deadline.C:
		}
		_ = c.cmd.Process.Kill()
		<-c.ended
	}
}

// lines passes whole lines on, each behind a prefix.
type lines struct {
	to     io.Writer
	prefix string
	take   func(line []byte) bool // keeps a line back
	rest   []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 {
			return len(p), nil
		}
		line := l.rest[:i+1]
		if l.take == nil || !l.take(line) {
			if _, err := fmt.Fprintf(l.to, "%s%s", l.prefix, line); err != nil {
				return 0, err
			}
		}
		l.rest = l.rest[i+1:]
	}
}

func findProgram(path string) (string, error) {
	p, err := exec.LookPath(path)
	if err != nil && strings.Contains(path, "/") {
		return "", fmt.Errorf("find program: %w", err)
	}
	if err != nil {
		return "", fmt.Errorf("find program %s: not in PATH: give its path", path)
	}
	return p, nil
}

func freePort() (int, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a local port, at once
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err := errors.Join(err, ln.Close()); err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return strconv.Atoi(port)
}
