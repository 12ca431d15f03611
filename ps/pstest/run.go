package pstest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"hcclps/ps/shard"
	"hcclps/ps/wire"
	"hcclps/worker"
)

// Options of a run. Dir is needed.
type Options struct {
	Dir  string     // of the servers' data, and of the log run.log
	Bugs shard.Bugs // planted faults
}

// Bounds of a run, in its own time.
const (
	readyLimit  = time.Minute
	runLimit    = 2 * time.Minute
	settleLimit = 20 * time.Second
)

// Run plays a scenario and returns what was asked and answered. The error is
// for what is no matter of the judge: no room on disk, servers that do not
// start. It belongs in a testing/synctest bubble.
func Run(ctx context.Context, s Scenario, o Options) (h *History, err error) {
	out, err := os.Create(filepath.Join(o.Dir, "run.log"))
	if err != nil {
		return nil, fmt.Errorf("run seed %d: %w", s.Seed, err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	r := run{
		s: s, o: o, rec: &recorder{h: History{Seed: s.Seed}},
		logger: slog.New(slog.NewTextHandler(out, nil)),
	}
	if err := r.play(ctx); err != nil {
		return nil, fmt.Errorf("run seed %d: %w", s.Seed, err)
	}
	return &r.rec.h, nil
}

// run is one run of a scenario.
type run struct {
	s       Scenario
	o       Options
	rec     *recorder
	logger  *slog.Logger
	c       *Cluster
	hosts   []string
	clients []*client
}

func (r *run) log(format string, args ...any) {
	r.logger.Info("script", "event", fmt.Sprintf(format, args...))
}

func (r *run) play(ctx context.Context) (err error) {
	r.c = NewCluster(ctx, ClusterConfig{Dir: r.o.Dir, Seed: r.s.Seed, Shards: r.s.Shards, Logger: r.logger, Bugs: r.o.Bugs})
	defer func() {
		if cerr := r.c.Close(); cerr != nil {
			r.rec.fail("stop the servers: %v", cerr)
		}
	}()
	if err := r.c.StartAll(); err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	if err := r.c.Ready(ready); err != nil {
		return err
	}
	if err := r.recruit(ctx); err != nil {
		return err
	}
	work, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	r.work(work)
	r.inspect(ctx)
	for _, err := range r.c.Faults() {
		r.rec.fail("%v", err)
	}
	for _, c := range r.clients {
		c.raw.close()
	}
	return nil
}

// recruit makes the clients.
func (r *run) recruit(ctx context.Context) error {
	l, ok := r.c.Layout()
	if !ok {
		return errors.New("no server knows the layout")
	}
	for i := range servers {
		r.hosts = append(r.hosts, Host(i))
	}
	r.rec.add(func(h *History) { h.Layout = l })
	for j := range r.s.Jobs {
		job := &r.s.Jobs[j]
		r.rec.add(func(h *History) { h.Jobs = append(h.Jobs, Job{Name: job.Name, Params: job.Params}) })
		for rank := range job.Workers {
			host := fmt.Sprintf("c%d", len(r.clients))
			r.hosts = append(r.hosts, host)
			raw, err := newRaw(ctx, r.c.Net().Host(host), job.Workers[rank].Name+"-raw", l)
			if err != nil {
				return err
			}
			r.clients = append(r.clients, &client{
				rec: r.rec, log: r.log, network: r.c.Net().Host(host), addrs: r.c.Addrs(), layout: l,
				seed: r.s.Seed, job: job, plan: &job.Workers[rank], rank: rank, raw: raw,
			})
		}
	}
	return nil
}

// work plays clients and faults side by side, then looks at what is left.
func (r *run) work(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() {
		x := chaos{c: r.c, hosts: r.hosts, rec: r.rec, log: r.log}
		x.play(ctx, r.s.Faults)
		r.log("all faults are over")
	})
	for _, c := range r.clients {
		wg.Go(func() {
			if err := c.play(ctx); err != nil {
				r.rec.fail("%v", err)
			}
		})
	}
	wg.Wait()
}

// inspect reads everything when all workers have finished.
func (r *run) inspect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for _, c := range r.clients {
		if c.rank == 0 && c.w != nil {
			if err := c.inspect(ctx); err != nil {
				r.rec.fail("%v: read at the end: %v", c.who(), err)
			}
		}
	}
	settle, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	status := r.c.Settled(settle)
	r.rec.add(func(h *History) { h.Servers = status })
	for _, c := range r.clients {
		if c.w != nil {
			c.log("%v ends: %v", c.who(), c.w.Close(ctx))
		}
	}
}

// inspect reads all rows of the job by pull and by scan.
func (c *client) inspect(ctx context.Context) error {
	if err := c.embed(ctx, never); err != nil { // also the tables it came too early for
		return err
	}
	p := Pull{Who: c.who(), Step: wire.Infinity, Call: c.rec.tick()}
	var reads []worker.Read
	for i, e := range c.tables {
		g := Gradient{Table: e.ID, Keys: c.job.Tables[i].Keys, Values: make([]float32, len(c.job.Tables[i].Keys)*int(e.Dim))}
		p.Rows = append(p.Rows, g)
		reads = append(reads, worker.Read{Table: e, Keys: g.Keys, Out: g.Values})
	}
	err := c.until(ctx, "pull after the last step", func(ctx context.Context) error { return c.w.PullFinal(ctx, reads...) })
	if err != nil {
		return err
	}
	p.Return = c.rec.tick()
	c.rec.add(func(h *History) { h.Pulls = append(h.Pulls, p) })
	for _, e := range c.tables {
		all := Rows{Job: c.job.Name, Table: e.ID}
		err := c.until(ctx, "scan", func(ctx context.Context) error {
			all.Rows = nil
			return c.w.Scan(ctx, e, func(row wire.Row) error {
				all.Rows = append(all.Rows, row)
				return nil
			})
		})
		if err != nil {
			return err
		}
		c.rec.add(func(h *History) { h.Rows = append(h.Rows, all) })
	}
	return nil
}

// table notes a table's description.
func (r *recorder) table(j *JobPlan, t wire.Table) {
	r.add(func(h *History) {
		i := slices.IndexFunc(h.Jobs, func(x Job) bool { return x.Name == j.Name })
		if !slices.ContainsFunc(h.Jobs[i].Tables, func(x wire.Table) bool { return x.ID == t.ID }) {
			h.Jobs[i].Tables = append(h.Jobs[i].Tables, t)
		}
	})
}

// fill puts the values of an answer into what was read.
func fill(grads []Gradient, body []byte) {
	for _, g := range grads {
		for i := range g.Values {
			g.Values[i] = math.Float32frombits(binary.LittleEndian.Uint32(body))
			body = body[4:]
		}
	}
}
