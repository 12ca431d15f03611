package shard

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"hcclps/ps/table"
)

// shut is a store that takes nothing.
type shut struct{ table.Cold }

func (shut) Write(context.Context, []uint32, []byte) error {
	return errors.New("no space left on device")
}
func (shut) Close() error { return nil }

// TestLoadWithoutCold: pages are loaded also when their rows cannot leave memory, and that is said once.
func TestLoadWithoutCold(t *testing.T) {
	spec := table.Spec{Dim: 32, Slots: 32}
	from, err := table.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]table.Row, 20_000)
	for i := range rows {
		rows[i] = table.Row{Key: uint64(i), Values: make([]float32, 64)}
	}
	if err := from.Put(rows); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	spec.Memory, spec.Cold = table.NewMemory(1<<20), func() table.Cold { return shut{} }
	to, err := table.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	s := NewState(StateConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	c := from.Capture()
	err = c.Pages(true, 0, func(id table.PageID, data []byte) error { return s.loadPage(to, id, data) }, new(sync.Mutex))
	c.Close()
	if err != nil {
		t.Fatal(err)
	}
	if n := to.Stats().Rows; n != int64(len(rows)) || strings.Count(log.String(), "no space left") != 1 || to.Trouble() == nil {
		t.Errorf("%d rows, trouble %v, said %q", n, to.Trouble(), log.String())
	}
	if err := errors.Join(from.Close(), to.Close()); err != nil {
		t.Error(err)
	}
}
