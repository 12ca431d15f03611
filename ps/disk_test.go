package ps

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDiskReserveAndHighWater(t *testing.T) {
	dir := t.TempDir()
	free := int64(1 << 30)
	d := &disk{dir: dir, reserve: filepath.Join(dir, "reserve"), free: func(string) (int64, error) { return free, nil }, warn: func(string, ...any) {}}
	reserved := func() bool {
		st, err := os.Stat(d.reserve)
		return err == nil && st.Size() == diskReserve
	}
	for _, c := range []struct {
		free     int64
		refuses  bool
		reserved bool
	}{
		{1 << 30, false, true},
		{diskHighWater, false, true},
		{diskHighWater - 1, true, true},            // pushes stop first
		{diskHighWater/4 - 1, true, false},         // then the reserve is given up
		{diskHighWater + 1, false, false},          // pushes go on ...
		{diskHighWater + diskReserve, false, true}, // ... and the reserve comes back
	} {
		free = c.free
		if err := d.look(); err != nil {
			t.Fatal(err)
		}
		if why := d.Refuse(); (why != "") != c.refuses || c.refuses && !strings.Contains(why, dir) {
			t.Errorf("%d bytes free: refuses because %q, want refusal %v", c.free, why, c.refuses)
		}
		if reserved() != c.reserved {
			t.Errorf("%d bytes free: reserve there %v, want %v", c.free, reserved(), c.reserved)
		}
	}
}
