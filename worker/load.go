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
	if c.Rank() == 0 {
		for i := range m.Tables {
			if err := m.Tables[i].readRows(dir, func(wire.Row) error { return nil }); err != nil {
				return nil, err
			}
		}
	}
	for i := range m.Tables {
		w := m.Tables[i].Table
		w.ID = 0
		if c.cfg.Compress.names(w.Name) {
			if w.Compress, err = c.cfg.Compress.of(w.Name, ""); err != nil {
				return nil, err
			}
		}
		made, err := c.agree(ctx, w)
		if err != nil {
			return nil, err
		}
		m.Tables[i].Table.ID = made.ID
	}
	return m, c.store.load(ctx, dir, m)
}

// load implements store.
func (s *servers) load(ctx context.Context, dir string, m *Manifest) error {
	send := func(p wire.Put) error {
		p.Load = m.id
		return s.everyShard(func(shard int) error {
			_, err := s.put(ctx, shard, p, nil)
			return err
		})
	}
	if s.cfg.Rank != 0 {
		return send(wire.Put{Wait: true})
	}
	if whole, err := s.loadBegins(ctx, m.id); whole || err != nil {
		return err
	}
	for i := range m.Tables {
		if err := s.loadTable(ctx, dir, m.id, &m.Tables[i]); err != nil {
			return err
		}
	}
	return send(wire.Put{Complete: true})
}

// loadBegins tells every shard of a load. It reports whether all of them have the
// whole of it already.
func (s *servers) loadBegins(ctx context.Context, id uint64) (whole bool, err error) {
	done := make([]bool, len(s.session.shards))
	err = s.everyShard(func(shard int) error {
		var err error
		done[shard], err = s.put(ctx, shard, wire.Put{Load: id}, nil)
		return err
	})
	return !slices.Contains(done, false), err
}

// loadTable sends each shard its rows of a table.
func (s *servers) loadTable(ctx context.Context, dir string, id uint64, t *SavedTable) error {
	bodies := make([][]byte, len(s.session.shards))
	message := wire.Put{Load: id, Table: t.Table.ID, Rule: t.Rule}
	flush := func(shard int) error {
		_, err := s.put(ctx, shard, message, bodies[shard])
		bodies[shard] = bodies[shard][:0]
		return err
	}
	err := t.readRows(dir, func(r wire.Row) error {
		shard := int(s.layout.Group(r.Key)) - 1
		bodies[shard] = wire.AppendRow(bodies[shard], r)
		if len(bodies[shard]) < putSize {
			return nil
		}
		return flush(shard)
	})
	if err != nil {
		return err
	}
	return s.everyShard(flush) // also where there are no rows: for the optimizer's state
}

func (s *servers) everyShard(do func(shard int) error) error {
	var eg errgroup.Group
	for i := range s.session.shards {
		eg.Go(func() error { return do(i) })
	}
	return eg.Wait()
}

// put sends a piece of a load to a shard, which may have the whole already.
func (s *servers) put(ctx context.Context, shard int, m wire.Put, rows []byte) (whole bool, err error) {
	m.Target = s.target(shard)
	r := request{op: "load rows", group: layout.GroupOf(shard), head: wire.Append(nil, &m), prio: link.Push}
	if m.Wait {
		r.op = "wait for the load by rank 0"
	}
	if len(rows) > 0 {
		r.body = [][]byte{rows}
	}
	a, _, err := s.do(ctx, r)
	return a.Duplicate, err
}
