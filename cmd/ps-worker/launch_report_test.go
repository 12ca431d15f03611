package main

import (
	"bytes"
	"errors"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// Of a job whose rank 0 was killed after the last step there is the report of the next rank, but not if it has failed by itself.
func TestReportWithoutRankZero(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	set := flag.NewFlagSet("launch", flag.PanicOnError)
	set.Int("workers", 3, "")
	l := &launcher{
		c: cli.NewContext(&cli.App{Writer: &out}, set, nil), dir: t.TempDir(),
		procs: newProcesses(&out, &errs, slog.New(slog.NewTextHandler(&errs, nil))),
	}
	if err := os.Mkdir(filepath.Join(l.dir, "reports"), 0o700); err != nil {
		t.Fatal(err)
	}
	for process, rank := range map[int]int{1: 2, 2: 1} {
		r := report{Job: "j", Worker: "w", Rank: rank, Rows: 10, Steps: 3, Batches: 9, Applied: 9, Digest: "d", AsJSON: true}
		if err := r.leave(filepath.Join(l.dir, "reports"), process); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.report(&killer{workerKill: 2}, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"rank":1`, `"rows":20`, `"batches":9`, `"worker_kills":2`, `"digest":"d"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s has no %s", out.String(), want)
		}
	}
	if !strings.Contains(errs.String(), "rank 0 was killed") {
		t.Errorf("said: %s", errs.String())
	}
	if want := `"reproducible":false,"why_not":"rank 0 was killed`; !strings.Contains(out.String(), want) {
		t.Errorf("%s has no %s", out.String(), want)
	}
	r := report{Rank: 1, Digest: "d", AsJSON: true, Save: "models/m"}
	if err := r.leave(filepath.Join(l.dir, "reports"), 2); err != nil {
		t.Fatal(err)
	}
	if err := l.report(&killer{}, nil); err == nil || !strings.Contains(err.Error(), "models/m") {
		t.Errorf("rank 0 was to save: %v", err)
	}
	full := errors.New("no space left")
	l.procs.fault(&child{process: process{name: "worker-1"}, late: true, err: errors.New("late")})
	l.procs.fault(&child{process: process{name: "worker-0"}, restarts: 1, err: full})
	if err := l.report(&killer{}, nil); !errors.Is(err, full) || !strings.Contains(err.Error(), "worker-0 ended") {
		t.Errorf("rank 0 has failed: %v", err)
	}
}
