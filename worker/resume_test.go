package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hcclps/ps"
	"hcclps/worker"
)

// Every process dies at once in mid-training, servers and workers; what starts on
// the same folder ends with the parameters of a run that nothing happened to.
func TestResumeAfterTheDeathOfEveryProcess(t *testing.T) {
	t.Parallel()
	for _, durability := range []string{ps.QuorumMemory, ps.QuorumDisk} {
		t.Run(durability, func(t *testing.T) {
			t.Parallel()
			want := rounds(t, durability, nil)
			if got := rounds(t, durability, []uint64{7, 19, 20}); got != want {
				t.Errorf("digest %s after three deaths, %s without", got, want)
			}
		})
	}
}

// rounds trains two workers on a cluster on one folder, of which every process
// dies when rank 0 has completed each of the given steps.
func rounds(t *testing.T, durability string, deaths []uint64) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { // a named folder's logs stay in memory for the next run
		logs, err := os.ReadFile(filepath.Join(dir, "logs"))
		if err == nil {
			err = os.RemoveAll(strings.TrimSpace(string(logs)))
		}
		if err != nil && durability == ps.QuorumMemory {
			t.Error(err)
		}
	})
	for {
		dieAt := ^uint64(0)
		if len(deaths) > 0 {
			dieAt, deaths = deaths[0], deaths[1:]
		}
		digest, err := life(t, dir, durability, dieAt)
		if err == nil {
			return digest
		}
		if !errors.Is(err, errDied) {
			t.Fatal(err)
		}
	}
}

// life is one start of everything.
func life(t *testing.T, dir, durability string, dieAt uint64) (digest string, err error) {
	t.Helper()
	l, err := ps.NewLocal(ps.LocalConfig{Dir: dir, Durability: durability, LogBudget: 4 << 20, Shards: 2})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Minute, errors.New("one life took too long"))
	defer cancel()
	ctx, die := context.WithCancelCause(ctx)
	served := make(chan error, 1)
	go func() { served <- l.Run(ctx) }()
	crash := func() {
		var wg sync.WaitGroup
		for _, s := range l.Servers() {
			wg.Go(s.Crash)
		}
		wg.Wait()
		die(errDied)
	}
	if err := l.Ready(ctx); err != nil {
		die(err)
		return "", errors.Join(err, <-served)
	}
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for rank := range errs {
		wg.Go(func() {
			var d string
			if d, errs[rank] = trainOn(ctx, l, rank, dieAt, crash); rank == 0 {
				digest = d
			}
		})
	}
	wg.Wait()
	if context.Cause(ctx) != nil && errors.Is(context.Cause(ctx), errDied) {
		if err := <-served; !errors.Is(err, ps.ErrCrashed) {
			return "", fmt.Errorf("servers after their death: %w", err)
		}
		return "", errDied
	}
	die(errors.New("done"))
	return digest, errors.Join(errs[0], errs[1], <-served)
}

// trainOn trains one worker of two, on data of 3 epochs of 10 steps.
func trainOn(ctx context.Context, l *ps.Local, rank int, dieAt uint64, crash func()) (string, error) {
	c, err := dial(ctx, l, worker.Config{Job: "resume", Rank: rank, World: 2, Seed: 11})
	if err != nil {
		return "", err
	}
	defer c.Abandon()
	m, err := newShared(ctx, c, worker.Optimizer{Name: "adam", Schedule: worker.Schedule{Kind: "linear", Steps: 30}})
	if err != nil {
		return "", err
	}
	var once sync.Once
	_, err = c.Train(ctx, m, &stream{rows: 400, batch: 10}, worker.TrainOptions{Epochs: 3, Accumulate: 2, OnStep: func(p worker.Progress) {
		if rank == 0 && p.Step == dieAt {
			once.Do(crash)
		}
	}})
	if err != nil {
		return "", fmt.Errorf("rank %d: %w", rank, err)
	}
	return c.Digest(ctx)
}
