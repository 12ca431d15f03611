package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"
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

func TestRetain(t *testing.T) {
	s := mustOpen(t, Config{Dir: t.TempDir()})
	m := someModel(10, 1)
	for id := uint64(1); id <= 10; id++ {
		m, _ = touched(m, 20*id) // always the same page
		mustSave(t, s, 10*id, 0, 1, m, nil)
	}
	gone, err := s.Retain(t.Context(), Policy{Job: testJob, Last: 2, Every: 4})
	if err != nil {
		t.Fatal(err)
	}
	if want := []uint64{70, 60, 50, 30, 20, 10}; !slices.Equal(gone, want) {
		t.Errorf("deleted %d, want %d", gone, want)
	}
	if gone, err := s.Retain(t.Context(), Policy{Job: "another", Last: 1}); len(gone) > 0 || err != nil {
		t.Error(gone, err)
	}
	if _, err := s.Retain(t.Context(), Policy{Job: testJob}); err == nil {
		t.Error("kept nothing")
	}
	done, err := s.Collect(t.Context(), 101)
	if err != nil || done.Files != 5 || done.Bytes == 0 { // the first pack has what never changed
		t.Error(done, err)
	}
	if _, err := s.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	mustBe(t, s, 100, m)
}

// TestRetainKeepsWhatDeltasNeed, however old it is.
func TestRetainKeepsWhatDeltasNeed(t *testing.T) {
	s := mustOpen(t, Config{Dir: t.TempDir()})
	m := someModel(10, 1)
	mustSave(t, s, 1, 0, 1, m, nil)
	mustSave(t, s, 2, 0, 1, m, nil)
	for id := uint64(3); id <= 6; id++ {
		var changed map[PageID]bool
		m, changed = touched(m, id)
		mustSave(t, s, id, id-1, 1, m, changed)
	}
	gone, err := s.Retain(t.Context(), Policy{Job: testJob, Last: 1})
	if err != nil || !slices.Equal(gone, []uint64{1}) {
		t.Fatal(gone, err)
	}
	if err := s.Delete(t.Context(), 4); !errors.Is(err, ErrInUse) {
		t.Error(err)
	}
	mustSave(t, s, 7, 0, 1, m, nil)
	gone, err = s.Retain(t.Context(), Policy{Job: testJob, Last: 1})
	if err != nil || !slices.Equal(gone, []uint64{6, 5, 4, 3, 2}) {
		t.Fatal(gone, err)
	}
	if _, err := s.Collect(t.Context(), 8); err != nil {
		t.Fatal(err)
	}
	mustBe(t, s, 7, m)
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

// TestWritersAreSpared: what a writer has written or builds upon outlives Delete
// and Collect, here and of another server.
func TestWritersAreSpared(t *testing.T) {
	dir := t.TempDir()
	s1, s2 := mustOpen(t, Config{Dir: dir, Owner: "s1"}), mustOpen(t, Config{Dir: dir, Owner: "s2"})
	m := someModel(20, 1)
	mustSave(t, s1, 1, 0, 1, m, nil)
	w, err := s1.Begin(t.Context(), Spec{ID: 5, Job: testJob, Group: 1, Shards: 1, Tables: twoTables()})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{s1, s2} {
		if err := s.Delete(t.Context(), 1); !errors.Is(err, ErrInUse) {
			t.Error(err)
		}
		if gone, err := s.Retain(t.Context(), Policy{Job: testJob, Last: 1}); err != nil || len(gone) > 0 {
			t.Error(gone, err)
		}
	}
	next, changed := touched(m, 4)
	part, err := saveGroup(t.Context(), w, 1, 1, next, nil)
	if err != nil {
		t.Fatal(err)
	}
	if part.Reused == 0 {
		t.Error("nothing was used again")
	}
	// Another checkpoint, complete and newer, is no reason to remove this one.
	mustSave(t, s2, 7, 1, 1, next, changed)
	for _, floor := range []uint64{5, 6} {
		if floor > 5 { // wrong, but this store knows its writers
			if _, err := s1.Collect(t.Context(), floor); err != nil {
				t.Fatal(err)
			}
			break
		}
		if _, err := s2.Collect(t.Context(), floor); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s2.Commit(t.Context(), Manifest{ID: 5, Job: testJob, Step: next.step, Shards: 1, Tables: twoTables(), Parts: []Part{part}}); err != nil {
		t.Fatal(err)
	}
	mustBe(t, s1, 5, next)
	if err := w.Cancel(); err != nil { // too late
		t.Fatal(err)
	}
	mustBe(t, s2, 5, next)
	c, err := s1.Load(t.Context(), 5)
	if err != nil {
		t.Fatal(err)
	}
	if err := s1.Delete(t.Context(), 5); !errors.Is(err, ErrInUse) {
		t.Error(err)
	}
	c.Close()
	if err := s1.Delete(t.Context(), 5); err != nil {
		t.Error(err)
	}
	if _, err := s1.Collect(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	mustBe(t, s1, 7, next)
}

// TestAbandoned: the writers of a server that died leave nothing, once the floor is
// above them.
func TestAbandoned(t *testing.T) {
	dir := t.TempDir()
	dead := mustOpen(t, Config{Dir: dir, Owner: "s1"})
	m := someModel(20, 1)
	mustSave(t, dead, 1, 0, 2, m, nil)
	before := len(files(t, dir))
	w, err := dead.Begin(t.Context(), Spec{ID: 2, Job: testJob, Group: 1, Shards: 2, Tables: twoTables()})
	if err != nil {
		t.Fatal(err)
	}
	next := someModel(20, 7)
	if _, err := saveGroup(t.Context(), w, 1, 2, next, nil); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, Config{Dir: dir, Owner: "s1"})
	if done, err := s.Collect(t.Context(), 2); err != nil || done.Files != 0 {
		t.Fatal(done, err)
	}
	if done, err := s.Collect(t.Context(), 3); err != nil || done.Files != 3 {
		t.Fatal(done, err)
	}
	if after := len(files(t, dir)); after != before {
		t.Error(after, before)
	}
	mustBe(t, s, 1, m)
}

// TestMostlyDeadPacks: a full checkpoint writes again what is in a pack that the
// newest one hardly needs, so that the pack can go.
func TestMostlyDeadPacks(t *testing.T) {
	s := mustOpen(t, Config{Dir: t.TempDir()})
	m := someModel(40, 1)
	mustSave(t, s, 1, 0, 1, m, nil)
	for i, id := range sorted(m.pages) {
		if i%4 != 0 {
			m.pages[id] = makePage(&twoTables()[id.Table/2], id, 3, 1000+uint64(i))
		}
	}
	second := mustSave(t, s, 2, 0, 1, m, nil)
	third := mustSave(t, s, 3, 0, 1, m, nil)
	if second.Parts[0].Reused == 0 || third.Parts[0].New == 0 || third.Parts[0].Reused == 0 {
		t.Errorf("second %+v, third %+v", second.Parts[0], third.Parts[0])
	}
	for _, id := range []uint64{1, 2} {
		if err := s.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if done, err := s.Collect(t.Context(), 4); err != nil || done.Files != 1 {
		t.Error(done, err)
	}
	mustBe(t, s, 3, m)
}

// TestServersShareAFolder: several stores write the parts of one checkpoint after
// the other at the same time, and one of them looks after the folder meanwhile.
func TestServersShareAFolder(t *testing.T) {
	const shards, rounds = 4, 8
	dir := t.TempDir()
	stores := make([]*Store, shards)
	for i := range stores {
		stores[i] = mustOpen(t, Config{Dir: dir, Owner: fmt.Sprint("s", i)})
	}
	m := someModel(60, 1)
	var mu sync.Mutex
	base, changed := uint64(0), map[PageID]bool(nil)
	for round := range uint64(rounds) {
		id := 10 * (round + 1)
		man := Manifest{ID: id, Job: testJob, Step: m.step, Shards: shards, Tables: twoTables()}
		if base != 0 {
			man.Base = &Base{ID: base}
		}
		eg, ctx := errgroup.WithContext(t.Context())
		for g := range uint32(shards) {
			eg.Go(func() error {
				w, err := stores[g].Begin(ctx, Spec{ID: id, Job: testJob, Group: g + 1, Shards: shards, Tables: twoTables(), Base: base})
				if err != nil {
					return err
				}
				part, err := saveGroup(ctx, w, g+1, shards, m, changed)
				if err != nil {
					return errors.Join(err, w.Cancel())
				}
				mu.Lock()
				defer mu.Unlock()
				man.Parts = append(man.Parts, part)
				return nil
			})
		}
		eg.Go(func() error { return lookAfter(ctx, stores[round%shards], id) })
		if err := eg.Wait(); err != nil {
			t.Fatal(err)
		}
		if _, err := stores[(round+1)%shards].Commit(t.Context(), man); err != nil {
			t.Fatal(err)
		}
		for _, s := range stores {
			mustBe(t, s, id, m)
		}
		m, changed = touched(m, round)
		base = id
		if round%3 == 2 {
			base, changed = 0, nil
		}
	}
	if _, err := stores[0].Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func lookAfter(ctx context.Context, s *Store, floor uint64) error {
	for range 5 {
		if _, err := s.Retain(ctx, Policy{Job: testJob, Last: 2}); err != nil {
			return err
		}
		if _, err := s.Collect(ctx, floor); err != nil {
			return err
		}
	}
	return nil
}

// TestRate on fake time: what is written and what is compared takes its time.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustOpen(t, Config{Dir: "/d", disk: newMemDisk()})
		m := someModel(100, 1)
		total := 0
		for _, b := range m.pages {
			total += len(b)
		}
		for id := range uint64(2) {
			w, err := s.Begin(t.Context(), Spec{ID: id + 1, Job: testJob, Group: 1, Shards: 1, Tables: twoTables(), Rate: int64(total) / 4})
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			part, err := saveGroup(t.Context(), w, 1, 1, m, nil)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took < 3800*time.Millisecond || took > 4200*time.Millisecond {
				t.Errorf("checkpoint %d took %v, want 4 s", id+1, took)
			}
			if _, err := s.Commit(t.Context(), Manifest{ID: id + 1, Job: testJob, Shards: 1, Tables: twoTables(), Parts: []Part{part}}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestProgress(t *testing.T) {
	s := mustOpen(t, Config{Dir: t.TempDir()})
	m := someModel(10, 1)
	mustSave(t, s, 1, 0, 1, m, nil)
	m, _ = touched(m, 3)
	var last Progress
	w, err := s.Begin(t.Context(), Spec{ID: 2, Job: testJob, Group: 1, Shards: 1, Tables: twoTables(), Progress: func(p Progress) {
		if p.Pages != last.Pages+1 {
			t.Errorf("%+v after %+v", p, last)
		}
		last = p
	}})
	if err != nil {
		t.Fatal(err)
	}
	part, err := saveGroup(t.Context(), w, 1, 1, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	if last.New != part.New || last.Reused != part.Reused || last.New == 0 || last.Reused == 0 || last.Bytes <= last.Reused {
		t.Errorf("%+v, %+v", last, part)
	}
	if err := w.Cancel(); err != nil {
		t.Fatal(err)
	}
}

func TestClosed(t *testing.T) {
	s := mustOpen(t, Config{Dir: t.TempDir()})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin(t.Context(), Spec{ID: 1, Group: 1, Shards: 1}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := s.Load(t.Context(), 1); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := s.Collect(t.Context(), 1); !errors.Is(err, ErrClosed) {
		t.Error(err)
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

// TestTwoClustersInOneFolder: what the servers of one are writing is not garbage to the other.
func TestTwoClustersInOneFolder(t *testing.T) {
	dir := t.TempDir()
	ours, theirs := mustOpen(t, Config{Dir: dir, Owner: "a-1"}), mustOpen(t, Config{Dir: dir, Owner: "b-1"})
	m := someModel(5, 1)
	w, err := theirs.Begin(t.Context(), Spec{ID: 3, Job: "theirs", Group: 1, Shards: 1, Tables: twoTables()})
	if err != nil {
		t.Fatal(err)
	}
	part, err := saveGroup(t.Context(), w, 1, 1, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	left, err := ours.Begin(t.Context(), Spec{ID: 4, Job: testJob, Group: 1, Shards: 1, Tables: twoTables()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := saveGroup(t.Context(), left, 1, 1, m, nil); err != nil {
		t.Fatal(err)
	}
	later := mustOpen(t, Config{Dir: dir, Owner: "a-2"}) // ours died, with what it wrote
	mustSave(t, later, 7, 0, 1, m, nil)
	done, err := later.Collect(t.Context(), 8, "a-1", "a-2")
	if err != nil || done.Files == 0 {
		t.Error(done, err)
	}
	if _, err := theirs.Commit(t.Context(), Manifest{ID: 3, Job: "theirs", Step: m.step, Shards: 1, Tables: twoTables(), Parts: []Part{part}}); err != nil {
		t.Fatal(err)
	}
	mustBe(t, later, 3, m)
	if done, err := later.Collect(t.Context(), 8, "a-1", "a-2"); err != nil || done.Files != 0 {
		t.Error(done, err)
	}
}
