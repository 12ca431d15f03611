package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// content is what a snapshot says.
type content struct {
	head  string
	pages map[uint64]string
}

func (c content) clone() content { return content{c.head, maps.Clone(c.pages)} }

func (c content) equal(d content) bool { return c.head == d.head && maps.Equal(c.pages, d.pages) }

// tempDir is a folder in memory where there is one: what is synced there costs nothing.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "snapshot-test-") //nolint:usetesting // t.TempDir is on the disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func testConfiguration() raft.Configuration {
	return raft.Configuration{Servers: []raft.Server{
		{Suffrage: raft.Voter, ID: "a1", Address: "a1"},
		{Suffrage: raft.Nonvoter, ID: "b2", Address: "b2"},
	}}
}

func mustOpen(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func begin(t testing.TB, s *Store, index uint64) *Sink {
	t.Helper()
	k, err := s.Create(raft.SnapshotVersionMax, index, 3, testConfiguration(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	return k.(*Sink)
}

// save writes the pages named by dirty, all of them when it is nil.
func save(k *Sink, c content, dirty map[uint64]bool) error {
	if dirty == nil {
		if err := k.Full(); err != nil {
			return err
		}
	}
	if err := k.WriteHead([]byte(c.head)); err != nil {
		return err
	}
	for id, data := range c.pages {
		if dirty != nil && !dirty[id] {
			continue
		}
		if err := k.WritePage(id, []byte(data)); err != nil {
			return err
		}
	}
	return k.Close()
}

func mustSave(t testing.TB, k *Sink, c content, dirty map[uint64]bool) {
	t.Helper()
	if err := save(k, c, dirty); err != nil {
		t.Fatal(err)
	}
}

func parse(in io.Reader) (content, error) {
	c := content{pages: map[uint64]string{}}
	for r := NewReader(in); ; {
		kind, id, data, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return c, nil
		case err != nil:
			return c, err
		case kind == Head:
			c.head = string(data)
		default:
			c.pages[id] = string(data)
		}
	}
}

func restore(t testing.TB, s *Store, id string) content {
	t.Helper()
	meta, in, err := s.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}()
	all, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(all)) != meta.Size {
		t.Fatalf("the stream of %s has %d bytes, meta says %d", id, len(all), meta.Size)
	}
	c, err := parse(bytes.NewReader(all))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newest(t testing.TB, s *Store) *raft.SnapshotMeta {
	t.Helper()
	list, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		return &raft.SnapshotMeta{}
	}
	return list[0]
}

func listDir(t testing.TB, dir string) string {
	t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, d := range names {
		list = append(list, d.Name())
	}
	return strings.Join(list, " ")
}

// TestModel runs random snapshots, cancels and restarts beside a map.
func TestModel(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 1))
		cfg := Config{Dir: tempDir(t)}
		s := mustOpen(t, cfg)
		now := content{pages: map[uint64]string{}}
		saved, savedID := content{pages: map[uint64]string{}}, ""
		dirty := map[uint64]bool{}
		for i := range uint64(60) {
			now.head = fmt.Sprintf("head %d", i)
			for range rng.IntN(20) {
				id := rng.Uint64N(50)
				now.pages[id] = strings.Repeat(string(rune('a'+i%26)), rng.IntN(300))
				dirty[id] = true
			}
			k := begin(t, s, i+1)
			if k.Base() != savedID {
				t.Fatalf("base is %q, want %q", k.Base(), savedID)
			}
			switch rng.IntN(5) {
			case 0:
				if err := k.WritePage(7, []byte("never")); err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(k.Cancel(), k.Cancel()); err != nil {
					t.Fatal(err)
				}
			case 1:
				mustSave(t, k, now, nil)
				saved, savedID, dirty = now.clone(), k.ID(), map[uint64]bool{}
			default:
				mustSave(t, k, now, dirty)
				saved, savedID, dirty = now.clone(), k.ID(), map[uint64]bool{}
			}
			if rng.IntN(8) == 0 {
				s = mustOpen(t, cfg)
			}
			meta := newest(t, s)
			if meta.ID != savedID {
				t.Fatalf("seed %d, round %d: newest is %q, want %q", seed, i, meta.ID, savedID)
			}
			if savedID != "" && !restore(t, s, savedID).equal(saved) {
				t.Fatalf("seed %d, round %d: restored something else", seed, i)
			}
		}
	}
}

func TestMetaSurvivesRestart(t *testing.T) {
	cfg := Config{Dir: tempDir(t)}
	s := mustOpen(t, cfg)
	mustSave(t, begin(t, s, 42), content{"h", map[uint64]string{1: "x"}}, nil)
	before, after := newest(t, s), newest(t, mustOpen(t, cfg))
	if fmt.Sprint(*before) != fmt.Sprint(*after) || after.Index != 42 || after.Term != 3 || len(after.Configuration.Servers) != 2 {
		t.Fatalf("before: %v\nafter:  %v", *before, *after)
	}
}

func TestStreamForm(t *testing.T) {
	from, to := mustOpen(t, Config{Dir: tempDir(t)}), mustOpen(t, Config{Dir: tempDir(t)})
	want := content{"head", map[uint64]string{0: "zero", 1<<64 - 1: "last", 5: "", 6: strings.Repeat("x", 100000)}}
	k := begin(t, from, 9)
	mustSave(t, k, want, nil)
	if err := k.Close(); err != nil {
		t.Fatalf("closed again: %v", err)
	}
	mustSave(t, begin(t, to, 3), content{"other", map[uint64]string{77: "must vanish"}}, nil)
	for _, piece := range []int{1, 7, 32 << 10} {
		_, in, err := from.Open(k.ID())
		if err != nil {
			t.Fatal(err)
		}
		sink := begin(t, to, 9)
		if _, err := io.CopyBuffer(struct{ io.Writer }{sink}, struct{ io.Reader }{in}, make([]byte, piece)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(in.Close(), sink.Close()); err != nil {
			t.Fatal(err)
		}
		if got := restore(t, to, sink.ID()); !got.equal(want) {
			t.Fatalf("pieces of %d bytes: got %v", piece, got)
		}
	}
}

func TestStreamFormRefusesDamage(t *testing.T) {
	s := mustOpen(t, Config{Dir: tempDir(t)})
	k := begin(t, s, 1)
	mustSave(t, k, content{"head", map[uint64]string{1: "one", 2: "two"}}, nil)
	_, in, err := s.Open(k.ID())
	if err != nil {
		t.Fatal(err)
	}
	whole, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	before := listDir(t, s.cfg.Dir)
	for i := range whole {
		bent := bytes.Clone(whole)
		bent[i] ^= 0x10
		for name, bytes := range map[string][]byte{"cut": whole[:i], "bent": bent} {
			sink := begin(t, s, 2)
			_, err := sink.Write(bytes)
			if err == nil {
				err = sink.Close()
			}
			if err == nil {
				t.Fatalf("%s at %d was taken", name, i)
			}
			if err := sink.Cancel(); err != nil {
				t.Fatal(err)
			}
			if _, err := parse(readerOf(bytes)); err == nil {
				t.Fatalf("Reader took the stream %s at %d", name, i)
			}
		}
	}
	if after := listDir(t, s.cfg.Dir); after != before {
		t.Fatalf("before: %s\nafter:  %s", before, after)
	}
	sink := begin(t, s, 2)
	if _, err := sink.Write(append(whole, 0)); err == nil {
		t.Fatal("a byte after the end was taken")
	}
}

func readerOf(b []byte) io.Reader { return bytes.NewReader(b) }

func TestMisuse(t *testing.T) {
	s := mustOpen(t, Config{Dir: tempDir(t)})
	if _, err := s.Create(0, 1, 1, raft.Configuration{}, 1, nil); err == nil {
		t.Error("snapshot version 0 was taken")
	}
	if _, _, err := s.Open("none"); err == nil {
		t.Error("a snapshot that is not there was opened")
	}
	k := begin(t, s, 1)
	if err := k.Close(); err == nil {
		t.Error("a snapshot without a head was taken")
	}
	k = begin(t, s, 1)
	if err := errors.Join(k.WriteHead(nil), k.Cancel()); err != nil {
		t.Error(err)
	}
	if err := k.Close(); err == nil {
		t.Error("closed well after Cancel")
	}
	k = begin(t, s, 1)
	_ = k.WriteHead(nil)
	if err := k.WriteHead(nil); err == nil {
		t.Error("two heads were taken")
	}
	if err := k.Close(); err == nil {
		t.Error("closed well after an error")
	}
	k = begin(t, s, 1)
	_ = k.WriteHead(nil)
	if _, err := k.Write([]byte("x")); !errors.Is(err, errTwoForms) {
		t.Error(err)
	}
	if err := k.Close(); err == nil {
		t.Error("closed well after an error")
	}
	if got := listDir(t, s.cfg.Dir); got != "" {
		t.Errorf("left behind: %s", got)
	}
}

// TestReaderKeepsItsFiles opens a snapshot, lets newer ones replace it and reads on.
func TestReaderKeepsItsFiles(t *testing.T) {
	s := mustOpen(t, Config{Dir: tempDir(t), Retain: 1})
	old := content{"old", map[uint64]string{1: "one", 2: "two"}}
	k := begin(t, s, 1)
	mustSave(t, k, old, nil)
	_, in, err := s.Open(k.ID())
	if err != nil {
		t.Fatal(err)
	}
	held := begin(t, s, 2) // has the old one as its base, and the tail
	if err := held.WriteHead([]byte("held")); err != nil {
		t.Fatal(err)
	}
	mustSave(t, begin(t, s, 3), content{"new", map[uint64]string{9: "nine"}}, nil)
	if got, err := parse(in); err != nil || !got.equal(old) {
		t.Fatalf("%v, %v", got, err)
	}
	if err := errors.Join(in.Close(), in.Close()); err != nil {
		t.Fatal(err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if meta := newest(t, s); meta.Index != 3 {
		t.Fatalf("newest is %v", meta)
	}
	if got, want := listDir(t, s.cfg.Dir), "manifest-00000000000000000003 pages-00000002"; got != want {
		t.Fatalf("the folder holds %s, want %s", got, want)
	}
}
