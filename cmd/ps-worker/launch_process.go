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
	"slices"
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
	env            []string                     // of each beside its own
	onFailure      func(name string, err error) // a server ended that nobody killed
	stopping       bool

	mu       sync.Mutex
	children map[string]*child
	json     []byte // rank 0's line of JSON, which report prints with more in it
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

func (all *processes) start(p process) error {
	all.mu.Lock()
	defer all.mu.Unlock()
	c := &child{process: p, ended: make(chan struct{})}
	all.children[p.name] = c
	return all.spawn(c)
}

// spawn starts a child's process; the lock is held.
func (all *processes) spawn(c *child) error {
	if c.socket != "" {
		if err := os.Remove(c.socket); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("start %s: %w", c.name, err)
		}
	}
	cmd := exec.Command(c.path, c.args...) //nolint:noctx // ended by kill and stopAll, never by a context
	cmd.Env = slices.Concat(c.env, all.env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out := &lines{to: all.stdout, prefix: "[" + c.name + "] "}
	errs := &lines{to: all.stderr, prefix: "[" + c.name + "] "}
	cmd.Stdout, cmd.Stderr = out, errs
	if c.worker && c.rank == 0 {
		out.prefix, out.take = "", all.takeJSON
		cmd.Stderr = all.stderr // a progress bar draws itself
	}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	c.cmd, c.killed = cmd, false
	go all.reap(c, cmd)
	return nil
}

// takeJSON keeps rank 0's line of JSON back.
func (all *processes) takeJSON(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("{")) {
		return false
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.json = bytes.Clone(line)
	return true
}

// reap waits for a child; one that we killed is started again.
func (all *processes) reap(c *child, cmd *exec.Cmd) {
	err := cmd.Wait()
	all.mu.Lock()
	defer all.mu.Unlock()
	if c.killed && !all.stopping {
		all.log.Info("killed, starting again", "process", c.name)
		if err = all.spawn(c); err == nil {
			return
		}
	}
	c.err = err
	close(c.ended)
	if !c.worker && !all.stopping && all.onFailure != nil {
		if err == nil {
			err = errors.New("it stopped by itself")
		}
		all.onFailure(c.name, err)
	}
}

// kill sends SIGKILL; the process is started again. It reports whether the
// process was still there.
func (all *processes) kill(name string) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	c := all.children[name]
	select {
	case <-c.ended:
		return false
	default:
	}
	c.killed = true
	return syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) == nil
}

// waitFor returns when all of these have ended well, or one has not.
func (all *processes) waitFor(ctx context.Context, names []string) error {
	failed := make(chan error, len(names))
	var wg sync.WaitGroup
	for _, n := range names {
		c := all.child(n)
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
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	select {
	case err := <-failed:
		return err
	case <-ended:
		select {
		case err := <-failed:
			return err
		default:
			return nil
		}
	}
}

func (all *processes) child(name string) *child {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.children[name]
}

// stopAll ends workers, then servers: SIGTERM, and SIGKILL after ten seconds.
func (all *processes) stopAll() {
	all.mu.Lock()
	all.stopping = true
	var workers, servers []*child
	for _, c := range all.children {
		if c.worker {
			workers = append(workers, c)
		} else {
			servers = append(servers, c)
		}
	}
	all.mu.Unlock()
	all.stop(workers)
	all.stop(servers)
}

func (all *processes) stop(cs []*child) {
	for _, c := range cs {
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGTERM) // with what it started; it may have ended already
	}
	patience, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, c := range cs {
		select {
		case <-c.ended:
			continue
		case <-patience.Done():
		}
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
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
