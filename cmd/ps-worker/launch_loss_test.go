package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// running is a launch under way, with what it prints.
type running struct {
	t    *testing.T
	ctx  context.Context //nolint:containedctx // of one test
	cmd  *exec.Cmd
	out  bytes.Buffer
	errs syncBuffer
}

// underway starts a job whose workers are to be hurt.
func underway(t *testing.T, bin string, launch, train []string) *running {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	worker := filepath.Join(bin, "ps-worker")
	args := slices.Concat([]string{"launch", "-n", "3"}, launch, []string{"--", worker, "train", "--json", "--step-delay", "15ms"}, train)
	r := &running{t: t, ctx: ctx, cmd: exec.CommandContext(ctx, worker, args...)}
	r.errs.grown = make(chan struct{}, 1)
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.errs
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// until waits for a text on stderr, n times.
func (r *running) until(text string, n int) {
	r.t.Helper()
	for strings.Count(r.errs.String(), text) < n {
		select {
		case <-r.errs.grown:
		case <-r.ctx.Done():
			r.t.Fatalf("%d times %q is not in\n%s", n, text, r.errs.String())
		}
	}
}

// signal sends one to the process of a rank.
func (r *running) signal(rank int, s syscall.Signal) {
	r.t.Helper()
	if err := syscall.Kill(r.pid(rank), s); err != nil {
		r.t.Fatal(err)
	}
}

// pid finds the process of a rank among the children.
func (r *running) pid(rank int) int {
	r.t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", r.cmd.Process.Pid))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, task := range tasks {
		children, _ := os.ReadFile(task) // a thread may have ended
		for child := range strings.FieldsSeq(string(children)) {
			env, _ := os.ReadFile(filepath.Join("/proc", child, "environ"))
			if slices.Contains(strings.Split(string(env), "\x00"), "RANK="+strconv.Itoa(rank)) {
				pid, _ := strconv.Atoi(child) // the kernel's
				return pid
			}
		}
	}
	r.t.Fatalf("no process of rank %d", rank)
	return 0
}

// wait is the report of a job that ends well.
func (r *running) wait() report {
	r.t.Helper()
	if err := r.cmd.Wait(); err != nil {
		r.t.Fatalf("launch: %v\n%s\n%s", err, r.out.String(), r.errs.String())
	}
	var got report
	if err := json.Unmarshal(r.out.Bytes(), &got); err != nil {
		r.t.Fatalf("read %q: %v", r.out.String(), err)
	}
	return got
}

// A worker dies that launch did not kill: the others go on, and it is started again and let in. Rank 0 stands still: it is named, the others go on, and
// when it wakes it is told so.
func TestJobOutlivesDeadAndSleepingWorkers(t *testing.T) {
	t.Parallel()
	bin, data := build(t), clickData(t)
	for mode, servers := range map[string]string{"allreduce": "0", "hybrid": "1"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := underway(t, bin, []string{"--servers", servers}, []string{"--data", data, "--epochs", "24", "--batch", "64", "--mode", mode})
			r.until("rows/s", 1)
			r.signal(1, syscall.SIGKILL)
			r.until("now there are 3", 2) // it is in again, say those that were there
			sleeper := r.pid(0)
			r.signal(0, syscall.SIGSTOP)
			r.until("after: rank 0 (worker-0", 2) // say both that go on
			if err := syscall.Kill(sleeper, syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			r.until("the others went on without it", 1)
			got := r.wait()
			if got.Reproducible || got.Worker == "worker-0" || got.Batches != got.Applied || got.Digest == "" {
				t.Errorf("report %+v", got)
			}
		})
	}
}

// A worker that dies again and again ends the job, by name.
func TestJobEndsWithAWorkerThatDiesTooOften(t *testing.T) {
	t.Parallel()
	r := underway(t, build(t), []string{"--servers", "0"}, []string{"--data", clickData(t), "--epochs", "100", "--batch", "64", "--mode", "allreduce", "--max-rebuilds", "1"})
	r.until("rows/s", 1)
	r.signal(2, syscall.SIGKILL)
	r.until("now there are 3", 2)
	r.signal(2, syscall.SIGKILL)
	if err := r.cmd.Wait(); err == nil || r.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("ended with %v", err)
	}
	if want := "worker-2 ended: signal: killed: 2 workers have died, and --max-rebuilds is 1"; !strings.Contains(r.errs.String(), want) {
		t.Errorf("%q is not in\n%s", want, r.errs.String())
	}
}
