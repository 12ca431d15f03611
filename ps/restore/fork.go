package restore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"hcclps/checkpoint"
	"hcclps/ps/layout"
	"hcclps/ps/optim"
	"hcclps/ps/shard"
	"hcclps/ps/wire"
)

// Copy is a table of a checkpoint, and how it is called where it comes to.
type Copy struct {
	Table string
	As    string // "": as it was
}

// ForkConfig says which tables of a checkpoint come into a job.
type ForkConfig struct {
	From   *checkpoint.Checkpoint
	Job    string // that they come to, running or not; "": as in the checkpoint
	Tables []Copy
	To     Cluster
	// Progress, if it is set, is called now and then with the rows that are there and
	// those there will be.
	Progress func(done, total uint64)
}

// Forked says what came of a Copy.
type Forked struct {
	Table string `json:"table"`
	As    string `json:"as"`
	Rows  uint64 `json:"rows"` // of the table in the checkpoint
	Step  uint64 `json:"step"` // of the job, from which on it has the table; 0 if it had it
	// There says that this very fork was done already, by an earlier run or one beside this.
	There bool `json:"there,omitempty"`
}

// ForkReport says what was forked.
type ForkReport struct {
	Checkpoint uint64   `json:"checkpoint"`
	Job        string   `json:"job"`
	Tables     []Forked `json:"tables"`
}

// Fork brings tables of a checkpoint into a job under names that are free there: rows with their optimizer slots and
// sightings, schema and the state of the optimizer as they were. The job may run, or begins with them when its workers
// come: an experiment on a copy. Rows count as written at the step the job was at when the fork began; eviction takes
// none for older than the step from which on the job has the table. Workers see a table when all of it is there, as of
// one step on all shards. What was broken off holds its memory (ps-server tables shows it) until it is run again, or
// given up by another fork to that name. Keys that were not admitted yet begin anew.
func Fork(ctx context.Context, cfg ForkConfig) (ForkReport, error) {
	m := cfg.From.Manifest()
	if cfg.Job == "" {
		cfg.Job = m.Job
	}
	done := ForkReport{Checkpoint: m.ID, Job: cfg.Job}
	forks, err := cfg.forks(m)
	for _, f := range forks {
		var got Forked
		if err == nil {
			got, err = f.bring(ctx)
		}
		if err != nil {
			break
		}
		done.Tables = append(done.Tables, got)
	}
	if err != nil {
		return done, fmt.Errorf("fork tables of checkpoint %d into job %q: %w", m.ID, cfg.Job, err)
	}
	return done, nil
}

// forks looks at all that is wanted before anything is brought.
func (cfg *ForkConfig) forks(m *checkpoint.Manifest) ([]*fork, error) {
	if err := cfg.From.Fits(cfg.To.Layout().HashSeed); err != nil {
		return nil, fmt.Errorf("%w: rows are in partitions of it; load them by a worker (ps-worker train --load), which gives each row its place", err)
	}
	if len(cfg.Tables) == 0 {
		return nil, errors.New("no table is named")
	}
	var forks []*fork
	var errs []error
	var total uint64
	for i, c := range cfg.Tables {
		if c.As == "" {
			c.As = c.Table
		}
		f, err := cfg.fork(m, c)
		if err == nil && slices.ContainsFunc(cfg.Tables[:i], func(o Copy) bool { return o.As == c.As || o.As == "" && o.Table == c.As }) {
			err = fmt.Errorf("two tables are to be called %q", c.As)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		f.before = total
		total += m.Rows(f.of.ID)
		forks = append(forks, f)
	}
	for _, f := range forks {
		f.total = total
	}
	return forks, errors.Join(errs...)
}

// fork is one table on its way.
type fork struct {
	*ForkConfig
	of            checkpoint.Table
	as            string
	made          wire.ForkedTable
	load          uint64
	stride        int
	before, total uint64 // rows of those that came before, and of all
	rows          atomic.Uint64
}

func (cfg *ForkConfig) fork(m *checkpoint.Manifest, c Copy) (*fork, error) {
	of, ok := m.Table(c.Table)
	if !ok || !OfModel(of) {
		return nil, unknown(m, c.Table)
	}
	if !wire.ValidName(c.As) {
		return nil, fmt.Errorf("name %.300q for a copy of table %q: want UTF-8, 1 to %d bytes", c.As, c.Table, wire.MaxName)
	}
	f := &fork{ForkConfig: cfg, of: of, as: c.As, stride: shard.RowHead + 4*int(of.Dim+of.Slots)}
	err := json.Unmarshal(of.Schema, &f.made.Table)
	if err == nil && len(of.State) > 0 {
		err = json.Unmarshal(of.State, &f.made.Rule)
	}
	if err != nil {
		return nil, fmt.Errorf("table %q of the checkpoint: %w", c.Table, err)
	}
	f.made.Table.ID, f.made.Table.Name = 0, c.As
	b, err := json.Marshal([]any{m, cfg.Job, c.Table, c.As})
	if err != nil {
		return nil, fmt.Errorf("name a fork: %w", err)
	}
	sum := sha256.Sum256(b)
	f.load = binary.LittleEndian.Uint64(sum[:]) | 1
	return f, nil
}

// unknown says that a checkpoint has no such table of the model, and which it has.
func unknown(m *checkpoint.Manifest, name string) error {
	var names []string
	for _, t := range m.Tables {
		if OfModel(t) {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return fmt.Errorf("checkpoint %d has no table %.300q: it has none at all", m.ID, name)
	}
	guess, more := "", ""
	if near := optim.Near(name, names); near != "" {
		guess = fmt.Sprintf("did you mean %q? ", near)
	}
	const most = 10
	if n := len(names); n > most {
		names, more = names[:most], fmt.Sprintf(" and %d more", n-most)
	}
	return fmt.Errorf("checkpoint %d has no table %.300q: %sit has %q%s", m.ID, name, guess, names, more)
}

// bring brings all of the table to all shards, and then into the job.
func (f *fork) bring(ctx context.Context) (Forked, error) {
	out := Forked{Table: f.of.Name, As: f.as, Rows: f.From.Manifest().Rows(f.of.ID)}
	there, step, err := f.begin(ctx)
	if out.There = there && err == nil; err == nil && !there {
		if err = f.everyShard(ctx, func(ctx context.Context, i int) error { return f.shard(ctx, i, step) }); err == nil {
			out.Step, out.There, err = f.plan(ctx)
		}
	}
	if err != nil {
		return out, fmt.Errorf("table %q as %q: %w", f.of.Name, f.as, err)
	}
	return out, nil
}

// begin tells every shard of the table, and hears how far the job is. It reports whether the table is there already, by this very fork.
func (f *fork) begin(ctx context.Context) (whole bool, step uint64, err error) {
	b, err := json.Marshal(f.made)
	if err != nil {
		return false, 0, fmt.Errorf("describe it: %w", err)
	}
	answers := make([]wire.Answer, len(f.To.Layout().Shards))
	err = f.everyShard(ctx, func(ctx context.Context, i int) (err error) {
		answers[i], err = f.send(ctx, i, wire.ForkTable, b)
		return err
	})
	whole = true
	for _, a := range answers {
		step = max(step, a.Clock)
		whole = whole && a.Detail == wire.RestoredWhole
	}
	return whole, step, err
}

// shard gives a shard its rows.
func (f *fork) shard(ctx context.Context, i int, step uint64) error {
	var data []byte
	var rows uint64
	flush := func() error {
		if len(data) == 0 {
			return nil
		}
		if _, err := f.send(ctx, i, wire.ForkPages, data); err != nil {
			return err
		}
		if now := f.rows.Add(rows); f.Progress != nil {
			f.Progress(f.before+now, f.total)
		}
		data, rows = data[:0], 0
		return nil
	}
	n := len(f.To.Layout().Shards)
	for p, err := range f.From.Pages(ctx, checkpoint.Query{Tables: []uint32{f.of.ID}, From: i * layout.Partitions / n, To: (i + 1) * layout.Partitions / n}) {
		if err == nil && len(data)+len(p.Data) > pieceSize {
			err = flush()
		}
		if err != nil {
			return err
		}
		data = wire.AppendPage(data, wire.Page{Partition: p.Partition, Page: p.Page, Data: p.Data})
		shard.Restamp(data[len(data)-len(p.Data):], f.stride, step)
		rows += uint64(binary.LittleEndian.Uint16(p.Data))
	}
	if err := flush(); err != nil {
		return err
	}
	_, err := f.send(ctx, i, wire.ForkEnd, nil)
	return err
}

// plan has the job get the table, and says from which step on, or that it has it.
func (f *fork) plan(ctx context.Context) (step uint64, there bool, err error) {
	p := wire.Plan{Kind: wire.PlanFork, Table: f.made.Table, Fork: f.load}
	a, body, err := f.To.Meta(ctx, wire.KindPlan, wire.PlanRequest{SessionRef: wire.SessionRef{Job: f.Job}, Plan: p}, nil)
	if err = definite(a, err); err == nil {
		err = json.Unmarshal(body, &p)
	}
	if err != nil || p.ID != 0 {
		return p.T, false, err
	}
	there, _, err = f.begin(ctx) // it came late, or somebody has made such a table meanwhile
	if err == nil && !there {
		err = errors.New("the job has got a table of that name meanwhile: give the copy another one")
	}
	return 0, there, err
}

func (f *fork) everyShard(ctx context.Context, do func(ctx context.Context, i int) error) error {
	tasks, inner := errgroup.WithContext(ctx)
	tasks.SetLimit(atOnce)
	for i := range f.To.Layout().Shards {
		tasks.Go(func() error { return do(inner, i) })
	}
	return tasks.Wait()
}

func (f *fork) send(ctx context.Context, i int, piece wire.RestorePiece, data []byte) (wire.Answer, error) {
	group := layout.GroupOf(i)
	a, _, err := f.To.Shard(ctx, group, &wire.Restore{Group: group, Job: f.Job, Load: f.load, Piece: piece}, data)
	if err := definite(a, err); err != nil {
		return a, fmt.Errorf("%s: %w", layout.GroupName(group), err)
	}
	return a, nil
}
