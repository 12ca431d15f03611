package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
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
	living         func() int                   // workers that are together, and go on without one that dies
	most           int                          // times in all that one of those is started again which nobody killed
	stopping       bool

	mu       sync.Mutex
	lost     int   // workers that died so
	broken   error // how the first worker failed that had not come too late; nil: none has
	children map[string]*child
	json     []byte // rank 0's line of JSON, which report prints with more in it
}

type child struct {
	process
	cmd      *exec.Cmd
	killed   bool // by us, to be started again
	restarts int
	last     bool          // it is the one too many that was lost
	late     bool          // we have ended it: the job was over when it came
	ended    chan struct{} // closed when it has ended for good
	err      error
}

func newProcesses(stdout, stderr io.Writer, log *slog.Logger) *processes {
	return &processes{stdout: stdout, stderr: stderr, log: log, living: func() int { return 0 }, children: map[string]*child{}}
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
	if !all.stopping && (c.killed || all.missed(c, err)) {
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

// missed says whether a worker has died, by a signal that was not ours, without which the others go on; the lock is held. It is to be started again then, but
// if it was the last that may be.
func (all *processes) missed(c *child, err error) bool {
	var exit *exec.ExitError
	if !c.worker || !errors.As(err, &exit) || exit.ExitCode() >= 0 || all.living() == 0 {
		return false
	}
	all.lost++
	if c.last = all.lost > all.most; c.last {
		return false
	}
	all.log.Warn("a worker died and is started again", "process", c.name, "why", err.Error(), "lost", all.lost, "most", all.most)
	return true
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
	all.log.Info("kill, to be started again", "process", name)
	return syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) == nil
}

// waitFor returns when all of these have ended well, or one has not. Of workers that are together one that has failed is done without as long as the others go
// on; and one that was started again is not waited for for long when others have ended well: the job was over before it came.
func (all *processes) waitFor(ctx context.Context, names []string) error {
	ended := make(chan *child, len(names))
	for _, n := range names {
		c := all.child(n)
		go func() {
			<-c.ended // at the latest when launch ends
			ended <- c
		}()
	}
	var failed error // the first
	well, met, over, together := 0, false, time.Time{}, time.Now()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for left := len(names); left > 0; {
		var c *child
		select {
		case c = <-ended:
			left--
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		living := all.living()
		if living > 0 {
			met, together = true, time.Now()
		}
		switch {
		case c == nil:
		case c.err == nil:
			well++
			over = time.Now().Add(lateness)
		default:
			if !met && !misused(c.err) {
				c = firstKilled(c, ended)
			}
			if failed == nil || c.last {
				failed = all.failure(c)
			}
			all.fault(c)
			if !met || c.last || misused(c.err) {
				return failed
			}
		}
		switch {
		case living > 0 || !met:
		case well == 0 && failed != nil && time.Since(together) > lateness:
			return failed // nobody goes on; workers that are through part before they end
		case well > 0 && time.Now().After(over):
			all.endLate(names)
			over = time.Now().Add(lateness)
		}
	}
	if well > 0 {
		return nil
	}
	return failed
}

// fault notes a worker that has failed, and was not ended because it came too late.
func (all *processes) fault(c *child) {
	err := all.failure(c)
	all.mu.Lock()
	defer all.mu.Unlock()
	if !c.late && all.broken == nil {
		all.broken = err
	}
}

// failure says how a worker ended.
func (all *processes) failure(c *child) error {
	all.mu.Lock()
	defer all.mu.Unlock()
	if c.last {
		return fmt.Errorf("%s ended: %w: %d workers have died, and --max-rebuilds is %d", c.name, c.err, all.lost, all.most)
	}
	return fmt.Errorf("%s ended: %w", c.name, c.err)
}

// firstKilled looks for a moment whether another child was killed: workers that lose one while they meet all end, and that one may be slower to.
func firstKilled(c *child, ended <-chan *child) *child {
	over := time.NewTimer(time.Second)
	defer over.Stop()
	for d := c; !killed(d.err); {
		select {
		case d = <-ended:
			if killed(d.err) {
				return d
			}
		case <-over.C:
			return c
		}
	}
	return c
}

// killed says whether a program was ended by a signal.
func killed(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.ExitCode() == -1
}

// misused says whether a program has ended with a complaint of how it was called.
func misused(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.ExitCode() == 2
}

// lookEvery is how often it is looked who goes on.
const lookEvery = 100 * time.Millisecond

// lateness is how long a process that was started again is waited for when another has ended, and those that have parted are given to end.
const lateness = 10 * time.Second

// endLate ends those that were started again and have not ended.
func (all *processes) endLate(names []string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, n := range names {
		if c := all.children[n]; c.restarts > 0 {
			c.late = true
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
	all.stopWorkers()
	all.stop(all.those(false))
}

// stopWorkers ends the workers, in the same way.
func (all *processes) stopWorkers() {
	all.mu.Lock()
	all.stopping = true
	all.mu.Unlock()
	all.stop(all.those(true))
}

// those are the children of one kind.
func (all *processes) those(workers bool) []*child {
	all.mu.Lock()
	defer all.mu.Unlock()
	var out []*child
	for _, c := range all.children {
		if c.worker == workers {
			out = append(out, c)
		}
	}
	return out
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
