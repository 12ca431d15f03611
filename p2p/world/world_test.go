package world_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
)

func TestWorlds(t *testing.T) {
	for _, n := range []int{1, 2, 5, 9} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := start(t, n, nil)
				for r, w := range m.worlds {
					if w.Rank() != r || w.Size() != n || w.Epoch() != 1 {
						t.Errorf("rank %d of %d says it is %d of %d of epoch %d", r, n, w.Rank(), w.Size(), w.Epoch())
					}
					if hosts := w.Hosts(); len(hosts) != n || !slices.IsSorted(hosts) || hosts[n-1] != n-1 {
						t.Errorf("rank %d knows hosts %v", r, hosts)
					}
					for peer := range n {
						if got, want := w.Info(peer), fmt.Sprintf("at h%d, process %d", peer, 100+peer); got != want {
							t.Errorf("rank %d knows rank %d as %q, want %q", r, peer, got, want)
						}
					}
				}
				talk(t, m.comms("all", nil))
				for r, stop := range m.stops {
					stop()
					if err := <-m.ended[r]; err != nil {
						t.Errorf("run of rank %d: %v", r, err)
					}
				}
			})
		})
	}
}
