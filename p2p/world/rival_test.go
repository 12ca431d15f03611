package world_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/world"
)

// A second process of a name is refused while the first lives, and let in when that is dead, in every epoch.
func TestNameHasOneProcess(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		t.Helper()
		named := func(c *world.Config) { c.Name = "worker " + string(rune('0'+c.Rank)) }
		p := newTroupe(t, 3, at, named)
		for i, victim := range []int{1, 2} { // the newcomer is the last rank then
			_, err := world.Open(t.Context(), p.config(1))
			want(t, err, p2p.ErrRefused, "worker 1 is process at h", "which lives", "says that it is that too")
			p.kill(victim)
			p.hear(victim)
			n := p.arrive(1)
			wait(t.Context(), 5*time.Second) // it may have come before it was heard of that death
			p.rebuild(uint32(2+i), n)
		}
	})
}

// Ranks that do not have alike what they must are refused, and told in what they differ.
func TestOtherTermsAreRefused(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		t.Helper()
		p := newTroupe(t, 3, at, func(c *world.Config) { c.Terms = []string{"algo=ring", "measure=true"} })
		cfg := p.config(1)
		cfg.Terms = []string{"algo=ring", "measure=false"}
		_, err := world.Open(t.Context(), cfg)
		want(t, err, p2p.ErrRefused, "has measure false", "has measure true", "give all ranks the same")
	})
	synctest.Test(t, func(t *testing.T) {
		network := newNet(t)
		a, b := config(network, 0, 2), config(network, 1, 2)
		a.Terms, b.Terms = []string{"seed=1"}, []string{"seed=2"}
		_, errs := openAll(t.Context(), a, b)
		if err := errors.Join(errs...); err == nil || !strings.Contains(err.Error(), "rank 1 (at h1, process 101) has seed 2, rank 0 (at h0, process 100) has seed 1") {
			t.Errorf("%v", err)
		}
	})
}

// Who leaves, and is missed, is the verdict: not who says so.
func TestVerdictIsOnWhoHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, 3, nil)
		m.stops[2]()
		check(t, <-m.ended[2])
		for gone := false; !gone; { // everybody knows
			_, _, reasons, err := m.worlds[1].Health(t.Context())
			check(t, err)
			gone = reasons[2] != ""
		}
		m.worlds[1].Fail("call allreduce: reach rank 2: rank 2 has left")
		for r := range 2 {
			if v := m.verdict(r, soon); v.Rank != 2 || !strings.Contains(v.Reason, "allreduce") {
				t.Errorf("rank %d blames rank %d: %s", r, v.Rank, v.Reason)
			}
		}
	})
}

// A process that runs all the time has not stood still for long.
func TestPulse(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		t.Helper()
		p := newTroupe(t, 2, at, nil)
		wait(t.Context(), time.Minute)
		for _, a := range p.actors {
			if d := a.w.Stood(); d > time.Second {
				t.Errorf("%s stood still for %v", a.info, d)
			}
		}
	})
}
