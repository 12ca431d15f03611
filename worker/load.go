package worker

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"hcclps/internal/vec"
	"hcclps/p2p/link"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// putSize is about how many bytes of rows a message of a load carries: what fits
// in the smallest log.
const putSize = 96 << 10

// Load creates the tables of a model in the job and gives them its rows, optimizer
// slots included, so that training goes on where it was saved; schedules begin
// anew. ReadModel says what path may be. Every worker of the job calls it, before
// the model is made: rank 0 brings the rows, the others wait for that. A table that the
// model has made before keeps its own description, how missing rows begin included;
// for tensors that nothing describes (Manifest.Bare) it must be made before. A job is loaded once, before its first step; called
// again later, by a worker that was restarted, it changes nothing. Damage is found
// before anything is changed.
func (c *Client) Load(ctx context.Context, path string) (*Manifest, error) {
	m, err := c.load(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("load model: %w", err)
	}
	return m, nil
}

func (c *Client) load(ctx context.Context, path string) (*Manifest, error) {
	m, err := ReadModel(ctx, path)
	if err == nil {
		err = m.fit(c.tables)
	}
	if err != nil {
		return nil, err
	}
	if c.Rank() == 0 {
		for i := range m.Tables {
			if err := m.check(ctx, &m.Tables[i]); err != nil {
				return nil, err
			}
		}
	}
	for i := range m.Tables {
		w := m.Tables[i].Table
		w.ID = 0
		if c.tables[w.Name] == nil && c.cfg.Compress.names(w.Name) {
			if w.Compress, err = c.cfg.Compress.of(w.Name, ""); err != nil {
				return nil, err
			}
		}
		made, err := c.agree(ctx, w, c.cfg.Compress.said(w.Name, ""))
		if err != nil {
			return nil, err
		}
		m.Tables[i].Table.ID = made.ID
	}
	return m, c.store.load(ctx, m)
}

// check reads all rows of a table.
func (m *Manifest) check(ctx context.Context, t *SavedTable) error {
	if _, saved := m.from.(folder); saved {
		return m.from.rows(ctx, t, func(wire.Row) error { return nil }) // its keys ascend
	}
	keys := make([]uint64, 0, min(t.Rows, 1<<20))
	err := m.from.rows(ctx, t, func(r wire.Row) error {
		if bad := vec.NonFinite(r.Values); bad >= 0 {
			return fmt.Errorf("table %q: key %d: value %d is %v", t.Table.Name, r.Key, bad, r.Values[bad])
		}
		keys = append(keys, r.Key)
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(keys)
	for i := 1; i < len(keys); i++ {
		if keys[i] == keys[i-1] {
			return fmt.Errorf("table %q: key %d is there twice", t.Table.Name, keys[i])
		}
	}
	return nil
}

// load implements store.
func (s *servers) load(ctx context.Context, m *Manifest) error {
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
		if err := s.loadTable(ctx, m, &m.Tables[i]); err != nil {
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
func (s *servers) loadTable(ctx context.Context, m *Manifest, t *SavedTable) error {
	batches := make([][]wire.Row, len(s.session.shards))
	message := wire.Put{Load: m.id, Table: t.Table.ID, Rule: t.Rule}
	flush := func(shard int) error {
		rows := batches[shard]
		slices.SortFunc(rows, func(a, b wire.Row) int { return cmp.Compare(a.Key, b.Key) })
		var body []byte
		for _, r := range rows {
			body = wire.AppendRow(body, r)
		}
		_, err := s.put(ctx, shard, message, body)
		batches[shard] = rows[:0]
		return err
	}
	err := m.from.rows(ctx, t, func(r wire.Row) error {
		shard := int(s.layout.Group(r.Key)) - 1
		batches[shard] = append(batches[shard], r)
		if len(batches[shard])*(rowFixed+4*t.Width) < putSize {
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
