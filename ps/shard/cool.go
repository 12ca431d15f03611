package shard

import (
	"context"
	"fmt"
	"time"

	"hcclps/ps/table"
	"hcclps/ps/wire"
)

const (
	// coolEvery is how often tables are looked at that nobody writes to, and how long rows that could not be written wait.
	coolEvery = time.Second
	// warmTimeout bounds what is read before an entry is applied; after it the entry reads the rest itself.
	warmTimeout = 10 * time.Second
	// overMemory is the part of the tables' memory that they may use beyond it while rows are on their way out.
	overMemory = 10
)

// rowsLock is the group's lock, for those who move rows without changing them: answers that are on their way do not read the tables any more.
type rowsLock struct{ g *Group }

func (l rowsLock) RLock()   { l.g.mu.RLock() }
func (l rowsLock) RUnlock() { l.g.mu.RUnlock() }
func (l rowsLock) Unlock()  { l.g.mu.Unlock() }
func (l rowsLock) Lock() {
	l.g.views.settle() // most of them before the lock is taken
	l.g.mu.Lock()
	l.g.views.settle()
}

// cool moves rows to the cold store when memory is short, until ctx ends.
func (g *Group) cool(ctx context.Context) {
	if g.cfg.Cold == nil {
		return
	}
	tick := time.NewTicker(coolEvery)
	defer tick.Stop()
	for {
		select {
		case <-g.tight:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for _, rows := range g.tables() {
			err := rows.Cool(ctx, rowsLock{g})
			if err == nil || ctx.Err() != nil {
				continue
			}
			g.cfg.Logger.Warn("memory is short, and cold rows cannot leave it", "group", g.cfg.Group, "err", err)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}
}

// tables lists the rows of all tables.
func (g *Group) tables() []*table.Table {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.state.rows()
}

// rows lists those of all tables, in a fixed order.
func (s *State) rows() []*table.Table {
	var out []*table.Table
	for _, name := range s.names() {
		for _, t := range s.jobs[name].tabs() {
			out = append(out, t.Rows)
		}
	}
	return out
}

// lookAtMemory has room made if memory is short. The lock is held.
func (g *Group) lookAtMemory() {
	if g.cfg.Cold == nil {
		return
	}
	for _, j := range g.state.jobs {
		for _, t := range j.tabs() {
			if t.Rows.Tight() {
				select {
				case g.tight <- struct{}{}:
				default:
				}
				return
			}
		}
	}
}

// warm brings rows into memory that are about to be pulled: whoever trains pushes to them next. No lock is held while they are read.
func (g *Group) warm(ctx context.Context, job string, sections []wire.Section) error {
	if g.cfg.Cold == nil {
		return nil
	}
	for _, s := range sections {
		if err := g.warmKeys(ctx, job, s.Table, s.Keys); err != nil {
			return err
		}
	}
	return nil
}

func (g *Group) warmKeys(ctx context.Context, job string, id uint32, keys []uint64) error {
	var rows *table.Table
	g.mu.RLock()
	if j := g.state.jobs[job]; j != nil {
		if t := j.table(id); t != nil {
			rows = t.Rows
		}
	}
	g.mu.RUnlock()
	if rows == nil {
		return nil
	}
	return rows.Warm(ctx, rowsLock{g}, keys)
}

// warmEntry brings the rows into memory that an entry changes, before the lock is taken. What it leaves out is read under the lock.
func (g *Group) warmEntry(ctx context.Context, p *prepared) {
	if g.cfg.Cold == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, warmTimeout)
	defer cancel()
	var err error
	if m, ok := p.entry.Message.(*wire.Put); ok {
		keys := make([]uint64, len(p.rows))
		for i := range keys {
			keys[i] = p.rows[i].Key
		}
		err = g.warmKeys(ctx, m.Job, m.Table, keys)
	}
	for i := range p.items {
		if err == nil {
			err = g.warm(ctx, p.entry.Steps[i].Job, p.items[i].Sections)
		}
	}
	if err != nil {
		g.cfg.Logger.Warn("cold rows of an entry are not in memory", "group", g.cfg.Group, "err", err)
	}
}

// Cold is the number of rows of this replica that are in the cold store, and of pieces of tables that were asked for there.
func (g *Group) Cold() (rows, misses int64) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, t := range g.state.rows() {
		s := t.Stats().Cold
		rows, misses = rows+s.Rows, misses+s.Misses
	}
	return rows, misses
}

// fault is the first table whose cold rows cannot be read: it is not what its replicas are any more. The lock is held.
func (s *State) fault() error {
	for _, j := range s.jobs {
		for _, t := range j.tabs() {
			if err := t.Rows.Err(); err != nil {
				return fmt.Errorf("table %q of job %q: %w: stop this server, look at its disk, and start it again", t.Spec.Name, j.Name, err)
			}
		}
	}
	return nil
}

// spills says whether a table of the view moves rows while others read them.
func (v *view) spills() bool {
	for i := range v.parts {
		if v.parts[i].rows.Spills() {
			return true
		}
	}
	return false
}

// overfull says why tables must not grow, or nothing; and whether not even rows that are there can be written, since cold ones cannot make room.
func (g *Group) overfull() (why string, stuck bool) {
	m := g.cfg.Memory
	if m == nil || m.Used() <= m.Limit()+m.Limit()/overMemory {
		return "", false
	}
	why = fmt.Sprintf("tables use %d bytes of memory, and %d are meant for them: give the server more (Memory, --memory), add servers, or let tables evict rows (--evict)", m.Used(), m.Limit())
	for _, rows := range g.tables() {
		if err := rows.Trouble(); err != nil {
			return fmt.Sprintf("%s; cold rows cannot be written: %v", why, err), true
		}
	}
	return why, false
}

// outgrows says that a push has more keys without a row than fit, where tables must not grow; why is that of overfull. State's lock is held.
func (j *job) outgrows(sections []wire.Section, why string) string {
	for _, s := range sections {
		t := j.table(s.Table)
		if t == nil || t.Spec.Shape != nil {
			continue
		}
		missing := t.Rows.Missing(s.Keys, nil)
		if n := len(missing); n > t.Rows.Room() {
			return fmt.Sprintf("table %q of job %q: no room for the rows of %d new keys, as of key %d: %s", t.Spec.Name, j.Name, n, s.Keys[missing[0]], why)
		}
	}
	return ""
}
