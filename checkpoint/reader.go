package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"

	"hcclps/ps/layout"
)

// Checkpoint is one that is open for reading. Its methods may be called
// concurrently. It is not deleted while it is open here.
type Checkpoint struct {
	store *Store
	chain []*Manifest // newest first
	close sync.Once
}

// Load opens a checkpoint: it reads its manifest and those it stands on. What is
// newer than this program is ErrVersion, what is not there ErrNotFound, a base that
// is not there ErrMissing, and bytes that fail their checks are ErrDamaged. Parts
// and packs are checked as they are read; Verify reads all of them.
func (s *Store) Load(ctx context.Context, id uint64) (*Checkpoint, error) {
	if err := errors.Join(s.alive(), context.Cause(ctx)); err != nil {
		return nil, fmt.Errorf("load checkpoint %d: %w", id, err)
	}
	m, _, err := s.manifest(id)
	if err != nil {
		return nil, fmt.Errorf("load checkpoint: %w", err)
	}
	chain, err := s.chain(m)
	if err != nil {
		return nil, fmt.Errorf("load checkpoint: %w", err)
	}
	c := &Checkpoint{store: s, chain: chain}
	for _, m := range chain {
		s.mark(s.reading, m.ID, 1)
	}
	return c, nil
}

// Close ends the reading.
func (c *Checkpoint) Close() {
	c.close.Do(func() {
		for _, m := range c.chain {
			c.store.mark(c.store.reading, m.ID, -1)
		}
	})
}

// Manifest describes the checkpoint. It is not to be changed.
func (c *Checkpoint) Manifest() *Manifest { return c.chain[0] }

// Fits says why rows cannot be given to a cluster with that hash seed:
// ErrHashSeed, with the name of the manifest.
func (c *Checkpoint) Fits(hashSeed uint64) error {
	if m := c.chain[0]; m.HashSeed != hashSeed {
		return fmt.Errorf("load checkpoint %d: %w: %d in %s, the cluster has %d", m.ID, ErrHashSeed, m.HashSeed, c.store.path(manifestName(m.ID)), hashSeed)
	}
	return nil
}

// Query says which pages are wanted.
type Query struct {
	Tables []uint32 // ids; nil: all
	// From and To bound the partitions, To not included; To 0: all. A shard of S has
	// those for which layout.ShardOf(partition, S) is its index.
	From, To int
}

// Pages yields the pages a query asks for, each once, ascending in table,
// partition and page within each group of the checkpoint, and the groups in their
// order: so the pages of a partition come in the order in which ps/table loads
// them. A page's bytes are good until the next one. An error ends it.
func (c *Checkpoint) Pages(ctx context.Context, q Query) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		packs := newPackReader(c.store.disk, c.store.cfg.Dir)
		defer packs.close()
		for g := uint32(1); g <= uint32(c.chain[0].Shards); g++ {
			if !q.wantsGroup(g, c.chain[0].Shards) {
				continue
			}
			more, err := c.groupPages(ctx, g, &q, packs, yield)
			if err != nil {
				yield(Page{}, fmt.Errorf("read checkpoint %d: %w", c.chain[0].ID, err))
				return
			}
			if !more {
				return
			}
		}
	}
}

func (q *Query) wantsGroup(group uint32, shards int) bool {
	if q.To == 0 {
		return true
	}
	from, to := layout.ShardOf(q.From, shards), layout.ShardOf(min(q.To, layout.Partitions)-1, shards)
	return q.From < q.To && group-1 >= from && group-1 <= to
}

func (q *Query) wants(id PageID) bool {
	if q.To != 0 && (int(id.Partition) < q.From || int(id.Partition) >= q.To) {
		return false
	}
	return q.Tables == nil || slices.Contains(q.Tables, id.Table)
}

func (c *Checkpoint) groupPages(ctx context.Context, group uint32, q *Query, packs *packReader, yield func(Page, error) bool) (more bool, err error) {
	v, err := c.store.view(c.chain, group)
	if err != nil {
		return false, err
	}
	for i := range v.pages {
		e := &v.pages[i]
		id := unpackPage(e.table, e.page)
		t := c.chain[0].table(e.table)
		if t == nil || !q.wants(id) {
			continue // the table is gone since the base
		}
		if err := context.Cause(ctx); err != nil {
			return false, err
		}
		b, err := packs.chunk(v.packs[e.pack].name, chunkPage, &e.place)
		if err == nil {
			if bad := checkPage(Page{id, b}, t, group, c.chain[0].Shards); bad != nil {
				err = withChunk(&DamageError{Reason: bad.Error()}, c.store.path(v.packs[e.pack].name), e.off, &e.place)
			}
		}
		if d, ok := errors.AsType[*DamageError](err); ok {
			d.Table = t.Name
		}
		if err != nil {
			return false, fmt.Errorf("page %v of table %q: %w", id, t.Name, err)
		}
		if !yield(Page{id, b}, nil) {
			return false, nil
		}
	}
	return true, nil
}

// Rows yields the rows of the pages a query asks for, in their order. A row's
// bytes are good until the next one. An error ends it.
func (c *Checkpoint) Rows(ctx context.Context, q Query) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for p, err := range c.Pages(ctx, q) {
			if err != nil {
				yield(Row{}, err)
				return
			}
			t := c.chain[0].table(p.Table)
			for b := p.Data[pageHead:]; len(b) > 0; b = b[t.stride():] {
				if !yield(Row{Table: t.ID, Record: b[:t.stride():t.stride()], dim: int(t.Dim)}, nil) {
					return
				}
			}
		}
	}
}

// Blob is a named piece of opaque state.
type Blob struct {
	Group uint32
	Name  string
	Bytes int64
}

// Blobs lists what there is, by group and name: of these groups, or of all when
// none is given. Those of a base are not among them.
func (c *Checkpoint) Blobs(ctx context.Context, groups ...uint32) ([]Blob, error) {
	var all []Blob
	for i := range c.chain[0].Parts {
		if len(groups) > 0 && !slices.Contains(groups, c.chain[0].Parts[i].Group) {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return nil, fmt.Errorf("list blobs: %w", err)
		}
		p, err := c.store.part(c.chain[0], c.chain[0].Parts[i].Group)
		if err != nil {
			return nil, fmt.Errorf("list blobs: %w", err)
		}
		for _, o := range p.blobs {
			all = append(all, Blob{p.group, o.name, o.bytes})
		}
	}
	return all, nil
}

// Blob writes a blob to w. One that is not there is ErrNotFound.
func (c *Checkpoint) Blob(ctx context.Context, group uint32, name string, w io.Writer) error {
	p, err := c.store.part(c.chain[0], group)
	if err != nil {
		return fmt.Errorf("read blob %q: %w", name, err)
	}
	packs := newPackReader(c.store.disk, c.store.cfg.Dir)
	defer packs.close()
	i := slices.IndexFunc(p.blobs, func(o blob) bool { return o.name == name })
	if i < 0 {
		return fmt.Errorf("read blob %q of checkpoint %d, %s: %w", name, p.id, layout.GroupName(group), ErrNotFound)
	}
	for j := range p.blobs[i].pieces {
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("read blob %q: %w", name, err)
		}
		at := &p.blobs[i].pieces[j]
		b, err := packs.chunk(p.packs[at.pack].name, chunkBlob, at)
		if err == nil {
			_, err = w.Write(b)
		}
		if err != nil {
			return fmt.Errorf("read blob %q of checkpoint %d, %s: %w", name, p.id, layout.GroupName(group), err)
		}
	}
	return nil
}
