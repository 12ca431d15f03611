package worker

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"hcclps/p2p/link"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// putSize is about how many bytes of rows a message of a load carries: what fits
// in the smallest log.
const putSize = 96 << 10

// Load creates the tables of a model directory in the job and gives them its
// rows, optimizer slots included, so that training goes on where it was saved;
// schedules begin anew. Every worker of the job calls it, before the model is
// made: rank 0 brings the rows, the others wait for that. A job is loaded once,
// before its first step; called again later, by a worker that was restarted, it
// changes nothing. Damage is found before anything is changed.
func (c *Client) Load(ctx context.Context, dir string) (*Manifest, error) {
	m, err := c.load(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("load model: %w", err)
	}
	return m, nil
}

func (c *Client) load(ctx context.Context, dir string) (*Manifest, error) {
	m, err := ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	if c.cfg.Rank == 0 {
		for i := range m.Tables {
			if err := m.Tables[i].readRows(dir, func(wire.Row) error { return nil }); err != nil {
				return nil, err
			}
		}
	}
	for i := range m.Tables {
		w := m.Tables[i].Table
		w.ID = 0
		made, err := c.agree(ctx, w)
		if err != nil {
			return nil, err
		}
		m.Tables[i].Table.ID = made.ID
	}
	send := func(p wire.Put) error {
		p.Load = m.id
		return c.everyShard(func(shard int) error {
			_, err := c.put(ctx, shard, p, nil)
			return err
		})
	}
	if c.cfg.Rank != 0 {
		return m, send(wire.Put{Wait: true})
	}
	if whole, err := c.loadBegins(ctx, m.id); whole || err != nil {
		return m, err
	}
	for i := range m.Tables {
		if err := c.loadTable(ctx, dir, m.id, &m.Tables[i]); err != nil {
			return nil, err
		}
	}
	return m, send(wire.Put{Complete: true})
}

// loadBegins tells every shard of a load. It reports whether all of them have the
// whole of it already.
func (c *Client) loadBegins(ctx context.Context, id uint64) (whole bool, err error) {
	done := make([]bool, len(c.session.shards))
	err = c.everyShard(func(shard int) error {
		var err error
		done[shard], err = c.put(ctx, shard, wire.Put{Load: id}, nil)
		return err
	})
	return !slices.Contains(done, false), err
}

// loadTable sends each shard its rows of a table.
func (c *Client) loadTable(ctx context.Context, dir string, id uint64, t *SavedTable) error {
	bodies := make([][]byte, len(c.session.shards))
	message := wire.Put{Load: id, Table: t.Table.ID, Rule: t.Rule}
	flush := func(shard int) error {
		_, err := c.put(ctx, shard, message, bodies[shard])
		bodies[shard] = bodies[shard][:0]
		return err
	}
	err := t.readRows(dir, func(r wire.Row) error {
		shard := int(c.servers.layout.Group(r.Key)) - 1
		bodies[shard] = wire.AppendRow(bodies[shard], r)
		if len(bodies[shard]) < putSize {
			return nil
		}
		return flush(shard)
	})
	if err != nil {
		return err
	}
	return c.everyShard(flush) // also where there are no rows: for the optimizer's state
}

func (c *Client) everyShard(do func(shard int) error) error {
	var eg errgroup.Group
	for i := range c.session.shards {
		eg.Go(func() error { return do(i) })
	}
	return eg.Wait()
}

// put sends a piece of a load to a shard, which may have the whole already.
func (c *Client) put(ctx context.Context, shard int, m wire.Put, rows []byte) (whole bool, err error) {
	m.Target = c.target(shard)
	r := request{op: "load rows", group: layout.GroupOf(shard), head: wire.Append(nil, &m), prio: link.Push}
	if m.Wait {
		r.op = "wait for the load by rank 0"
	}
	if len(rows) > 0 {
		r.body = [][]byte{rows}
	}
	a, _, err := c.servers.do(ctx, r)
	return a.Duplicate, err
}
