package worker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"hcclps/p2p/link"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// lookDeadline bounds Layout and FindRow.
const lookDeadline = 10 * time.Second

// looking is what knows a cluster without a session there.
func looking(client *link.Client, servers []string, job string) *cluster {
	return newCluster(client, Config{Servers: servers, Job: job, Deadline: lookDeadline, Logger: slog.New(slog.DiscardHandler)}, &waits{}, &counters{})
}

// Layout asks servers, over a client of the caller's, where everything is in their cluster.
func Layout(ctx context.Context, client *link.Client, servers []string) (layout.Layout, error) {
	c := looking(client, servers, "")
	err := c.discover(ctx)
	return c.layout, err
}

// FindRow asks for the row of a key, over a client of the caller's, as of some moment after the call: what is there, or what stands for it. It
// waits for an election, for ten seconds at most. The shard that has the row is returned too.
func FindRow(ctx context.Context, client *link.Client, servers []string, job string, table uint32, key uint64) (found wire.Found, shard int, err error) {
	c := looking(client, servers, job)
	if err := c.discover(ctx); err != nil {
		return found, 0, err
	}
	m := wire.Find{Group: c.layout.Group(key), Job: job, Table: table, Key: key}
	shard = int(m.Group - layout.GroupOf(0))
	_, body, err := c.do(ctx, request{op: "find row", group: m.Group, head: wire.Append(nil, &m), prio: link.Background})
	if err == nil {
		found, err = wire.DecodeFound(body)
	}
	if err != nil {
		return found, shard, fmt.Errorf("find key %d of table %d of job %q: %w", key, table, job, err)
	}
	return found, shard, nil
}
