package ps_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p/sockets"
	"hcclps/ps"
)

func TestLocal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, err := ps.NewLocal(ps.LocalConfig{LogBudget: 4 << 20})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		if err := l.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := l.Addrs(); len(got) != 3 {
			t.Errorf("addresses %v, want three", got)
		}
		left, err := filepath.Glob(filepath.Join(os.TempDir(), "hcclps-local-*"))
		if err != nil || len(left) == 0 {
			t.Errorf("no temporary folder while running (%v)", err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

func TestLocalInANamedFolderGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var members string
		for range 2 {
			l, err := ps.NewLocal(ps.LocalConfig{Servers: 3, Dir: dir, LogBudget: 4 << 20, Durability: ps.QuorumDisk})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- l.Run(ctx) }()
			if err := l.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprint(l.Servers()[0].Layout().Members)
			if members != "" && got != members {
				t.Errorf("members %s, before %s", got, members)
			}
			members = got
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("run: %v", err)
			}
		}
	})
}

// A folder that was emptied is a new one: what it left in memory is never met.
func TestLocalInARemovedFolderBeginsAnew(t *testing.T) {
	t.Parallel()
	for name, empty := range map[string]func(dir string) error{
		"folder removed": os.RemoveAll,
		"data removed": func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "s1")), os.RemoveAll(filepath.Join(dir, "s2")), os.RemoveAll(filepath.Join(dir, "s3")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "data")
				var logs []string
				for life := range 3 {
					if life == 1 {
						if err := empty(dir); err != nil {
							t.Fatal(err)
						}
					}
					liveOn(t, ps.LocalConfig{Dir: dir, LogBudget: 4 << 20, Shards: 1})
					b, err := os.ReadFile(filepath.Join(dir, "logs"))
					if err != nil {
						t.Fatal(err)
					}
					logs = append(logs, strings.TrimSpace(string(b)))
					if strings.HasPrefix(logs[life], "/dev/shm/hcclps-") {
						t.Cleanup(func() { _ = os.RemoveAll(logs[life]) })
					}
				}
				if logs[0] == logs[1] && logs[0] != "data" || logs[1] != logs[2] {
					t.Errorf("logs in %q: want another folder after the first life, the same after the second", logs)
				}
			})
		})
	}
}

// The only copy of what is to be gone on with is on disk.
func TestLocalOfOneCopyInANamedFolderIsOnDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for range 2 {
			liveOn(t, ps.LocalConfig{Servers: 1, Dir: dir, LogBudget: 4 << 20, Shards: 1})
		}
		if seg, err := filepath.Glob(filepath.Join(dir, "s1", "log", "group-1", "*.seg")); err != nil || len(seg) == 0 {
			t.Errorf("no log of the shard in the data folder (%v)", err)
		}
	})
}

// liveOn runs a local cluster until it is ready.
func liveOn(t *testing.T, cfg ps.LocalConfig) {
	t.Helper()
	l, err := ps.NewLocal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.With(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// On real sockets, so on real time.
func TestRealSockets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var addrs []string
	for i := range 3 {
		addrs = append(addrs, "unix:"+filepath.Join(dir, fmt.Sprintf("%d.sock", i)))
	}
	l, err := ps.NewLocal(ps.LocalConfig{Dir: dir, Network: sockets.Network{}, Addrs: addrs, LogBudget: 4 << 20, Durability: ps.QuorumDisk, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	run, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- l.Run(run) }()
	if err := l.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
}
