package checkpoint

import (
	"bytes"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rewriteFile changes a file.
func rewriteFile(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestForgedChunk: bytes that have the right CRC, but are others.
func TestForgedChunk(t *testing.T) {
	s, dir := goldenCopy(t)
	path := findFile(t, dir, "pack-00000000000000000107-00001")
	rewriteFile(t, path, func(b []byte) []byte {
		head := b[packHead:][:recordHead]
		data := b[packHead+recordHead:][:le.Uint32(head)]
		data[len(data)-1] ^= 1
		le.PutUint32(head[56:], crc32.Checksum(data, castagnoli))
		le.PutUint32(head[60:], crc32.Checksum(head[:60], castagnoli))
		return b
	})
	_, err := s.Verify(t.Context(), nil)
	if d, ok := errors.AsType[*DamageError](err); !ok || d.File != path || d.Table != "user" || !strings.Contains(d.Reason, "SHA-256") {
		t.Error(err)
	}
}

// TestPacksChangedPlaces: every byte of both is good.
func TestPacksChangedPlaces(t *testing.T) {
	s := mustOpen(t, Config{Dir: t.TempDir()})
	m := someModel(20, 1)
	mustSave(t, s, 1, 0, 1, m, nil)
	other := someModel(20, 2)
	mustSave(t, s, 2, 0, 1, other, nil)
	one, two := findFile(t, s.cfg.Dir, "pack-00000000000000000001"), findFile(t, s.cfg.Dir, "pack-00000000000000000002")
	for _, names := range [][2]string{{one, one + "x"}, {two, one}, {one + "x", two}} {
		if err := os.Rename(names[0], names[1]); err != nil {
			t.Fatal(err)
		}
	}
	for id := range uint64(2) {
		if _, err := load(t.Context(), s, id+1); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "another chunk") {
			t.Error(err)
		}
	}
	if _, err := s.Verify(t.Context(), nil); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), filepath.Base(one)) {
		t.Error(err)
	}
}

// TestManifestThatMiscounts is found by Verify.
func TestManifestThatMiscounts(t *testing.T) {
	s, dir := goldenCopy(t)
	path := filepath.Join(dir, manifestName(107))
	rewriteFile(t, path, func(b []byte) []byte {
		body, _, _ := bytes.Cut(b, []byte(sealBegin))
		return resealed(bytes.Replace(body, []byte(`"rows": `), []byte(`"rows": 1`), 1))
	})
	if _, err := s.Verify(t.Context(), nil, 107); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
}

// TestPinnedPacksStay although the checkpoint that had them was deleted behind the
// writer's back.
func TestPinnedPacksStay(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, Config{Dir: dir, Owner: "s1"})
	m := someModel(20, 1)
	mustSave(t, s, 1, 0, 1, m, nil)
	mustSave(t, s, 2, 0, 1, m, nil) // its chunks are in the pack of the first
	if err := s.Delete(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	w, err := s.Begin(t.Context(), Spec{ID: 5, Job: testJob, Group: 1, Shards: 1, Tables: twoTables()})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, manifestName(2))); err != nil {
		t.Fatal(err)
	}
	if _, err := mustOpen(t, Config{Dir: dir, Owner: "s2"}).Collect(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	part, err := saveGroup(t.Context(), w, 1, 1, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	if part.New != 0 {
		t.Errorf("%d bytes were written again", part.New)
	}
	if _, err := s.Commit(t.Context(), Manifest{ID: 5, Job: testJob, Step: m.step, Shards: 1, Tables: twoTables(), Parts: []Part{part}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Collect(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	mustBe(t, s, 5, m)
}

// TestUnreadableIntent: nobody knows what it pins, so packs stay and nothing is
// deleted, until its writer is known to be gone.
func TestUnreadableIntent(t *testing.T) {
	s, dir := goldenCopy(t)
	if err := os.WriteFile(filepath.Join(dir, string(kindIntent)+"-"+stem(200, 1, "s", "t")), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	pack := string(kindPack) + "-" + stem(50, 1, "s", "t") + "-0000"
	if err := os.WriteFile(filepath.Join(dir, pack), appendPackHead(nil, 50, 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), 107); !errors.Is(err, ErrInUse) {
		t.Error(err)
	}
	if done, err := s.Collect(t.Context(), 200); err != nil || done.Files != 0 {
		t.Error(done, err)
	}
	if done, err := s.Collect(t.Context(), 201); err != nil || done.Files != 2 {
		t.Error(done, err)
	}
	if err := s.Delete(t.Context(), 107); err != nil {
		t.Error(err)
	}
}

// TestDropInAFullPart says what is so already.
func TestDropInAFullPart(t *testing.T) {
	s := mustOpen(t, Config{Dir: t.TempDir()})
	m := someModel(3, 1)
	gone := sorted(m.pages)[0]
	want := m.clone()
	delete(want.pages, gone)
	w, err := s.Begin(t.Context(), Spec{ID: 1, Job: testJob, Group: 1, Shards: 1, Tables: twoTables()})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range sorted(m.pages) {
		if err := w.WritePage(t.Context(), Page{id, []byte(m.pages[id])}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Drop(gone), w.Drop(PageID{1, 900, 0})); err != nil {
		t.Fatal(err)
	}
	part, err := saveGroup(t.Context(), w, 1, 1, &model{blobs: m.blobs}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), Manifest{ID: 1, Job: testJob, Step: m.step, Shards: 1, Tables: twoTables(), Parts: []Part{part}}); err != nil {
		t.Fatal(err)
	}
	mustBe(t, s, 1, want)
}
