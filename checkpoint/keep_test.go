package checkpoint

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

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
