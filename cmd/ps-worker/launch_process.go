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
	cmd      *exec.Cmd
	killed   bool // by us, to be started again
	restarts int
	ended    chan struct{} // closed when it has ended for good
	err      error
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
		c.restarts++
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

// waitFor returns when all of these have ended well, or one has not. With spare, one that was killed and started again is not waited for for long when
// another has ended well, nor missed: the job was over before it came.
func (all *processes) waitFor(ctx context.Context, names []string, spare bool) error {
	ended := make(chan *child, len(names))
	for _, n := range names {
		c := all.child(n)
		go func() {
			<-c.ended // at the latest when launch ends
			ended <- c
		}()
	}
	var late error
	well, impatient := 0, make(<-chan time.Time)
	for left := len(names); left > 0; {
		select {
		case c := <-ended:
			left--
			switch {
			case c.err == nil:
				if well++; spare && well == 1 {
					impatient = time.After(lateness)
				}
			case spare && all.again(c):
				late = fmt.Errorf("%s ended: %w", c.name, c.err)
			default:
				return fmt.Errorf("%s ended: %w", c.name, c.err)
			}
		case <-impatient:
			all.endLate(names)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if well > 0 {
		return nil
	}
	return late
}

// lateness is how long a process that was started again is waited for when another has ended.
const lateness = 10 * time.Second

// again says whether a child was killed and started again.
func (all *processes) again(c *child) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	return c.restarts > 0
}

// endLate ends those that were started again and have not ended.
func (all *processes) endLate(names []string) {
	for _, n := range names {
		if c := all.child(n); all.again(c) {
			_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGTERM) // it may have ended already
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
