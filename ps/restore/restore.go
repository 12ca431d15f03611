package restore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"hcclps/checkpoint"
	"hcclps/ps/layout"
	"hcclps/ps/meta"
	"hcclps/ps/shard"
	"hcclps/ps/wire"
)

const (
	// pieceSize is about how many bytes of pages a message carries: what fits in the smallest log.
	pieceSize = 256 << 10
	// atOnce is how many shards are served at the same time.
	atOnce = 4
)

// Cluster is the cluster that a job goes to. Its methods may be called
// concurrently; each asks until there is an answer for good, or ctx ends.
type Cluster interface {
	Layout() layout.Layout
	Meta(ctx context.Context, kind wire.Kind, fields any, body []byte) (wire.Answer, []byte, error)
	Shard(ctx context.Context, group uint32, m wire.Message, body []byte) (wire.Answer, []byte, error)
}

// Config says what is restored.
type Config struct {
	From *checkpoint.Checkpoint
	Dir  string // of From, as the servers find it: workers ask for what they had put there
	Job  string // its name from now on; "": as it was
	// World is how many workers a bsp job has from now on; 0: as it had.
	World int
	To    Cluster
	// Progress, if it is set, is called now and then with the rows that are there and
	// those there will be.
	Progress func(done, total uint64)
}

// Report says what was restored.
type Report struct {
	Checkpoint uint64 `json:"checkpoint"`
	Job        string `json:"job"`
	Step       uint64 `json:"step"`
	Tables     int    `json:"tables"`
	Rows       uint64 `json:"rows"`
	Bytes      int64  `json:"bytes"`
}

// run is a restore under way.
type run struct {
	Config
	m      *checkpoint.Manifest
	load   uint64
	merged *shard.Merged
	stride map[uint32]int // of rows, by table

	mu   sync.Mutex
	done Report
	all  uint64
}

// Run restores a job. One that is there already, other than by this very
// restore, is refused.
func Run(ctx context.Context, cfg Config) (Report, error) {
	if cfg.World < 0 {
		return Report{}, fmt.Errorf("restore for %d workers (World): want 1 or more, or 0 for as many as there were", cfg.World)
	}
	r := &run{Config: cfg, m: cfg.From.Manifest(), stride: map[uint32]int{}}
	if r.Job == "" {
		r.Job = r.m.Job
	}
	if err := r.restore(ctx); err != nil {
		return Report{}, fmt.Errorf("restore job %q from checkpoint %d in %s: %w", r.Job, r.m.ID, cfg.Dir, err)
	}
	return r.done, nil
}

func (r *run) restore(ctx context.Context) error {
	l := r.To.Layout()
	if err := r.From.Fits(l.HashSeed); err != nil {
		return err
	}
	own, err := r.blob(ctx, layout.MetaGroup, meta.JobBlob)
	if err != nil {
		return err
	}
	names, err := r.names()
	if err != nil {
		return err
	}
	if names != nil {
		if own, err = meta.WithWorkers(own, names); err != nil {
			return err
		}
	}
	if err := r.merge(ctx, names); err != nil {
		return err
	}
	r.name()
	begin := wire.RestoreRequest{Job: r.Job, Load: r.load, Checkpoint: r.m.ID, Dir: r.Dir, Step: r.m.Step}
	if err := r.tell(ctx, begin, own); err != nil {
		return err
	}
	tasks, inner := errgroup.WithContext(ctx)
	tasks.SetLimit(atOnce)
	for i := range l.Shards {
		tasks.Go(func() error { return r.shard(inner, i, len(l.Shards)) })
	}
	if err := tasks.Wait(); err != nil {
		return err
	}
	begin.Complete = true
	return r.tell(ctx, begin, nil)
}

// merge reads what the shards of the checkpoint knew of the job.
func (r *run) merge(ctx context.Context, names []string) error {
	heads := make([][]byte, r.m.Shards)
	for i := range heads {
		var err error
		if heads[i], err = r.blob(ctx, layout.GroupOf(i), shard.HeadBlob); err != nil {
			return err
		}
	}
	var err error
	r.merged, err = shard.MergeHeads(heads, r.Job, names)
	return err
}

// name makes a number of what is restored and of how the job is called: the same restore
// has the same.
func (r *run) name() {
	b, _ := json.Marshal(r.m) // it came as JSON
	sum := sha256.Sum256(fmt.Append(b, r.Job, r.World))
	r.load = binary.LittleEndian.Uint64(sum[:]) | 1
	r.done = Report{Checkpoint: r.m.ID, Job: r.Job, Step: r.merged.Step}
	for _, t := range r.m.Tables {
		r.stride[t.ID] = shard.RowHead + 4*int(t.Dim+t.Slots)
		if !wire.IsSeen(t.ID) {
			r.done.Tables++
			r.all += r.m.Rows(t.ID)
		}
	}
}

// names are those of the workers from now on, nil: as they were. A rank keeps the name
// it had; another is called as the first one, with its rank in place of the number at the end.
// Workers of a job without servers that are called by their ranks got other ranks when one was
// lost: they are called by these.
func (r *run) names() ([]string, error) {
	var old []string
	for _, w := range r.m.Workers {
		if w.Session != "expelled" && int(w.Rank) == len(old) {
			old = append(old, w.Name)
		}
	}
	if len(old) == 0 {
		return nil, nil
	}
	var of wire.JobState
	if len(r.m.Params) > 0 {
		if err := json.Unmarshal(r.m.Params, &of); err != nil {
			return nil, fmt.Errorf("parameters of the job: %w", err)
		}
	}
	names := slices.Clone(old)
	stem := stemOf(old[0])
	if of.Mode == allReduce && !slices.ContainsFunc(old, func(name string) bool { return name == stemOf(name) || stemOf(name) != stem }) {
		names = nil
	}
	if stem == old[0] {
		stem += "-"
	}
	world := cmp.Or(r.World, len(old))
	for rank := len(names); rank < world; rank++ {
		names = append(names, fmt.Sprint(stem, rank))
	}
	if names = names[:world]; slices.Equal(names, old) {
		return nil, nil
	}
	return names, nil
}

// stemOf is a name without the number at its end.
func stemOf(name string) string { return strings.TrimRight(name, "0123456789") }

func (r *run) blob(ctx context.Context, group uint32, name string) ([]byte, error) {
	if b, made, err := r.replica(group); made {
		return b, err
	}
	var b bytes.Buffer
	if err := r.From.Blob(ctx, group, name, &b); err != nil {
		return nil, fmt.Errorf("state of %s: %w", layout.GroupName(group), err)
	}
	return b.Bytes(), nil
}

// shard gives one shard of the cluster what it holds of the job.
func (r *run) shard(ctx context.Context, index, of int) error {
	s := sender{run: r, group: layout.GroupOf(index)}
	whole, err := s.send(ctx, wire.RestoreHead, r.merged.Head)
	if err != nil {
		return err
	}
	from, to := index*layout.Partitions/of, (index+1)*layout.Partitions/of
	if whole {
		to = from // of this restore, that was broken off later
	}
	for p, err := range pages(ctx, r.From, from, to) {
		if err == nil {
			err = s.page(ctx, p)
		}
		if err != nil {
			return err
		}
	}
	if err := s.flush(ctx); err != nil {
		return err
	}
	_, err = s.send(ctx, wire.RestoreEnd, nil)
	return err
}

// pages are those of a range of partitions, none of an empty one.
func pages(ctx context.Context, c *checkpoint.Checkpoint, from, to int) func(func(checkpoint.Page, error) bool) {
	if from == to {
		return func(func(checkpoint.Page, error) bool) {}
	}
	return c.Pages(ctx, checkpoint.Query{From: from, To: to})
}

// sender gathers pages for a shard.
type sender struct {
	*run
	group uint32
	table uint32
	rows  uint64
	data  []byte
}

// page adds a page.
func (s *sender) page(ctx context.Context, p checkpoint.Page) error {
	if p.Table != s.table || len(s.data)+len(p.Data) > pieceSize {
		if err := s.flush(ctx); err != nil {
			return err
		}
	}
	s.table = p.Table
	if !wire.IsSeen(p.Table) {
		s.rows += uint64(binary.LittleEndian.Uint16(p.Data))
	}
	s.data = wire.AppendPage(s.data, wire.Page{Partition: p.Partition, Page: p.Page, Data: p.Data})
	shard.Renumber(s.data[len(s.data)-len(p.Data):], s.stride[p.Table], s.merged.Writers[layout.ShardOf(int(p.Partition), s.m.Shards)])
	return nil
}

// flush sends what is gathered.
func (s *sender) flush(ctx context.Context) error {
	if len(s.data) == 0 {
		return nil
	}
	if _, err := s.send(ctx, wire.RestorePages, s.data); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done.Rows += s.rows
	s.done.Bytes += int64(len(s.data))
	if s.Progress != nil {
		s.Progress(s.done.Rows, s.all)
	}
	s.rows, s.data = 0, s.data[:0]
	return nil
}

// send brings a piece. It reports whether the shard has the whole of this
// restore already.
func (s *sender) send(ctx context.Context, piece wire.RestorePiece, data []byte) (whole bool, err error) {
	m := &wire.Restore{Group: s.group, Job: s.Job, Load: s.load, Piece: piece, Table: s.table}
	a, _, err := s.To.Shard(ctx, s.group, m, data)
	if err := definite(a, err); err != nil {
		return false, fmt.Errorf("%s: %w", layout.GroupName(s.group), err)
	}
	return a.Duplicate && a.Detail == wire.RestoredWhole, nil
}

// tell tells the meta group.
func (r *run) tell(ctx context.Context, m wire.RestoreRequest, state []byte) error {
	a, _, err := r.To.Meta(ctx, wire.KindRestoreJob, m, state)
	return definite(a, err)
}

// definite turns a refusal into an error.
func definite(a wire.Answer, err error) error {
	if err == nil && a.Status != wire.OK {
		return errors.New(a.Detail)
	}
	return err
}
