package checkpoint

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"hcclps/ps/layout"
)

// A blob that was dropped is not in the checkpoint, which is whole without it; its name can be used again.
func TestDropBlob(t *testing.T) {
	for _, kept := range []map[string]string{{}, {"a": "first", "b": "again", "d": "last"}} {
		s := mustOpen(t, Config{Dir: t.TempDir()})
		m := someModel(10, 7)
		m.blobs = map[string]string{}
		w, err := s.Begin(t.Context(), Spec{ID: 5, Job: testJob, Group: layout.MetaGroup, Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		write := func(name, data string) {
			t.Helper()
			if err := w.WriteBlob(t.Context(), name, strings.NewReader(data)); err != nil {
				t.Fatal(err)
			}
		}
		write("b", strings.Repeat("x", 1000))
		write("c", "more")
		for _, name := range []string{"c", "b"} {
			if err := w.DropBlob(name); err != nil {
				t.Fatal(err)
			}
		}
		for name, data := range kept {
			write(name, data)
		}
		own, err := w.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		shard, err := s.Begin(t.Context(), Spec{ID: 5, Job: testJob, Group: 1, Shards: 1, Tables: twoTables()})
		if err != nil {
			t.Fatal(err)
		}
		part, err := saveGroup(t.Context(), shard, 1, 1, m, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Commit(t.Context(), Manifest{ID: 5, Job: testJob, Step: 1, Shards: 1, Tables: twoTables(), Parts: []Part{own, part}}); err != nil {
			t.Fatal(err)
		}
		c, err := s.Load(t.Context(), 5)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := s.Verify(t.Context(), nil, 5); err != nil {
			t.Errorf("verify: %v", err)
		}
		blobs, err := c.Blobs(t.Context())
		if err != nil || len(blobs) != len(kept) {
			t.Errorf("%d blobs, want %d: %v", len(blobs), len(kept), err)
		}
		for name, want := range kept {
			var got bytes.Buffer
			if err := c.Blob(t.Context(), layout.MetaGroup, name, &got); err != nil || got.String() != want {
				t.Errorf("blob %s is %q, want %q: %v", name, got.String(), want, err)
			}
		}
		if err := c.Blob(t.Context(), layout.MetaGroup, "c", &bytes.Buffer{}); !errors.Is(err, ErrNotFound) {
			t.Errorf("a dropped blob: %v", err)
		}
	}
}

func TestDropBlobThatIsNotThere(t *testing.T) {
	s := mustOpen(t, Config{Dir: t.TempDir()})
	w, err := s.Begin(t.Context(), Spec{ID: 5, Job: testJob, Group: layout.MetaGroup, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.DropBlob("a"); err == nil {
		t.Error("a blob that was never written is dropped")
	}
	if err := w.Cancel(); err != nil {
		t.Fatal(err)
	}
}
