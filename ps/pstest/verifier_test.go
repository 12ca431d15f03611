package pstest_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/ps/pstest"
)

var (
	seeds  = flag.Int("seeds", 25, "scenarios that TestVerifier plays")
	first  = flag.Uint64("first", 1, "the first seed of TestVerifier")
	replay = flag.String("replay", "", "folder of a failed run, for TestReplay")
)

// tempDir is a folder in memory where there is one: what is synced there costs
// nothing.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "pstest-") //nolint:usetesting // TempDir is on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// play runs a scenario in a bubble and judges it.
func play(t *testing.T, s pstest.Scenario, o pstest.Options) (h *pstest.History, err error) {
	t.Helper()
	if o.Dir == "" {
		o.Dir = tempDir(t)
	}
	synctest.Test(t, func(*testing.T) {
		start := time.Now()
		h, err = pstest.Run(context.Background(), s, o)
		t.Logf("seed %d took %v of its own time", s.Seed, time.Since(start))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(h)
	return h, pstest.Judge(h)
}

// keep stores a failed run where it outlives the test.
func keep(t *testing.T, h *pstest.History, dir string) {
	t.Helper()
	to, err := os.MkdirTemp("", fmt.Sprintf("pstest-seed-%d-", h.Seed)) //nolint:usetesting // it is to stay
	if err == nil {
		err = h.Save(to)
	}
	if err == nil {
		var b []byte
		if b, err = os.ReadFile(filepath.Join(dir, "run.log")); err == nil {
			err = os.WriteFile(filepath.Join(to, "run.log"), b, 0o600)
		}
	}
	if err != nil {
		t.Errorf("keep the run of seed %d: %v", h.Seed, err)
		return
	}
	t.Logf("history and log of seed %d are in %s; judge it again: go test ./ps/pstest -run TestReplay -replay %s", h.Seed, to, to)
}

// One job, no faults, nobody misbehaves.
func TestQuietRun(t *testing.T) {
	if _, err := play(t, pstest.NewScenario(1).Quiet(), pstest.Options{}); err != nil {
		t.Fatal(err)
	}
}

// Random steps, reads, plans, deaths and faults, as many scenarios as -seeds
// says.
func TestVerifier(t *testing.T) {
	var failed []uint64
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dir := tempDir(t)
			h, err := play(t, pstest.NewScenario(seed), pstest.Options{Dir: dir})
			if err != nil {
				t.Error(err)
				keep(t, h, dir)
				failed = append(failed, seed)
			}
		})
	}
	if len(failed) > 0 {
		t.Errorf("seeds that failed: %v; play them again: go test ./ps/pstest -run TestVerifier -first SEED -seeds 1", failed)
	}
}

// TestReplay judges the history of a failed run again.
func TestReplay(t *testing.T) {
	if *replay == "" {
		t.Skip("no -replay DIR")
	}
	h, err := pstest.LoadHistory(*replay)
	if err != nil {
		t.Fatal(err)
	}
	if err := pstest.Judge(h); err != nil {
		t.Error(err)
	}
}
