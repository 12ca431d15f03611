package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	badger "github.com/dgraph-io/badger/v4"
)

// somePart names n chunks of two packs.
func somePart(id uint64, n int) (string, *partFile) {
	name := stem(id, 1, "s", "t")
	p := &partFile{id: id, group: 1, shards: 1, packs: []packRef{{"pack-" + name + "-0000", 1 << 20}, {"pack-" + name + "-0001", 1 << 20}}}
	for i := range n {
		e := entry{table: 1, page: uint64(i), place: place{pack: uint32(i % 2), n: 9, off: int64(32 + 100*i)}}
		le.PutUint64(e.sum[:], uint64(i))
		p.pages = append(p.pages, e)
	}
	return "part-" + name, p
}

func chunkNamed(i int) (s sum) {
	le.PutUint64(s[:], uint64(i))
	return s
}

// TestCatalogues demands the same of both.
func TestCatalogues(t *testing.T) {
	dir := t.TempDir()
	reopened := func(t *testing.T, c catalogue) catalogue {
		t.Helper()
		if _, ok := c.(*memoryCatalogue); ok {
			return c
		}
		if err := c.close(); err != nil {
			t.Fatal(err)
		}
		b, err := openCatalogue(dir, discard())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	onDisk, err := openCatalogue(dir, discard())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []catalogue{newMemoryCatalogue(), onDisk} {
		t.Run(fmt.Sprintf("%T", c), func(t *testing.T) {
			is := func(i int, pack string, off int64) {
				t.Helper()
				got, at, ok := c.find(chunkNamed(i))
				if ok != (pack != "") || ok && (got != pack || at.off != off || at.n != 9) {
					t.Fatalf("chunk %d: %s at %d, %v, want %q at %d", i, got, at.off, ok, pack, off)
				}
			}
			one, p := somePart(1, 100)
			two, q := somePart(2, 50)
			c.add(one, p)
			c.add(one, p) // does nothing
			is(7, p.packs[1].name, 732)
			is(100, "", 0)
			c.add(two, q) // the newest copy counts
			c = reopened(t, c)
			if !c.has(one) || !c.has(two) || c.has("x") {
				t.Error("parts are not as they were")
			}
			is(7, q.packs[1].name, 732)
			is(77, p.packs[1].name, 7732)
			c.remove(two, q)
			is(7, q.packs[1].name, 732) // one needs it too
			c.remove(two, q)
			c.remove(one, p)
			is(7, "", 0)
			is(77, "", 0)
			c.add(one, p)
			c.add(two, q)
			c.sweep(map[string]bool{one: true, p.packs[0].name: true, q.packs[1].name: true})
			is(6, "", 0)
			is(7, q.packs[1].name, 732)
			is(77, "", 0)
			is(78, p.packs[0].name, 7832)
			c = reopened(t, c)
			if !c.has(one) || c.has(two) {
				t.Error("parts are not as they were")
			}
			is(7, q.packs[1].name, 732)
			is(6, "", 0)
			if err := c.close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// cached is a folder of checkpoints of one model, whose writer has a catalogue on disk.
type cached struct {
	t              *testing.T
	dir, catalogue string
	model          *model
	newest         uint64
}

func (c *cached) open() *Store {
	c.t.Helper()
	s, err := Open(Config{Dir: c.dir, Owner: "s1", Catalogue: c.catalogue})
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// again keeps the model once more, after what has happened; all its pages are known by then, or not.
func (c *cached) again(what string, known bool) {
	c.t.Helper()
	c.newest++
	s := c.open()
	made := mustSave(c.t, s, c.newest, 0, 1, c.model, nil)
	if (made.Parts[0].New == 0) != known {
		c.t.Errorf("%s: %+v", what, made.Parts[0])
	}
	mustBe(c.t, s, c.newest, c.model)
	if err := s.Close(); err != nil {
		c.t.Error(err)
	}
}

// spoil changes the bytes of a file from one on.
func spoil(t *testing.T, path string, from func(size int) int, change func(byte) byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := from(len(b)); i < len(b); i++ {
		b[i] = change(b[i])
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestCatalogueIsOnlyACache: with another server's deletions, damage, or after it
// was cut short, checkpoints are right and the catalogue is built anew.
func TestCatalogueIsOnlyACache(t *testing.T) {
	c := &cached{t: t, dir: t.TempDir(), catalogue: t.TempDir(), model: someModel(300, 1), newest: 2}
	s := c.open()
	if _, err := Open(Config{Dir: c.dir, Owner: "s2", Catalogue: c.catalogue}); !errors.Is(err, ErrInUse) {
		t.Error(err)
	}
	mustSave(t, s, 1, 0, 1, c.model, nil)
	mustSave(t, s, 2, 0, 1, c.model, nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c.again("nothing happened", true)

	// Another server removes a checkpoint with its pack.
	other := mustOpen(t, Config{Dir: c.dir, Owner: "s2"})
	for i := uint64(1); i < c.newest; i++ {
		if err := other.Delete(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := other.Collect(t.Context(), c.newest); err != nil {
		t.Fatal(err)
	}
	c.again("another server deleted", true)

	damagedCatalogue(t, c)

	// The pack itself is damaged: what it had is written again.
	list, err := other.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, err := other.part(list[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	spoil(t, filepath.Join(c.dir, p.packs[0].name), func(size int) int { return size / 2 }, func(byte) byte { return 7 })
	c.again("half of the pack is damaged", false)
}

// damagedCatalogue does to the catalogue what a disk and a killed process do.
func damagedCatalogue(t *testing.T, c *cached) {
	t.Helper()
	open, err := openCatalogue(c.catalogue, discard())
	if err != nil {
		t.Fatal(err)
	}
	err = open.db.Update(func(txn *badger.Txn) error {
		key := append([]byte{partKey}, "part-y"...)
		v := seal(key, []byte("x"))
		v[8] ^= 1
		return txn.Set(key, v)
	})
	if err := errors.Join(err, open.close()); err != nil {
		t.Fatal(err)
	}
	c.again("a value is damaged", true)
	if err := os.Remove(filepath.Join(c.catalogue, catalogueSums)); err != nil {
		t.Fatal(err)
	}
	c.again("it was not closed", true)
	for _, pattern := range []string{"chunks/*", "chunks.json"} {
		names, err := filepath.Glob(filepath.Join(c.catalogue, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			spoil(t, name, func(int) int { return 0 }, func(b byte) byte { return b ^ 0x55 })
			c.again(name+" is damaged", true)
		}
	}
	if err := os.RemoveAll(filepath.Join(c.catalogue, catalogueFolder)); err != nil {
		t.Fatal(err)
	}
	c.again("it is gone", true)
}

func FuzzSeal(f *testing.F) {
	f.Add([]byte("key"), seal([]byte("key"), []byte("value")))
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, key, b []byte) {
		if v, err := unseal(key, b); err == nil && !bytes.Equal(seal(key, v), b) {
			t.Fatalf("%x is not what %x was sealed as", b, v)
		}
	})
}
