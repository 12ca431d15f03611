package checkpoint

import (
	"errors"
	"strings"
	"testing"
)

func TestFullAndDelta(t *testing.T) {
	for _, shards := range []int{1, 4} {
		s := mustOpen(t, Config{Dir: t.TempDir()})
		first := someModel(100, 7)
		first.blobs["residual/0"] = strings.Repeat("r", 10_000)
		m := mustSave(t, s, 10, 0, shards, first, nil)
		mustBe(t, s, 10, first)
		if got := m.Rows(1) + m.Rows(3); got != uint64(2*5*100*3/5) {
			t.Errorf("%d rows", got)
		}

		second := first.clone()
		second.step = 8
		changed := map[PageID]bool{}
		for i, id := range sorted(second.pages) {
			switch i % 10 {
			case 0:
				second.pages[id] = makePage(m.table(id.Table), id, 5, 99)
				changed[id] = true
			case 1:
				delete(second.pages, id)
				changed[id] = true
			}
		}
		mustSave(t, s, 11, 10, shards, second, changed)
		mustBe(t, s, 11, second)
		mustBe(t, s, 10, first)
	}
}

func TestSameChunksAreNotWrittenAgain(t *testing.T) {
	s := mustOpen(t, Config{Dir: t.TempDir()})
	m := someModel(100, 7)
	first := mustSave(t, s, 1, 0, 2, m, nil)
	second := mustSave(t, s, 2, 0, 2, m, nil)
	for i := range second.Parts {
		if second.Parts[i].New != 0 || second.Parts[i].Reused == 0 || first.Parts[i].New == 0 {
			t.Errorf("group %d: %d bytes new, %d reused", second.Parts[i].Group, second.Parts[i].New, second.Parts[i].Reused)
		}
		for j, a := range first.Parts[i].Tables {
			if b := second.Parts[i].Tables[j]; a != b {
				t.Errorf("%+v is not %+v", b, a)
			}
		}
	}
	mustBe(t, s, 2, m)
}

func TestCommitTwice(t *testing.T) {
	s := mustOpen(t, Config{Dir: t.TempDir()})
	m := someModel(10, 7)
	made := mustSave(t, s, 1, 0, 1, m, nil)
	again, err := s.Commit(t.Context(), *made)
	if err != nil || again.Number != made.Number {
		t.Fatal(again, err)
	}
	other := *made
	other.Parts = append([]Part(nil), made.Parts...)
	other.Parts[0].SHA256 = strings.Repeat("0", 64)
	if _, err := s.Commit(t.Context(), other); !errors.Is(err, ErrExists) {
		t.Fatal(err)
	}
	if _, err := s.Begin(t.Context(), Spec{ID: 1, Job: testJob, Group: 1, Shards: 1}); !errors.Is(err, ErrExists) {
		t.Fatal(err)
	}
}
