package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
)

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
