package checkpoint

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"hcclps/ps/layout"
)

const testJob = "clicks"

// twoTables is the schema of most tests: an embedding with slots and a tensor.
func twoTables() []Table {
	return []Table{
		{ID: 1, Name: "user", Dim: 4, Slots: 4, Schema: []byte(`{"optimizer":"adagrad"}`)},
		{ID: 3, Name: "dense/w", Shape: []uint32{3, 2}, Dim: 6, Slots: 1},
	}
}

// model is what a checkpoint must hold: pages and blobs by name.
type model struct {
	step  uint64
	pages map[PageID]string
	blobs map[string]string
}

func newModel() *model { return &model{pages: map[PageID]string{}, blobs: map[string]string{}} }

func (m *model) clone() *model {
	return &model{m.step, maps.Clone(m.pages), maps.Clone(m.blobs)}
}

// makePage makes a page of rows whose keys are of its partition, or look so.
func makePage(t *Table, id PageID, rows int, seed uint64) string {
	b := binary.LittleEndian.AppendUint16(nil, uint16(rows))
	for i := range rows {
		b = le.AppendUint64(b, uint64(id.Partition)<<32|uint64(id.Page)<<8|uint64(i))
		b = le.AppendUint32(b, uint32(seed))
		b = le.AppendUint16(b, uint16(i+1))
		b = le.AppendUint16(b, 2)
		for j := range t.Dim + t.Slots {
			b = le.AppendUint32(b, math.Float32bits(float32(seed)+float32(i)/8+float32(j)/64))
		}
	}
	return string(b)
}

// sorted lists pages as a capture emits them.
func sorted(pages map[PageID]string) []PageID {
	return slices.SortedFunc(maps.Keys(pages), func(a, b PageID) int {
		return compareEntries(&entry{table: a.Table, page: a.packed()}, &entry{table: b.Table, page: b.packed()})
	})
}

// save writes a checkpoint of the model; changed says which pages are new since
// base, nil: all.
func save(ctx context.Context, s *Store, id, base uint64, shards int, m *model, changed map[PageID]bool) (*Manifest, error) {
	man := Manifest{ID: id, Job: testJob, Step: m.step, Shards: shards, Tables: twoTables(), Workers: []Worker{{Name: "w-0", Session: "open", Clock: m.step, Cursor: []byte{1, 2}}}}
	if base != 0 {
		man.Base = &Base{ID: base}
	}
	var writers []*Writer
	cancel := func(err error) (*Manifest, error) {
		for _, w := range writers {
			err = errors.Join(err, w.Cancel())
		}
		return nil, err
	}
	for g := uint32(1); g <= uint32(shards); g++ {
		w, err := s.Begin(ctx, Spec{ID: id, Job: testJob, Group: g, Shards: shards, Tables: twoTables(), Base: base})
		if err != nil {
			return cancel(err)
		}
		writers = append(writers, w)
		part, err := saveGroup(ctx, w, g, shards, m, changed)
		if err != nil {
			return cancel(err)
		}
		man.Parts = append(man.Parts, part)
	}
	made, err := s.Commit(ctx, man)
	if err != nil {
		return cancel(err)
	}
	return made, nil
}

func saveGroup(ctx context.Context, w *Writer, group uint32, shards int, m *model, changed map[PageID]bool) (Part, error) {
	for _, id := range sorted(m.pages) {
		if layout.ShardOf(int(id.Partition), shards)+1 != group || changed != nil && !changed[id] {
			continue
		}
		if err := w.WritePage(ctx, Page{id, []byte(m.pages[id])}); err != nil {
			return Part{}, err
		}
	}
	for id := range changed {
		if _, ok := m.pages[id]; !ok && layout.ShardOf(int(id.Partition), shards)+1 == group {
			if err := w.Drop(id); err != nil {
				return Part{}, err
			}
		}
	}
	for name, b := range m.blobs {
		if group == 1 {
			if err := w.WriteBlob(ctx, name, strings.NewReader(b)); err != nil {
				return Part{}, err
			}
		}
	}
	return w.Finish(ctx)
}

// load reads a checkpoint back.
func load(ctx context.Context, s *Store, id uint64) (*model, error) {
	c, err := s.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	m := newModel()
	m.step = c.Manifest().Step
	for p, err := range c.Pages(ctx, Query{}) {
		if err != nil {
			return nil, err
		}
		if _, twice := m.pages[p.PageID]; twice {
			return nil, fmt.Errorf("page %v came twice", p.PageID)
		}
		m.pages[p.PageID] = string(p.Data)
	}
	blobs, err := c.Blobs(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range blobs {
		var b strings.Builder
		if err := c.Blob(ctx, o.Group, o.Name, &b); err != nil {
			return nil, err
		}
		m.blobs[o.Name] = b.String()
	}
	return m, nil
}

func (m *model) equal(o *model) bool {
	return m.step == o.step && maps.Equal(m.pages, o.pages) && maps.Equal(m.blobs, o.blobs)
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func mustOpen(t *testing.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func mustSave(t *testing.T, s *Store, id, base uint64, shards int, m *model, changed map[PageID]bool) *Manifest {
	t.Helper()
	made, err := save(t.Context(), s, id, base, shards, m, changed)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func mustBe(t *testing.T, s *Store, id uint64, want *model) {
	t.Helper()
	got, err := load(t.Context(), s, id)
	if err != nil {
		t.Fatal(err)
	}
	if !got.equal(want) {
		t.Fatalf("checkpoint %d holds %d pages and %d blobs of step %d, want %d, %d, %d, or other bytes", id, len(got.pages), len(got.blobs), got.step, len(want.pages), len(want.blobs), want.step)
	}
}

// someModel has n pages of each table, spread over partitions.
func someModel(n int, seed uint64) *model {
	m := newModel()
	m.step = seed
	for i := range n {
		for _, t := range twoTables() {
			id := PageID{Table: t.ID, Partition: uint16(i * 97 % layout.Partitions), Page: uint32(i / 64)}
			m.pages[id] = makePage(&t, id, 1+i%5, seed+uint64(i)*1000)
		}
	}
	m.blobs["head"] = fmt.Sprint("state at ", seed)
	return m
}

// resealed ends a manifest's body as encode does.
func resealed(body []byte) []byte {
	b := append(slices.Clone(body), sealBegin...)
	return fmt.Appendf(b, "%08x%s", crc32.Checksum(b, castagnoli), sealEnd)
}
