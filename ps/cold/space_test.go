package cold_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"hcclps/ps/cold"
	"hcclps/ps/table"
)

// TestFullDisk: where the disk is nearly full nothing is written, the folder is named, and what is there is read; later it goes on.
func TestFullDisk(t *testing.T) {
	var left atomic.Int64
	left.Store(1 << 40)
	dir := filepath.Join(t.TempDir(), "cold")
	s, err := cold.Open(cold.Config{Dir: dir, Memory: table.NewMemory(1 << 20), Free: func(string) (int64, error) { return left.Load(), nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	units, mark := s.Table(), bytes.Repeat([]byte("cold row"), 500)
	must(t, units.Write(t.Context(), []uint32{7}, mark))
	left.Store(64 << 20)
	if err := units.Write(t.Context(), []uint32{7}, make([]byte, len(mark))); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a write to a full disk: %v", err)
	}
	got := make([]byte, len(mark))
	if err := units.Read([]uint32{7}, got); err != nil || !bytes.Equal(got, mark) {
		t.Errorf("what is there: %v", err)
	}
	left.Store(1 << 40)
	must(t, units.Write(t.Context(), []uint32{7}, mark))
}

// TestClosedTable: units of a closed table are neither written nor read, and those of others are while it is removed.
func TestClosedTable(t *testing.T) {
	memory := table.NewMemory(64 << 20)
	s, _ := open(t, memory)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var others sync.WaitGroup
	others.Go(func() { must(t, s.Run(ctx)) })
	stays, unit := s.Table(), bytes.Repeat([]byte("row"), 700)
	must(t, stays.Write(t.Context(), []uint32{1}, unit))
	for range 2 {
		others.Go(func() {
			for got := make([]byte, len(unit)); ctx.Err() == nil; {
				if err := stays.Read([]uint32{1}, got); err != nil || !bytes.Equal(got, unit) {
					t.Errorf("a unit of another table: %v", err)
					return
				}
			}
		})
	}
	before := memory.Used()
	for range 20 {
		goes := s.Table()
		must(t, goes.Write(t.Context(), []uint32{1}, unit))
		var writer sync.WaitGroup
		writer.Go(func() {
			for {
				if err := goes.Write(t.Context(), []uint32{1, 2}, append(unit, unit...)); err != nil {
					if !errors.Is(err, cold.ErrClosed) {
						t.Errorf("a write beside close: %v", err)
					}
					return
				}
			}
		})
		must(t, goes.Close())
		writer.Wait()
		if err := goes.Read([]uint32{1}, make([]byte, len(unit))); !errors.Is(err, cold.ErrClosed) {
			t.Errorf("a read after close: %v", err)
		}
		must(t, stays.Write(t.Context(), []uint32{1}, unit))
	}
	cancel()
	others.Wait()
	if now := memory.Used(); now > before+1<<10 {
		t.Errorf("%d bytes of memory are in use, were %d", now, before)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
