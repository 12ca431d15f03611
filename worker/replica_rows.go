package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"hcclps/internal/vec"
	"hcclps/ps/table"
	"hcclps/ps/wire"
)

// localRead is a read of a replica.
type localRead struct {
	r     *replica
	reads []keyed
}

// read implements store.
func (r *replica) read(reads []Read) (reader, error) {
	keyed, err := keyAll(nil, reads)
	if err != nil {
		return nil, err
	}
	return &localRead{r, keyed}, nil
}

// run implements reader: it waits until the steps before are applied.
func (l *localRead) run(ctx context.Context, step uint64, _ *latest) error {
	if err := l.r.await(ctx, step); err != nil {
		return err
	}
	l.r.mu.RLock()
	defer l.r.mu.RUnlock()
	for i := range l.reads {
		k := &l.reads[i]
		t := l.r.table(k.table.ID)
		if t == nil {
			return fmt.Errorf("table %q does not exist", k.table.Name)
		}
		t.gather(k)
		l.r.counters.pulledRows.Add(uint64(len(k.keys)))
		l.r.counters.pulledBytes.Add(uint64(4 * len(k.out)))
	}
	l.r.counters.pulls.Add(1)
	return nil
}

// await waits until so many steps are applied; wire.Infinity is the end, which is now when somebody asks.
func (r *replica) await(ctx context.Context, step uint64) error {
	if step == wire.Infinity {
		return nil
	}
	for {
		r.mu.RLock()
		there, moved := r.clock+r.delay >= step, r.moved
		r.mu.RUnlock()
		if there {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("wait for step %d: %w", step, context.Cause(ctx))
		}
	}
}

// gather reads rows. The last one may be short.
func (t *held) gather(k *keyed) {
	dim := int(t.Spec.Dim)
	whole := len(k.out) / dim
	t.Rows.Gather(k.keys[:whole], k.out[:whole*dim])
	if whole < len(k.keys) {
		last := make([]float32, dim)
		t.Rows.Gather(k.keys[whole:], last)
		copy(k.out[whole*dim:], last)
	}
}

// scan implements store.
func (r *replica) scan(ctx context.Context, w *wire.Table, visit func(wire.Row) error) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	t := r.table(w.ID)
	if t == nil {
		return fmt.Errorf("table %q does not exist", w.Name)
	}
	return scanned(t.Rows, visit)
}

// scanRows is scan of rows of any kind.
func (r *replica) scanRows(ctx context.Context, t *table.Table, visit func(wire.Row) error) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return scanned(t, visit)
}

func scanned(t *table.Table, visit func(wire.Row) error) error {
	var err error
	t.Scan(0, true, 0, func(row table.Row) bool {
		err = visit(wire.Row{Key: row.Key, Step: row.Step, Sightings: row.Sightings, Writer: row.Writer, Values: row.Values})
		return err == nil
	})
	return err
}

// rule implements store.
func (r *replica) rule(_ context.Context, w *wire.Table) (wire.RuleState, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	t := r.table(w.ID)
	if t == nil {
		return wire.RuleState{}, fmt.Errorf("table %q does not exist", w.Name)
	}
	return wire.RuleState(t.Opt), nil
}

// putRows is how many rows of a load are put into a table at once.
const putRows = 1 << 12

// load implements store. Rank 0 brings the rows; the others get them before the first step.
func (r *replica) load(ctx context.Context, m *Manifest) error {
	if r.clock > 0 || r.loaded == m.id {
		return nil
	}
	if r.peers != nil && r.met {
		return errors.New("the workers have begun with what they had: load before that")
	}
	if r.rank() != 0 {
		return nil
	}
	if r.loaded != 0 {
		return fmt.Errorf("another model (%016x) is loaded, this is %016x", r.loaded, m.id)
	}
	for i := range m.Tables {
		if err := r.loadTable(ctx, m, &m.Tables[i]); err != nil {
			return err
		}
	}
	r.loaded = m.id
	return nil
}

func (r *replica) loadTable(ctx context.Context, m *Manifest, s *SavedTable) error {
	t := r.table(s.Table.ID)
	var rows []table.Row
	put := func() error {
		slices.SortFunc(rows, func(a, b table.Row) int { return cmp.Compare(a.Key, b.Key) })
		err := refused(t.Put(rows))
		rows = rows[:0]
		return err
	}
	err := m.from.rows(ctx, s, func(row wire.Row) error {
		if bad := vec.NonFinite(row.Values); bad >= 0 {
			return fmt.Errorf("key %d: value %d is %v", row.Key, bad, row.Values[bad])
		}
		rows = append(rows, table.Row{Key: row.Key, Sightings: row.Sightings, Values: row.Values})
		if len(rows) < putRows {
			return nil
		}
		return put()
	})
	if err == nil {
		err = put()
	}
	if s.Rule.Steps > 0 {
		t.Opt.Steps, t.Opt.Pow = s.Rule.Steps, s.Rule.Pow
	}
	return err
}
