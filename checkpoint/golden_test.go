package checkpoint

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hcclps/ps/layout"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/v1 anew")

const goldenDir = "testdata/v1"

// goldenWork writes a full checkpoint, a delta on it, and the text of what they hold.
func goldenWork(t *testing.T, dir string) {
	t.Helper()
	tags := 0
	s := mustOpen(t, Config{
		Dir: dir, Owner: "server-1",
		tag: func() string { tags++; return fmt.Sprintf("tag%05d", tags) },
		now: func() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) },
	})
	first := someModel(7, 3)
	write := func(id, base uint64, m *model, changed map[PageID]bool) {
		man := Manifest{
			ID: id, Cluster: "c1", Job: testJob, Step: m.step, HashSeed: 5, Shards: 2, Tables: twoTables(), Params: []byte(`{"sync":"bsp"}`),
			Layout:  &layout.Layout{Epoch: 1, Cluster: "c1", HashSeed: 5, Members: []layout.Member{{ID: "a", Name: "s1", Addr: "h:1"}}, Meta: []string{"a"}, Shards: [][]string{{"a"}, {"a"}}},
			Workers: []Worker{{Name: "w-0", Incarnation: 2, Session: "open", Clock: m.step, Cursor: []byte("row 9")}, {Name: "w-1", Rank: 1, Session: "finished", Clock: 2}},
		}
		if base != 0 {
			man.Base = &Base{ID: base}
		}
		for g := range uint32(3) {
			w, err := s.Begin(t.Context(), Spec{ID: id, Job: testJob, Group: g, Shards: 2, HashSeed: 5, Tables: twoTables(), Base: base})
			if err != nil {
				t.Fatal(err)
			}
			part, err := goldenGroup(t.Context(), w, g, m, changed)
			if err != nil {
				t.Fatal(err)
			}
			man.Parts = append(man.Parts, part)
		}
		if _, err := s.Commit(t.Context(), man); err != nil {
			t.Fatal(err)
		}
	}
	write(100, 0, first, nil)
	second := first.clone()
	second.step++
	ids := sorted(second.pages)
	delete(second.pages, ids[0])
	second.pages[ids[2]] = makePage(&twoTables()[0], ids[2], 2, 50)
	second.pages[PageID{1, 1023, 4}] = makePage(&twoTables()[0], PageID{1, 1023, 4}, 1, 60)
	second.blobs["head"] = "state at 4"
	write(107, 100, second, map[PageID]bool{ids[0]: true, ids[2]: true, {1, 1023, 4}: true})
}

func goldenGroup(ctx context.Context, w *Writer, g uint32, m *model, changed map[PageID]bool) (Part, error) {
	if g == layout.MetaGroup {
		if err := w.WriteBlob(ctx, "meta", strings.NewReader("members and sessions")); err != nil {
			return Part{}, err
		}
		return w.Finish(ctx)
	}
	return saveGroup(ctx, w, g, 2, m, changed)
}

// contents is a checkpoint as text.
func contents(t *testing.T, s *Store, id uint64) string {
	t.Helper()
	c, err := s.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var b strings.Builder
	m := c.Manifest()
	fmt.Fprintf(&b, "checkpoint %d number %d step %d seed %d\n", m.ID, m.Number, m.Step, m.HashSeed)
	for _, w := range m.Workers {
		fmt.Fprintf(&b, "worker %s rank %d incarnation %d %s clock %d cursor %q\n", w.Name, w.Rank, w.Incarnation, w.Session, w.Clock, w.Cursor)
	}
	for r, err := range c.Rows(t.Context(), Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "table %d key %x step %d seen %d by %d: %x | %x\n", r.Table, r.Key(), r.Step(), r.Sightings(), r.Writer(), r.Weights(), r.Slots())
	}
	blobs, err := c.Blobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range blobs {
		var text strings.Builder
		if err := c.Blob(t.Context(), o.Group, o.Name, &text); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "blob %d %s: %s\n", o.Group, o.Name, text.String())
	}
	return b.String()
}

func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, d := range names {
		if all[d.Name()], err = os.ReadFile(filepath.Join(dir, d.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestGolden opens the checkpoints of version 1, and writes the same bytes anew.
func TestGolden(t *testing.T) {
	dir := t.TempDir()
	goldenWork(t, dir)
	if *rewrite {
		if err := os.RemoveAll(goldenDir); err != nil {
			t.Fatal(err)
		}
		goldenDirs := os.CopyFS(goldenDir, os.DirFS(dir))
		s := mustOpen(t, Config{Dir: goldenDir})
		if err := os.WriteFile("testdata/v1.txt", []byte(contents(t, s, 100)+contents(t, s, 107)), 0o644); err != nil || goldenDirs != nil {
			t.Fatal(err, goldenDirs)
		}
	}
	got, want := files(t, dir), files(t, goldenDir)
	if a, b := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(a, b) {
		t.Fatalf("files are %q, want %q", a, b)
	}
	for name := range want {
		if !bytes.Equal(got[name], want[name]) {
			t.Errorf("%s is written otherwise (see -rewrite)", name)
		}
	}
	s := mustOpen(t, Config{Dir: goldenDir})
	if _, err := s.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile("testdata/v1.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := contents(t, s, 100) + contents(t, s, 107); got != string(text) {
		t.Errorf("the checkpoints hold\n%s, want\n%s", got, text)
	}
}
