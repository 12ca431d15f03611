package ps_test

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"hcclps/ps"
)

// What a cluster is to begin with is looked at before there is one, and is not another at a later start.
func TestRestoreIsOfTheFirstStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		missing := filepath.Join(t.TempDir(), "missing")
		c := newCluster(t, 1, func(_ int, cfg *ps.Config) { cfg.Restore = missing })
		refused := func(want string) {
			t.Helper()
			s, err := ps.New(c.config(0))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("a server begun with %s: %v", missing, err)
			}
			if n := len(s.Layout().Members); n > 0 && want != "--restore" {
				t.Errorf("a cluster of %d servers was founded", n)
			}
		}
		refused("no such file")
		missing = ""
		c.startAll()
		c.halt(0)
		missing = "/elsewhere"
		refused("--restore")
		c.close()
	})
}
