package cold

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hcclps/ps/table"
)

// TestBroken: after what Badger calls an error nothing is written, and units are still read.
func TestBroken(t *testing.T) {
	s, err := Open(Config{Dir: filepath.Join(t.TempDir(), "cold"), Memory: table.NewMemory(1 << 20)})
	if err != nil {
		t.Fatal(err)
	}
	units := s.Table()
	if err := units.Write(t.Context(), []uint32{1}, []byte("unit")); err != nil {
		t.Fatal(err)
	}
	logger{s}.Errorf("disk %d is gone", 3)
	if err := units.Write(t.Context(), []uint32{1}, []byte("more")); err == nil || !strings.Contains(err.Error(), "disk 3 is gone") {
		t.Errorf("write: %v", err)
	}
	got := make([]byte, 4)
	if err := units.Read([]uint32{1}, got); err != nil || string(got) != "unit" {
		t.Errorf("read %q, %v", got, err)
	}
	if err := errors.Join(units.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}

// TestCompactFails: sparse segments that could not be compacted are not forgotten.
func TestCompactFails(t *testing.T) {
	left := int64(1 << 40)
	s, err := Open(Config{Dir: filepath.Join(t.TempDir(), "cold"), Memory: table.NewMemory(1 << 20), Free: func(string) (int64, error) { return left, nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	u := s.Table().(*units)
	for range 2 {
		if err := u.Write(t.Context(), []uint32{0, 1, 2, 3, 4, 5}, make([]byte, 6<<10)); err != nil {
			t.Fatal(err)
		}
		if err := u.Write(t.Context(), []uint32{0, 1, 2, 3, 4}, make([]byte, 5<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.Write(t.Context(), []uint32{10, 11, 12, 13, 14, 15}, make([]byte, 6<<10)); err != nil {
		t.Fatal(err)
	}
	if err := u.Write(t.Context(), []uint32{10, 11, 12, 13, 14}, make([]byte, 5<<10)); err != nil {
		t.Fatal(err)
	}
	before := len(u.places.sparse)
	left = 0
	if err := u.compact(t.Context()); err == nil || before == 0 || len(u.places.sparse) != before {
		t.Errorf("%v, %d sparse segments were %d", err, len(u.places.sparse), before)
	}
	left = 1 << 40
	if err := u.compact(t.Context()); err != nil || len(u.places.sparse) != 0 {
		t.Errorf("%v, %d sparse segments are left", err, len(u.places.sparse))
	}
}

// TestFolderGone: a store whose folder is taken away under it comes to its end.
func TestFolderGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cold")
	s, err := Open(Config{Dir: dir, Memory: table.NewMemory(1 << 20)})
	if err != nil {
		t.Fatal(err)
	}
	u := s.Table()
	if err := u.Write(t.Context(), []uint32{1, 2}, make([]byte, 2<<10)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- errors.Join(u.Close(), s.Close()) }()
	select {
	case err := <-over:
		if err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("close: %v, want an error that names %s", err, dir)
		}
	case <-time.After(time.Minute):
		t.Fatal("close does not end")
	}
}

// TestLinkedFolder: a folder that is a link to another disk stays one.
func TestLinkedFolder(t *testing.T) {
	other, dir := t.TempDir(), filepath.Join(t.TempDir(), "cold")
	if err := os.Symlink(other, dir); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Config{Dir: dir, Memory: table.NewMemory(1 << 20)})
	if err != nil {
		t.Fatal(err)
	}
	u := s.Table()
	if err := u.Write(t.Context(), []uint32{1}, []byte("unit")); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(other); err != nil || len(files) == 0 {
		t.Errorf("the other disk has %v, %v", files, err)
	}
	if err := errors.Join(u.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if to, err := os.Readlink(dir); err != nil || to != other {
		t.Errorf("the link is %q, %v", to, err)
	}
	if files, err := os.ReadDir(other); err != nil || len(files) != 0 {
		t.Errorf("the other disk has %v, %v", files, err)
	}
}

// TestCompactEnds: a context that has ended ends the search for garbage, and what is sparse is left for the next one.
func TestCompactEnds(t *testing.T) {
	s, err := Open(Config{Dir: filepath.Join(t.TempDir(), "cold"), Memory: table.NewMemory(1 << 20)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	u := s.Table().(*units)
	for _, ids := range [][]uint32{{0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4}} {
		if err := u.Write(t.Context(), ids, make([]byte, len(ids)<<10)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := u.compact(ctx); !errors.Is(err, context.Canceled) || len(u.places.sparse) != 1 {
		t.Errorf("%v, %d sparse segments are left, want 1", err, len(u.places.sparse))
	}
	if err := u.compact(t.Context()); err != nil || len(u.places.sparse) != 0 {
		t.Errorf("%v, %d sparse segments are left", err, len(u.places.sparse))
	}
}
