package world_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/world"
)

// The two sides of a network that is cut do not both go on: the register decides for one.
func TestPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTroupe(t, 6, byRegister, nil)
		one, other := []string{"h0", "h1", "h2"}, []string{"h3", "h4", "h5"}
		p.net.Partition(one, other)
		for _, a := range p.actors {
			<-a.w.Failed()
		}
		worlds, errs := make([]*world.World, 6), make([]error, 6)
		var all sync.WaitGroup
		for i, a := range p.actors {
			all.Go(func() { worlds[i], errs[i] = a.w.Rebuild(t.Context()) })
		}
		all.Wait()
		var left []*actor
		for i, a := range p.actors {
			if errs[i] == nil {
				p.run(a, worlds[i])
				left = append(left, a)
				continue
			}
			want(t, errs[i], p2p.ErrRefused, "start anew")
		}
		p.actors = left
		if len(left) != 3 {
			t.Fatalf("%d of 6 go on: %v", len(left), errors.Join(errs...))
		}
		p.verify(2)
		p.net.Heal()
		p.kill(0)
		p.hear(0)
		p.rebuild(3)
	})
}

// A rendezvous that dies when it has written an epoch down and told nobody does not end the world.
func TestDeathAfterDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTroupe(t, 5, byRegister, nil)
		at := slices.IndexFunc(p.actors, func(a *actor) bool { return p.register.text[len(p.register.text)-len("h0:1"):][:2] == a.host })
		p.kill((at + 1) % 5)
		<-p.actors[0].w.Failed()
		p.register.stalls = true
		at = slices.IndexFunc(p.actors, func(a *actor) bool { return p.register.text[len(p.register.text)-len("h0:1"):][:2] == a.host })
		dying, die := context.WithCancel(t.Context())
		worlds, errs := make([]*world.World, 4), make([]error, 4)
		var all sync.WaitGroup
		for i, a := range p.actors {
			ctx := t.Context()
			if i == at {
				ctx = dying
			}
			all.Go(func() { worlds[i], errs[i] = a.w.Rebuild(ctx) })
		}
		wait(t.Context(), 5*time.Second)
		die()
		all.Wait()
		if errs[at] == nil {
			t.Fatal("the one that died is in the world")
		}
		errs[at] = nil
		check(t, errors.Join(errs...))
		p.actors, worlds = slices.Delete(p.actors, at, at+1), slices.Delete(worlds, at, at+1)
		for i, a := range p.actors {
			p.run(a, worlds[i])
		}
		p.verify(2)
	})
}

// One that nobody can reach any more does not stand in the way of the next.
func TestAllAnewByRegister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTroupe(t, 3, byRegister, nil)
		p.kill(0, 1, 2)
		wait(t.Context(), time.Minute)
		var fresh []*pending
		for _, r := range []int{2, 0, 1} {
			fresh = append(fresh, p.arrive(r))
		}
		p.actors = []*actor{fresh[1].join(), fresh[2].join(), fresh[0].join()}
		p.verify(1)
	})
}
