package pstest

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// chaos plays the faults of a scenario.
type chaos struct {
	c     *Cluster
	hosts []string // of servers and clients
	rec   *recorder
	log   func(format string, args ...any)
}

// play injects every fault at its time, ends it, and returns when all are over
// or ctx has ended.
func (x *chaos) play(ctx context.Context, faults []Fault) {
	start := time.Now()
	var wg sync.WaitGroup
	for _, f := range faults {
		wg.Go(func() {
			if sleep(ctx, f.At-time.Since(start)) {
				x.log("fault %v", f)
				if err := x.inject(ctx, f); err != nil {
					x.rec.fail("fault %v: %v", f, err)
				}
				x.log("fault %s at %v is over", f.Kind, f.At)
			}
		})
	}
	wg.Wait()
}

// sleep waits; it is false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (x *chaos) inject(ctx context.Context, f Fault) error {
	switch f.Kind {
	case FaultCrash:
		return x.away(ctx, f, x.c.Crash, f.Server)
	case FaultRestart:
		return x.away(ctx, f, x.c.Stop, f.Server)
	case FaultBlackout:
		return x.blackout(ctx, f)
	case FaultCut, FaultDeaf:
		x.isolate(ctx, f, f.Server, f.Kind == FaultCut)
	case FaultDepose:
		if leader := x.c.Leader(f.Group); leader >= 0 {
			x.isolate(ctx, f, leader, true)
		}
	case FaultKill:
		host := Host(f.Server)
		if f.Worker >= 0 {
			host = x.hosts[servers+f.Worker]
		}
		x.c.Net().Kill(host)
	case FaultDelay:
		x.c.Net().Delay(f.Limit)
		sleep(ctx, f.For)
		x.c.Net().Delay(0)
	case FaultBreak:
		x.c.Net().Break(f.Chance)
		sleep(ctx, f.For)
		x.c.Net().Break(0)
	case FaultSnapshot:
		x.snapshot(ctx)
	case FaultAmnesia:
		return x.amnesia(ctx, f)
	}
	return nil
}

// away ends a server and starts it again later.
func (x *chaos) away(ctx context.Context, f Fault, end func(int) error, server int) error {
	if err := end(server); err != nil {
		return err
	}
	sleep(ctx, f.For)
	return x.c.Start(server)
}

func (x *chaos) blackout(ctx context.Context, f Fault) error {
	for i := range servers {
		if err := x.c.Crash(i); err != nil {
			return err
		}
	}
	sleep(ctx, f.For)
	return x.c.StartAll()
}

func (x *chaos) isolate(ctx context.Context, f Fault, server int, both bool) {
	x.c.Isolate(server, x.hosts, both)
	sleep(ctx, f.For)
	x.c.Net().Heal()
}

// snapshot makes all servers take snapshots; one that is down or has nothing
// new does not.
func (x *chaos) snapshot(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i := range servers {
		if s := x.c.Server(i); s != nil {
			wg.Go(func() { x.log("snapshot of %s: %v", Host(i), s.Snapshot(ctx)) })
		}
	}
	wg.Wait()
}

// amnesia makes the situation in which a server that votes without its log
// does harm: one follower lags behind what the leader and the other have
// acknowledged; these two go down; the other comes back without its log, and
// the two could elect each other. It must refuse, and the one that lags wait
// for the old leader.
func (x *chaos) amnesia(ctx context.Context, f Fault) error {
	leader := x.c.Leader(f.Group)
	for leader < 0 && sleep(ctx, tryPause) {
		leader = x.c.Leader(f.Group)
	}
	if leader < 0 {
		return context.Cause(ctx)
	}
	lagging, forgetful := (leader+1)%servers, (leader+2)%servers
	if f.Server%2 == 1 {
		lagging, forgetful = forgetful, lagging
	}
	x.c.Isolate(lagging, x.hosts, true)
	sleep(ctx, f.For/3)
	for _, i := range []int{leader, forgetful} {
		if err := x.c.Crash(i); err != nil {
			return err
		}
	}
	if err := x.c.Forget(forgetful); err != nil {
		return fmt.Errorf("lose the log of %s: %w", Host(forgetful), err)
	}
	x.c.Net().Heal()
	if err := x.c.Start(forgetful); err != nil {
		return err
	}
	sleep(ctx, f.For*2/3)
	return x.c.Start(leader)
}
