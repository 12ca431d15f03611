package cold

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"hcclps/ps/table"
)

// TestWriteEndsBesideSearch: who writes while somebody searches for garbage waits no longer than its context.
func TestWriteEndsBesideSearch(t *testing.T) {
	s, err := Open(Config{Dir: filepath.Join(t.TempDir(), "cold"), Memory: table.NewMemory(1 << 20)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.collecting <- struct{}{}
	s.stats.written.Add(sweepFirst)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- s.Table().Write(ctx, []uint32{1}, []byte("unit")) }()
	cancel()
	select {
	case err := <-over:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the write waits for the search to end")
	}
}

// TestSearchCutShort: a search for garbage that was cut short, or could not remove closed tables, does not count as one.
func TestSearchCutShort(t *testing.T) {
	left, looked := int64(1<<40), func() {}
	s, err := Open(Config{Dir: filepath.Join(t.TempDir(), "cold"), Memory: table.NewMemory(1 << 20), Free: func(string) (int64, error) { looked(); return left, nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, test := range []struct {
		name   string
		left   int64
		ends   bool // its context, while it removes tables
		counts bool
	}{
		{"its context ends", 1 << 40, true, false},
		{"there is no room to remove tables", 0, false, false},
		{"there is no room to compact", forSweep - 1, false, true},
		{"nothing is wrong", 1 << 40, false, true},
	} {
		gone, stays := s.Table(), s.Table()
		for _, u := range []table.Cold{gone, stays} {
			for _, ids := range [][]uint32{{0, 1, 2, 3, 4, 5}, {0, 1, 2, 3}} {
				if err := u.Write(t.Context(), ids, make([]byte, len(ids)<<10)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := gone.Close(); err != nil {
			t.Fatal(err)
		}
		want, written := s.collected.Load(), s.stats.written.Load()
		if test.counts {
			want = written
		}
		ctx, cancel := context.WithCancel(t.Context())
		if left = test.left; test.ends {
			looked = cancel
		}
		s.collect(ctx, helpFiles)
		if got := s.collected.Load(); got != want {
			t.Errorf("%s: %d bytes have been searched, want %d", test.name, got, want)
		}
		left, looked = 1<<40, func() {}
		cancel()
	}
}
