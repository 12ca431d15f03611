package checkpoint

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryFlippedByteIsFound turns a bit of every byte of every file, cuts and
// lengthens files and removes them: Verify names the file each time, and reading
// gives the right rows or an error.
func TestEveryFlippedByteIsFound(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, Config{Dir: dir})
	m := someModel(6, 1)
	mustSave(t, s, 1, 0, 2, m, nil)
	next := m.clone()
	next.step = 2
	id := sorted(m.pages)[1]
	next.pages[id] = makePage(&twoTables()[0], id, 3, 5)
	mustSave(t, s, 2, 1, 2, next, map[PageID]bool{id: true})
	if v, err := s.Verify(t.Context(), nil); err != nil || v.Checkpoints != 2 || v.Bytes == 0 || v.Packs != 2 || v.Bytes != v.Total {
		t.Fatal(v, err)
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range names {
		path := filepath.Join(dir, d.Name())
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		damaged := func(b []byte) {
			t.Helper()
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := s.Verify(t.Context(), nil)
			if err == nil || !strings.Contains(err.Error(), d.Name()) || !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrVersion) {
				t.Fatalf("%s: %v", d.Name(), err)
			}
			for id, want := range map[uint64]*model{1: m, 2: next} {
				if got, err := load(t.Context(), s, id); err == nil && !got.equal(want) {
					t.Fatalf("%s: checkpoint %d gave other rows", d.Name(), id)
				}
			}
		}
		step := 1 + len(whole)/40 // of small files every byte, of others some
		for i := 0; i < len(whole); i += 1 + rand.IntN(step) {
			bent := bytes.Clone(whole)
			bent[i] ^= 1 << (i % 8)
			damaged(bent)
		}
		for i := 0; i < len(whole); i += 1 + len(whole)/20 {
			damaged(whole[:i])
		}
		damaged(append(bytes.Clone(whole), 0))
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		// A checkpoint whose manifest is gone is not there; a base's is missed.
		if _, err := s.Verify(t.Context(), nil); !errors.Is(err, ErrMissing) && d.Name() != manifestName(2) {
			t.Fatalf("%s is missing: %v", d.Name(), err)
		} else if err != nil && !strings.Contains(err.Error(), d.Name()) {
			t.Fatalf("%s is missing: %v", d.Name(), err)
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Verify(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}

// TestDamageIsNamed: the table or blob, the chunk and the offset.
func TestDamageIsNamed(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, Config{Dir: dir})
	m := someModel(3, 1)
	mustSave(t, s, 1, 0, 1, m, nil)
	man, _, err := s.manifest(1)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.part(man, 1)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, p.packs[0].name)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flip := func(at *place) *DamageError {
		t.Helper()
		bent := bytes.Clone(whole)
		bent[at.off+recordHead+3] ^= 4
		if err := os.WriteFile(path, bent, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := s.Verify(t.Context(), nil, 1)
		d, ok := errors.AsType[*DamageError](err)
		if !ok || d.File != path || d.Offset != at.off+recordHead || d.Chunk != at.sum.String() {
			t.Fatal(err)
		}
		return d
	}
	if d := flip(&p.pages[4].place); d.Table != "dense/w" || !strings.Contains(d.Error(), `table "dense/w"`) {
		t.Error(d)
	}
	if _, err := load(t.Context(), s, 1); err == nil || !strings.Contains(err.Error(), "dense/w") {
		t.Error(err)
	}
	if d := flip(&p.blobs[0].pieces[0]); d.Blob != "head" {
		t.Error(d)
	}
}
