package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// goldenCopy is a store on a copy of the golden folder.
func goldenCopy(t *testing.T) (*Store, string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(goldenDir)); err != nil {
		t.Fatal(err)
	}
	return mustOpen(t, Config{Dir: dir}), dir
}

// find is the path of the file with that beginning.
func findFile(t *testing.T, dir, prefix string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	if err != nil || len(all) == 0 {
		t.Fatal(prefix, err)
	}
	return all[0]
}

// TestRefusedByName: what a checkpoint needs and does not have, or cannot be read.
func TestRefusedByName(t *testing.T) {
	const base, delta = "checkpoint-00000000000000000100.json", "checkpoint-00000000000000000107.json"
	const pack, part = "pack-00000000000000000100-00001", "part-00000000000000000107-00001"
	remove := func(t *testing.T, path string) {
		t.Helper()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		file string
		do   func(t *testing.T, path string)
		want error
	}{
		"base is missing": {base, remove, ErrMissing},
		"pack is missing": {pack, remove, ErrMissing},
		"part is missing": {part, remove, ErrMissing},
		"manifest of a newer program": {delta, func(t *testing.T, path string) {
			t.Helper()
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			body, _, _ := bytes.Cut(b, []byte(sealBegin))
			b = resealed(bytes.Replace(body, []byte(`"version": 1`), []byte(`"version": 2`), 1))
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}, ErrVersion},
		"pack of a newer program": {pack, func(t *testing.T, path string) {
			t.Helper()
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b[8] = 2
			le.PutUint32(b[28:], crc32.Checksum(b[:28], castagnoli))
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}, ErrVersion},
		"another base": {base, func(t *testing.T, path string) {
			t.Helper()
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			body, _, _ := bytes.Cut(b, []byte(sealBegin))
			if err := os.WriteFile(path, resealed(bytes.Replace(body, []byte(`"step": 3`), []byte(`"step": 2`), 1)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, ErrDamaged},
	} {
		s, dir := goldenCopy(t)
		path := findFile(t, dir, c.file)
		c.do(t, path)
		_, err := load(t.Context(), s, 107)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := s.Verify(t.Context(), nil, 107); !errors.Is(err, c.want) || !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("%s, verified: %v", name, err)
		}
		if _, err := s.Newest(t.Context(), testJob); (name == "manifest of a newer program") != errors.Is(err, ErrVersion) {
			t.Errorf("%s, the newest: %v", name, err)
		}
		if err := s.Delete(t.Context(), 100); name != "base is missing" && !errors.Is(err, ErrInUse) {
			t.Errorf("%s, the base was deleted: %v", name, err)
		}
		before := len(files(t, dir))
		if _, err := s.Collect(t.Context(), 1000); name != "pack is missing" && !strings.HasPrefix(name, "pack of") && name != "another base" && err == nil {
			t.Errorf("%s: collected all the same", name)
		}
		if after := len(files(t, dir)); after != before {
			t.Errorf("%s: %d files were collected", name, before-after)
		}
	}
}

func TestHashSeed(t *testing.T) {
	s, _ := goldenCopy(t)
	c, err := s.Load(t.Context(), 107)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Fits(5); err != nil {
		t.Error(err)
	}
	if err := c.Fits(6); !errors.Is(err, ErrHashSeed) || !strings.Contains(err.Error(), manifestName(107)) {
		t.Error(err)
	}
}

// TestBeginRefuses: what no part can be.
func TestBeginRefuses(t *testing.T) {
	s, dir := goldenCopy(t)
	good := Spec{ID: 200, Job: testJob, Group: 1, Shards: 2, HashSeed: 5, Tables: twoTables(), Base: 107}
	before := len(files(t, dir))
	for name, c := range map[string]struct {
		change func(*Spec)
		want   string
	}{
		"no id":             {func(s *Spec) { s.ID, s.Base = 0, 0 }, "at least 1"},
		"group":             {func(s *Spec) { s.Group = 3 }, "group 3 of 2 shards"},
		"a later base":      {func(s *Spec) { s.Base = 200 }, "not an earlier checkpoint"},
		"no such base":      {func(s *Spec) { s.Base = 106 }, "no such checkpoint"},
		"another job":       {func(s *Spec) { s.Job = "x" }, `of job "clicks", not "x"`},
		"other shards":      {func(s *Spec) { s.Shards = 4 }, "of 2 shards, not 4"},
		"another hash seed": {func(s *Spec) { s.HashSeed = 6 }, "another hash seed"},
		"another dimension": {func(s *Spec) { s.Tables = twoTables(); s.Tables[0].Dim = 5 }, `table 1 as "user" of 4+4 values`},
		"two names":         {func(s *Spec) { s.Tables = append(twoTables(), Table{ID: 9, Name: "user", Dim: 1}) }, "there twice"},
		"a wide row":        {func(s *Spec) { s.Tables = []Table{{ID: 1, Name: "w", Dim: 1 << 19}} }, "a row has at most"},
		"no room for slots": {func(s *Spec) { s.Tables = []Table{{ID: 1, Name: "w", Dim: 1, Slots: 1<<32 - 1}} }, "a row has at most"},
		"id that is there":  {func(s *Spec) { s.ID, s.Base = 107, 100 }, "exists already"},
	} {
		spec := good
		c.change(&spec)
		w, err := s.Begin(t.Context(), spec)
		if err == nil {
			_ = w.Cancel()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if after := len(files(t, dir)); after != before {
		t.Errorf("%d files are left over", after-before)
	}
	w, err := s.Begin(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Cancel(); err != nil {
		t.Fatal(err)
	}
}

// TestPagesAreChecked before they are written.
func TestPagesAreChecked(t *testing.T) {
	s := mustOpen(t, Config{Dir: t.TempDir()})
	page := []byte(makePage(&twoTables()[0], PageID{1, 3, 0}, 2, 1))
	for name, p := range map[string]Page{
		"is of no table":     {PageID{2, 3, 0}, page},
		"belongs to shard 1": {PageID{1, 900, 0}, page},
		"partition 1024 of":  {PageID{1, 1024, 0}, page},
		"not whole rows":     {PageID{1, 3, 0}, page[:len(page)-1]},
		"55 bytes are not":   {PageID{3, 3, 0}, append([]byte{1, 0}, make([]byte, 53)...)},
	} {
		w, err := s.Begin(t.Context(), Spec{ID: 1, Job: testJob, Group: 1, Shards: 2, Tables: twoTables()})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WritePage(t.Context(), p); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := w.Finish(t.Context()); err == nil {
			t.Errorf("%s: finished", name)
		}
		if err := w.Cancel(); err != nil {
			t.Error(err)
		}
	}
}

// TestCommitRefuses what is not whole.
func TestCommitRefuses(t *testing.T) {
	s, dir := goldenCopy(t)
	m := someModel(20, 9)
	ctx := t.Context()
	man := Manifest{ID: 300, Job: testJob, Shards: 2, Tables: twoTables()}
	for g := range uint32(2) {
		w, err := s.Begin(ctx, Spec{ID: 300, Job: testJob, Group: g + 1, Shards: 2, Tables: twoTables()})
		if err != nil {
			t.Fatal(err)
		}
		part, err := saveGroup(ctx, w, g+1, 2, m, nil)
		if err != nil {
			t.Fatal(err)
		}
		man.Parts = append(man.Parts, part)
	}
	for name, c := range map[string]func(*Manifest){
		"the part of shard 1 is missing": func(m *Manifest) { m.Parts = m.Parts[:1] },
		"want checkpoint 301":            func(m *Manifest) { m.ID = 301 },
		"base 107, shard 0 of 2":         func(m *Manifest) { m.Base, m.HashSeed = &Base{ID: 107}, 5 },
		"one of 1 shards":                func(m *Manifest) { m.Shards = 1 },
		"no such checkpoint":             func(m *Manifest) { m.Base = &Base{ID: 5} },
		"is unknown, or":                 nil,
		"part of shard 0: file":          func(m *Manifest) { m.Parts[0].File = "../" + m.Parts[0].File },
		"a file of the checkpoint is":    func(m *Manifest) { m.Parts[0].File += "x" },
	} {
		if c == nil {
			continue
		}
		bad := man
		bad.Parts = append([]Part(nil), man.Parts...)
		c(&bad)
		if _, err := s.Commit(ctx, bad); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	pack := findFile(t, dir, "pack-00000000000000000300-00002")
	if err := os.Truncate(pack, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(ctx, man); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), filepath.Base(pack)) {
		t.Error(err)
	}
	if err := os.Remove(pack); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(ctx, man); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), filepath.Base(pack)) {
		t.Error(err)
	}
	if _, err := s.Load(ctx, 300); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

// TestLocalFolder: a server that has only its own part commits the manifest too.
func TestLocalFolder(t *testing.T) {
	m := someModel(40, 2)
	man := Manifest{ID: 1, Job: testJob, Step: m.step, Shards: 2, Tables: twoTables()}
	var stores []*Store
	for g := uint32(1); g <= 2; g++ {
		s := mustOpen(t, Config{Dir: t.TempDir(), Owner: "s" + string('0'+rune(g)), Local: true})
		w, err := s.Begin(t.Context(), Spec{ID: 1, Job: testJob, Group: g, Shards: 2, Tables: twoTables()})
		if err != nil {
			t.Fatal(err)
		}
		part, err := saveGroup(t.Context(), w, g, 2, m, nil)
		if err != nil {
			t.Fatal(err)
		}
		man.Parts = append(man.Parts, part)
		stores = append(stores, s)
	}
	whole := t.TempDir()
	for _, s := range stores {
		if _, err := s.Commit(t.Context(), man); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Collect(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		if _, err := load(t.Context(), s, 1); !errors.Is(err, ErrMissing) {
			t.Error(err)
		}
		for name, b := range files(t, s.cfg.Dir) {
			if err := os.WriteFile(filepath.Join(whole, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := mustOpen(t, Config{Dir: whole})
	mustBe(t, s, 1, m)
}

func TestCancelledContext(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, Config{Dir: dir})
	ctx, cancel := context.WithCancelCause(t.Context())
	w, err := s.Begin(ctx, Spec{ID: 1, Job: testJob, Group: 1, Shards: 1, Tables: twoTables()})
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("the server stops")
	cancel(why)
	id := PageID{1, 3, 0}
	if err := w.WritePage(ctx, Page{id, []byte(makePage(&twoTables()[0], id, 2, 1))}); !errors.Is(err, why) {
		t.Error(err)
	}
	if _, err := w.Finish(ctx); !errors.Is(err, why) {
		t.Error(err)
	}
	if err := w.Cancel(); err != nil {
		t.Error(err)
	}
	if left := files(t, dir); len(left) > 0 {
		t.Error(left)
	}
}

// TestManifestIsPlain: anybody can read it.
func TestManifestIsPlain(t *testing.T) {
	b, err := os.ReadFile(findFile(t, goldenDir, "checkpoint-00000000000000000107"))
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil || m["step"] != 4.0 || m["crc32c"] == "" {
		t.Error(m, err)
	}
}

// TestDamagedManifestCanBeDeleted, and then what stood in its way.
func TestDamagedManifestCanBeDeleted(t *testing.T) {
	s, dir := goldenCopy(t)
	if err := os.WriteFile(filepath.Join(dir, manifestName(107)), []byte("not much"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Collect(t.Context(), 200); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	if _, err := s.Retain(t.Context(), Policy{Job: testJob, Last: 1}); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	for _, id := range []uint64{107, 100} {
		if err := s.Delete(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Collect(t.Context(), 200); err != nil {
		t.Error(err)
	}
	if left := files(t, dir); len(left) > 0 {
		t.Errorf("%d files are left", len(left))
	}
	if err := s.Delete(t.Context(), 100); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}
