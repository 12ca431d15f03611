package checkpoint

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// touched changes a page, so that a checkpoint is not like the last.
func touched(m *model, seed uint64) (*model, map[PageID]bool) {
	m = m.clone()
	m.step++
	id := sorted(m.pages)[int(seed)%len(m.pages)]
	i := 0
	if id.Table == 3 {
		i = 1
	}
	m.pages[id] = makePage(&twoTables()[i], id, 2, seed)
	return m, map[PageID]bool{id: true}
}

func TestChainHasAnEnd(t *testing.T) {
	s := mustOpen(t, Config{Dir: t.TempDir()})
	m := someModel(3, 1)
	mustSave(t, s, 1, 0, 1, m, nil)
	for id := uint64(2); id < 2+MaxChain; id++ {
		var changed map[PageID]bool
		m, changed = touched(m, id)
		made := mustSave(t, s, id, id-1, 1, m, changed)
		if made.Base.Chain != int(id-1) {
			t.Fatal(made.Base)
		}
	}
	mustBe(t, s, 1+MaxChain, m)
	if _, err := s.Begin(t.Context(), Spec{ID: 99, Job: testJob, Group: 1, Shards: 1, Tables: twoTables(), Base: 1 + MaxChain}); err == nil {
		t.Error("a delta too many")
	}
}

// TestTablesComeAndGo between a base and its deltas.
func TestTablesComeAndGo(t *testing.T) {
	s := mustOpen(t, Config{Dir: filepath.Join(t.TempDir(), "made", "here")})
	all := append(twoTables(), Table{ID: 7, Name: "new", Dim: 1})
	user := PageID{1, 5, 0}
	write := func(id, base uint64, tables []Table, pages ...Page) {
		t.Helper()
		w, err := s.Begin(t.Context(), Spec{ID: id, Job: testJob, Group: 1, Shards: 1, Tables: tables, Base: base})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pages {
			if err := w.WritePage(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		part, err := w.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m := Manifest{ID: id, Job: testJob, Shards: 1, Tables: tables, Parts: []Part{part}}
		if base != 0 {
			m.Base = &Base{ID: base}
		}
		made, err := s.Commit(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := load(t.Context(), s, id)
		if err != nil {
			t.Fatal(err)
		}
		tables = slices.DeleteFunc(slices.Clone(tables), func(t Table) bool { return made.Rows(t.ID) == 0 })
		seen := map[uint32]bool{}
		for p := range got.pages {
			seen[p.Table] = true
		}
		if len(seen) != len(tables) {
			t.Errorf("checkpoint %d has rows of %d tables, want %d", id, len(seen), len(tables))
		}
	}
	page := func(table int) Page {
		id := user
		id.Table = all[table].ID
		return Page{id, []byte(makePage(&all[table], id, 2, uint64(table)))}
	}
	write(1, 0, all[:2], page(0), page(1))
	write(2, 1, all, page(2))
	write(3, 2, all[1:])
	write(4, 3, []Table{all[2]}, page(2))
	if _, err := s.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// TestWholeDelta: who does not know what has changed gives all pages, and what the
// base has beside is gone.
func TestWholeDelta(t *testing.T) {
	s := mustOpen(t, Config{Dir: t.TempDir()})
	m := someModel(20, 1)
	mustSave(t, s, 1, 0, 1, m, nil)
	for i, id := range sorted(m.pages) {
		if i%3 == 0 {
			delete(m.pages, id)
		}
	}
	w, err := s.Begin(t.Context(), Spec{ID: 2, Job: testJob, Group: 1, Shards: 1, Tables: twoTables(), Base: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range sorted(m.pages) {
		if err := w.WritePage(t.Context(), Page{id, []byte(m.pages[id])}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.DropRest(); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteBlob(t.Context(), "head", strings.NewReader(m.blobs["head"])); err != nil {
		t.Fatal(err)
	}
	part, err := w.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), Manifest{ID: 2, Job: testJob, Step: m.step, Shards: 1, Tables: twoTables(), Base: &Base{ID: 1}, Parts: []Part{part}}); err != nil {
		t.Fatal(err)
	}
	mustBe(t, s, 2, m)
	if _, err := s.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
