package snapshot

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

	"hcclps/ps/corrupt"
)

func diskUse(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "pages-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Size()
	}
	return bytes
}

// TestCompaction writes the same page over and over beside pages that stay, while Run is going.
func TestCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Dir: tempDir(t), Rate: 1 << 20}
		s := mustOpen(t, cfg)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		c := content{"h", map[uint64]string{}}
		for id := range uint64(10) {
			c.pages[id] = strings.Repeat(fmt.Sprint(id), 100<<10)
		}
		dirty := map[uint64]bool(nil)
		begun, peak := time.Now(), int64(0)
		for i := range uint64(60) {
			c.pages[3] = strings.Repeat(fmt.Sprint(i%10), 100<<10)
			mustSave(t, begin(t, s, i+1), c, dirty)
			dirty = map[uint64]bool{3: true}
			peak = max(peak, diskUse(t, cfg.Dir))
			synctest.Wait()
			if i%7 == 0 {
				<-time.After(3 * time.Second) // compaction takes 1 s for a MiB
			}
		}
		<-time.After(3 * time.Second)
		synctest.Wait()
		if use := diskUse(t, cfg.Dir); use > 3<<20 {
			t.Errorf("%d bytes for 1.1 MiB of pages after 60 snapshots", use)
		}
		if peak < 2<<20 {
			t.Errorf("nothing was ever compacted: peak %d", peak)
		}
		if time.Since(begun) < 3*time.Second {
			t.Error("the rate was not kept")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for _, s := range []*Store{s, mustOpen(t, cfg)} {
			if got := restore(t, s, newest(t, s).ID); !got.equal(c) {
				t.Error("restored something else")
			}
		}
	})
}

func TestCompactionNamesDamage(t *testing.T) {
	dir := tempDir(t)
	s := mustOpen(t, Config{Dir: dir, Retain: 1})
	c := content{"h", map[uint64]string{1: strings.Repeat("a", 1000), 2: strings.Repeat("b", 9000)}}
	mustSave(t, begin(t, s, 1), c, nil)
	mustSave(t, begin(t, s, 2), c, map[uint64]bool{2: true})
	mustSave(t, begin(t, s, 3), c, map[uint64]bool{2: true})
	name := pageFileName(dir, 1)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		if b[i] == 'a' {
			b[i] = 'A'
		}
	}
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	var bad *corrupt.Error
	if err := s.Run(t.Context()); !errors.As(err, &bad) || bad.File != name {
		t.Fatal(err)
	}
	_, in, err := s.Open(newest(t, s).ID)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	if _, err := parse(in); err == nil || !strings.Contains(err.Error(), name) {
		t.Fatalf("reading a damaged page: %v", err)
	}
}
