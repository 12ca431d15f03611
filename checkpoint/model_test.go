package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
)

// world is a store beside the map that it should be equal to.
type world struct {
	s     *Store
	disk  *memDisk
	r     *rand.Rand
	id    uint64            // last used
	step  *model            // the tables as they are now
	made  map[uint64]*model // checkpoints acknowledged and not deleted
	doubt map[uint64]*model // under way when the power went
	gone  map[uint64]bool   // deletions under way
	bases map[uint64]uint64
	since map[uint64]map[PageID]bool // pages changed since a checkpoint
	split map[uint64]int             // shards of each
}

func newWorld(seed uint64, d *memDisk, cat catalogue) (*world, error) {
	r := rand.New(rand.NewPCG(seed, 1))
	s, err := Open(worldConfig(d, cat, r))
	return &world{
		s: s, disk: d, r: r, step: someModel(8, seed), made: map[uint64]*model{}, doubt: map[uint64]*model{}, gone: map[uint64]bool{},
		bases: map[uint64]uint64{}, since: map[uint64]map[PageID]bool{}, split: map[uint64]int{},
	}, err
}

func worldConfig(d *memDisk, cat catalogue, r *rand.Rand) Config {
	return Config{
		Dir: "/d", Owner: "s1", disk: d, catalogue: cat, packLimit: 2000, blobChunk: 64,
		tag: func() string { return fmt.Sprintf("%08x", r.Uint32()) },
	}
}

// train changes some pages.
func (w *world) train() {
	w.step = w.step.clone()
	w.step.step++
	touch := func(id PageID) {
		for _, s := range w.since {
			s[id] = true
		}
	}
	tables := twoTables()
	for _, id := range sorted(w.step.pages) {
		switch w.r.IntN(8) {
		case 0:
			delete(w.step.pages, id)
		case 1, 2:
			w.step.pages[id] = makePage(&tables[min(id.Table-1, 1)], id, 1+w.r.IntN(4), w.r.Uint64N(3))
		default:
			continue
		}
		touch(id)
	}
	for range 3 {
		t := &tables[w.r.IntN(2)]
		id := PageID{t.ID, uint16(w.r.IntN(1024)), uint32(w.r.IntN(3))}
		w.step.pages[id] = makePage(t, id, 1+w.r.IntN(4), w.r.Uint64N(3))
		touch(id)
	}
	w.step.blobs["head"] = fmt.Sprint("at ", w.step.step, string(make([]byte, w.r.IntN(200))))
}

// save writes a checkpoint, a delta if that can be.
func (w *world) save(ctx context.Context) error {
	w.id += 1 + w.r.Uint64N(3)
	var base uint64
	shards := 1 << w.r.IntN(3)
	if bases := slices.Sorted(maps.Keys(w.made)); len(bases) > 0 && w.r.IntN(3) > 0 {
		base = bases[w.r.IntN(len(bases))]
		shards = w.split[base]
	}
	var changed map[PageID]bool
	if base != 0 {
		changed = w.since[base]
	}
	w.doubt[w.id] = w.step
	_, err := save(ctx, w.s, w.id, base, shards, w.step, changed)
	if err != nil {
		return err
	}
	delete(w.doubt, w.id)
	w.made[w.id], w.bases[w.id], w.since[w.id], w.split[w.id] = w.step, base, map[PageID]bool{}, shards
	return nil
}

// forget notes that a checkpoint is deleted.
func (w *world) forget(id uint64) {
	for _, m := range []map[uint64]*model{w.made, w.doubt} {
		delete(m, id)
	}
	delete(w.gone, id)
	delete(w.bases, id)
	delete(w.since, id)
}

func (w *world) delete(ctx context.Context) error {
	ids := slices.Sorted(maps.Keys(w.made))
	if len(ids) == 0 {
		return nil
	}
	id := ids[w.r.IntN(len(ids))]
	stands := false
	for other := range w.made {
		stands = stands || w.bases[other] == id
	}
	w.gone[id] = true
	err := w.s.Delete(ctx, id)
	if stands {
		delete(w.gone, id)
		if !errors.Is(err, ErrInUse) && !errors.Is(err, errPower) {
			return fmt.Errorf("deleted %d, on which another stands: %w", id, err)
		}
		return nil
	}
	if err == nil {
		w.forget(id)
	}
	return err
}

func (w *world) collect(ctx context.Context) error {
	_, err := w.s.Collect(ctx, w.id+1)
	return err
}

// act does one of the things above. With what it calls an error it ends.
func (w *world) act(ctx context.Context) error {
	switch w.r.IntN(8) {
	case 0, 1, 2:
		w.train()
		return w.save(ctx)
	case 3:
		return w.save(ctx) // the same again
	case 4, 5:
		return w.delete(ctx)
	case 6:
		return w.collect(ctx)
	}
	ids := slices.Sorted(maps.Keys(w.made))
	if len(ids) == 0 {
		return nil
	}
	_, err := w.s.Verify(ctx, nil, ids[w.r.IntN(len(ids))])
	return err
}

// check demands what must be there, and nothing else. What was under way when the
// power went may be there or not, whole.
func (w *world) check(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	list, err := w.s.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	there := map[uint64]bool{}
	for _, m := range list {
		there[m.ID] = true
		want := w.made[m.ID]
		if want == nil {
			want = w.doubt[m.ID]
		}
		if want == nil {
			t.Fatalf("checkpoint %d should not be there", m.ID)
		}
		mustBe(t, w.s, m.ID, want)
	}
	for id := range w.made {
		if !there[id] && !w.gone[id] {
			t.Fatalf("checkpoint %d is lost", id)
		}
	}
	if _, err := w.s.Verify(ctx, nil); err != nil {
		t.Fatal(err)
	}
}

// tidy collects and demands that nothing is left over.
func (w *world) tidy(t *testing.T) {
	t.Helper()
	if err := w.collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	needed := map[string]bool{}
	list, err := w.s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		needed[manifestName(m.ID)] = true
		if err := w.s.needs(m.ID, manifestIDs(base(w.disk.names())), needed); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range w.disk.names() {
		if !needed[filepath.Base(n)] {
			t.Fatalf("%s is left over", n)
		}
	}
}

// TestAnySequence does random things and compares with a map, on both catalogues.
func TestAnySequence(t *testing.T) {
	run := func(t *testing.T, seed uint64, cat catalogue, acts int) {
		t.Helper()
		w, err := newWorld(seed, newMemDisk(), cat)
		if err != nil {
			t.Fatal(err)
		}
		for i := range acts {
			if err := w.act(t.Context()); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if i%3 == 0 {
				w.check(t)
			}
		}
		w.check(t)
		w.tidy(t)
	}
	for seed := range uint64(25) {
		run(t, seed, nil, 25)
	}
	for seed := range uint64(3) {
		cat, err := openCatalogue(t.TempDir(), discard())
		if err != nil {
			t.Fatal(err)
		}
		run(t, seed+100, cat, 25)
		if cat.failed.Load() {
			t.Error("the catalogue has failed")
		}
		if err := cat.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCrash stops random work at a random operation, 300 times, and demands the
// last whole checkpoints. The catalogue outlives the disk's memory: it is ahead of
// it then.
func TestCrash(t *testing.T) {
	crashes := 0
	for seed := range uint64(300) {
		d, cat := newMemDisk(), newMemoryCatalogue()
		w, err := newWorld(seed, d, cat)
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + w.r.IntN(4) { // something is there
			if err := w.act(t.Context()); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		d.mu.Lock()
		d.left = w.r.IntN(60)
		d.mu.Unlock()
		for err == nil {
			err = w.act(t.Context())
		}
		if !errors.Is(err, errPower) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		crashes++
		w.disk = d.crash(w.r, w.r.IntN(4) > 0)
		if w.s, err = Open(worldConfig(w.disk, cat, w.r)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w.check(t)
			w.tidy(t)
			w.check(t)
			w.settle(t)
			for range 4 {
				if err := w.act(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			w.check(t)
			w.tidy(t)
		})
	}
	if crashes != 300 {
		t.Error(crashes)
	}
}

// settle takes what is there for what there should be.
func (w *world) settle(t *testing.T) {
	t.Helper()
	list, err := w.s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	made := map[uint64]*model{}
	for _, m := range list {
		if made[m.ID] = w.made[m.ID]; made[m.ID] == nil {
			made[m.ID] = w.doubt[m.ID]
			w.bases[m.ID] = 0
			if m.Base != nil {
				w.bases[m.ID] = m.Base.ID
			}
			w.split[m.ID] = m.Shards
		}
		// What changed since is not known for sure: everything may have.
		w.since[m.ID] = map[PageID]bool{}
		for id := range made[m.ID].pages {
			w.since[m.ID][id] = true
		}
		for id := range w.step.pages {
			w.since[m.ID][id] = true
		}
	}
	w.made, w.doubt, w.gone = made, map[uint64]*model{}, map[uint64]bool{}
}

// TestFullDisk runs out of space at every byte in turn: the error says so, what was
// there is as it was, and the space is given back.
func TestFullDisk(t *testing.T) {
	for room := int64(0); ; room += 61 {
		w, err := newWorld(1, newMemDisk(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.save(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := w.disk.names()
		w.disk.mu.Lock()
		w.disk.room = room
		w.disk.mu.Unlock()
		w.train()
		err = w.save(t.Context())
		if err == nil {
			if room < 1000 {
				t.Fatal(room)
			}
			return
		}
		if !errors.Is(err, ErrFull) {
			t.Fatalf("room for %d bytes: %v", room, err)
		}
		delete(w.doubt, w.id)
		w.check(t)
		if after := w.disk.names(); !slices.Equal(before, after) {
			t.Fatalf("room for %d bytes: before %q, after %q", room, before, after)
		}
		if w.disk.room != room {
			t.Fatalf("room for %d bytes before, for %d after", room, w.disk.room)
		}
	}
}

func base(paths []string) []string {
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = filepath.Base(p)
	}
	return names
}
