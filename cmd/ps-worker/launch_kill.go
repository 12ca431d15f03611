package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/ps/layout"
)

// every is a period in time or in steps of the job; zero: never.
type every struct {
	period time.Duration
	steps  uint64
}

// killPlan says how to hurt the job.
type killPlan struct {
	leader, worker   every
	leaders, workers int // kills at most
}

func parseKills(c *cli.Context) (killPlan, error) {
	var p killPlan
	var err error
	if p.leader, err = parseEvery("kill-leader-every", c.String("kill-leader-every")); err != nil {
		return p, err
	}
	if p.worker, err = parseEvery("kill-worker-every", c.String("kill-worker-every")); err != nil {
		return p, err
	}
	l, w, ok := strings.Cut(c.String("kills"), ",")
	var lerr, werr error
	p.leaders, lerr = strconv.Atoi(l)
	p.workers, werr = strconv.Atoi(w)
	if !ok || lerr != nil || werr != nil || p.leaders < 0 || p.workers < 0 {
		return p, program.Usage("--kills %q: want L,W: leader kills and worker kills", c.String("kills"))
	}
	if c.Int("servers") == 0 && p.worker.steps > 0 {
		return p, program.Usage("--kill-worker-every %s: steps are counted by servers: without them give a duration", c.String("kill-worker-every"))
	}
	if c.Int("servers") < 3 && p.leader != (every{}) && p.leaders > 0 {
		return p, program.Usage("--kill-leader-every needs --servers 3 or more: with fewer there is nobody to take over")
	}
	return p, nil
}

func parseEvery(flag, s string) (every, error) {
	if s == "" {
		return every{}, nil
	}
	if n, ok := strings.CutSuffix(s, "steps"); ok {
		if steps, err := strconv.ParseUint(n, 10, 64); err == nil && steps > 0 {
			return every{steps: steps}, nil
		}
	} else if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return every{period: d}, nil
	}
	return every{}, program.Usage("--%s %q: want a duration such as 2s, or Nsteps such as 100steps", flag, s)
}

// killer carries out the plan. It kills one process at a time, and the next
// only when every server is up and every group is led again.
type killer struct {
	plan       killPlan
	procs      *processes
	watch      *watcher // nil: no servers
	workers    []string
	leaders    int // killed
	workerKill int
	recoveries []time.Duration // from the kill of a shard's leader to the first push applied after it
}

func newKiller(p killPlan, procs *processes, w *watcher, workers []string) *killer {
	return &killer{plan: p, procs: procs, watch: w, workers: workers}
}

// due tells when a period has passed since the last kill.
type due struct {
	every
	at   time.Time
	step uint64
}

func (d *due) now(v view) bool {
	switch {
	case d.steps > 0:
		return v.clock >= d.step+d.steps
	case d.period > 0:
		return time.Since(d.at) >= d.period
	default:
		return false
	}
}

func (d *due) reset(v view) { d.at, d.step = time.Now(), v.clock }

func (k *killer) run(ctx context.Context) {
	if k.plan.leader == (every{}) && k.plan.worker == (every{}) {
		return
	}
	leader := due{every: k.plan.leader, at: time.Now()}
	worker := due{every: k.plan.worker, at: time.Now()}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var v view
		if k.watch != nil {
			v = k.watch.look(ctx)
			if !v.whole(len(k.watch.addrs)) || len(v.applied) < v.groups-1 {
				continue // still recovering, or the job has not begun everywhere
			}
		}
		switch {
		case k.leaders < k.plan.leaders && leader.now(v):
			k.killLeader(ctx, v)
			leader.reset(v)
		case k.workerKill < k.plan.workers && worker.now(v):
			if k.procs.kill(k.workers[k.workerKill%len(k.workers)]) {
				k.workerKill++
			}
			worker.reset(v)
		}
	}
}

// killLeader kills the leader of the next group, meta first, and times how long
// each shard it led goes without an applied push.
func (k *killer) killLeader(ctx context.Context, v view) {
	group := uint32(k.leaders % v.groups)
	victim := v.lead[group]
	if !k.procs.kill(victim) {
		return
	}
	k.leaders++
	start := time.Now()
	var led []uint32
	for g, name := range v.lead {
		if name == victim && g != layout.MetaGroup {
			led = append(led, g)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	// An error means that the job ended, or is stuck: then its own deadlines say so.
	_ = k.watch.until(ctx, func(now view) bool {
		led = slices.DeleteFunc(led, func(g uint32) bool {
			if now.lead[g] == "" || now.applied[g] <= v.applied[g] {
				return false
			}
			k.recoveries = append(k.recoveries, time.Since(start))
			return true
		})
		return len(led) == 0
	})
}

// recovery is the time without service after a leader kill, in milliseconds.
type recovery struct {
	Median int64 `json:"median"`
	Worst  int64 `json:"worst"`
	Count  int   `json:"count"`
}

func (k *killer) recovery() *recovery {
	if len(k.recoveries) == 0 {
		return nil
	}
	d := slices.Sorted(slices.Values(k.recoveries))
	return &recovery{Median: d[len(d)/2].Milliseconds(), Worst: d[len(d)-1].Milliseconds(), Count: len(d)}
}
