package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"hcclps/p2p/link"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// Audit is what the shards have on record of a job: every batch that any
// worker pushed must have been applied on every shard, once.
type Audit struct {
	Batches   uint64   // distinct (worker, step) committed with the data cursor
	Applied   uint64   // (worker, step) applied, each counted by the shard that applied it
	Restarted []string // workers that were opened more than once
	Rebuilds  int      // AllReduce: how often the workers have changed, one being lost or coming
}

// Audit asks the leader of every shard and checks that all agree.
func (c *Client) Audit(ctx context.Context) (Audit, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Deadline)
	defer cancel()
	a, err := c.store.audit(ctx)
	if err != nil {
		return a, fmt.Errorf("audit: %w", err)
	}
	return a, nil
}

// audit implements store.
func (s *servers) audit(ctx context.Context) (Audit, error) {
	jobs, err := s.jobs(ctx, s.cfg.Job)
	if err != nil {
		return Audit{}, err
	}
	var first Audit
	for shard, j := range jobs {
		a := Audit{Applied: j.Applied}
		for _, w := range j.Workers {
			a.Batches += w.Done
			if w.Incarnation > 1+2*w.Restores {
				a.Restarted = append(a.Restarted, w.Worker)
			}
		}
		if shard == 0 {
			first = a
		} else if a.Batches != first.Batches || a.Applied != first.Applied {
			return a, fmt.Errorf("shard %d has %d batches and applied %d, shard 0 has %d and %d", shard, a.Batches, a.Applied, first.Batches, first.Applied)
		}
	}
	slices.Sort(first.Restarted)
	return first, nil
}

// jobs is the job's record at the leader of each shard; it asks again while an
// election is on.
func (c *cluster) jobs(ctx context.Context, job string) ([]wire.JobStatus, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		jobs, missing, err := c.jobsNow(ctx, job)
		if missing < 0 {
			return jobs, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("no leader of shard %d answers: %w", missing, err)
		}
	}
}

// jobsNow asks every server once; missing is a shard without an answer, or -1.
func (c *cluster) jobsNow(ctx context.Context, job string) (jobs []wire.JobStatus, missing int, err error) {
	found := map[uint32]wire.JobStatus{}
	terms := map[uint32]uint64{}
	for _, m := range c.layout.Members {
		s, serr := ServerStatus(ctx, c.link, m.Addr, false)
		if serr != nil {
			err = serr
			continue
		}
		for _, g := range s.Groups {
			i := slices.IndexFunc(g.Jobs, func(j wire.JobStatus) bool { return j.Job == job })
			if i >= 0 && g.State == "leader" && g.Term >= terms[g.Group] {
				found[g.Group], terms[g.Group] = g.Jobs[i], g.Term
			}
		}
	}
	for i := range c.layout.Shards {
		j, ok := found[layout.GroupOf(i)]
		if !ok {
			return nil, i, err
		}
		jobs = append(jobs, j)
	}
	return jobs, -1, nil
}

// ServerStatus asks one server what it sees, over a client of the caller's.
func ServerStatus(ctx context.Context, client *link.Client, addr string, waiting bool) (wire.ServerStatus, error) {
	var s wire.ServerStatus
	head, err := wire.Control(wire.KindStatus, wire.StatusRequest{Waiting: waiting})
	if err != nil {
		return s, err
	}
	reply, err := client.Call(ctx, addr, link.Call{Head: head, Priority: link.Background})
	if err != nil {
		return s, err
	}
	a, err := wire.DecodeAnswer(reply.Head)
	if err != nil {
		return s, err
	}
	if a.Status != wire.OK {
		return s, &RefusedError{a.Status, a.Detail}
	}
	if err := json.Unmarshal(reply.Body, &s); err != nil {
		return s, fmt.Errorf("read status of %s: %w", addr, err)
	}
	return s, nil
}
