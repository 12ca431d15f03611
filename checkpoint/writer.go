package checkpoint

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"hcclps/ps/layout"
)

// blobChunk is in what pieces a blob is kept.
const blobChunk = 4 << 20

// Spec says which part of which checkpoint is written.
type Spec struct {
	// ID is the checkpoint's, greater than that of every earlier one: the log index
	// of the meta group's entry that ordered it.
	ID  uint64
	Job string
	// Group is the Raft group whose pages these are: layout.GroupOf(shard), or
	// layout.MetaGroup, which has blobs only. Shards is the number of shards.
	Group  uint32
	Shards int
	// HashSeed is that of the partition function.
	HashSeed uint64
	// Tables are those there are at the step, ascending by id.
	Tables []Table
	// Base is the checkpoint whose pages are carried over unless they are written
	// or dropped; 0: the part is full.
	Base uint64
	// Rate bounds the bytes a second that are written, or compared with what is
	// there already. 0: no bound.
	Rate int64
	// Progress, if it is set, is called in the writer's goroutine, after each page.
	Progress func(Progress)
}

// Progress is how far a writer is.
type Progress struct {
	Pages  uint64 // given to it, pieces of blobs included
	Bytes  int64  // of them
	New    int64  // bytes of packs written
	Reused int64  // bytes that were there already
}

// Writer writes one part. It is used by one goroutine. What it has written does
// not exist before Finish, and is in a checkpoint only when Store.Commit says so;
// Cancel takes it back. After an error only Cancel is of use.
type Writer struct {
	store  *Store
	spec   Spec
	stem   string
	out    *packWriter
	pace   pacer
	tables map[uint32]*Table
	from   *pinned
	known  view             // the packs of the part being written, and its pages
	own    []uint32         // number in known, of each pack of out
	mine   map[uint64]int32 // the first bytes of a digest -> page of known
	blobs  []blob
	done   Progress
	packs  *packReader // for comparing
	part   *Part
	err    error
	closed bool
}

// Begin starts a part. Its files are kept from Collect until the checkpoint is
// committed or the writer cancelled.
//
// A chunk that the base has, or the job's newest checkpoint when there is no base,
// is not written again.
func (s *Store) Begin(ctx context.Context, spec Spec) (*Writer, error) {
	fail := func(err error) (*Writer, error) {
		return nil, fmt.Errorf("begin checkpoint %d, %s: %w", spec.ID, layout.GroupName(spec.Group), err)
	}
	if err := errors.Join(s.alive(), spec.validate()); err != nil {
		return fail(err)
	}
	w := &Writer{
		store: s, spec: spec, stem: stem(spec.ID, spec.Group, s.cfg.Owner, s.cfg.tag()), pace: pacer{rate: spec.Rate},
		tables: map[uint32]*Table{}, mine: map[uint64]int32{}, packs: newPackReader(s.disk, s.cfg.Dir),
	}
	w.spec.Tables = slices.Clone(spec.Tables)
	for i := range w.spec.Tables {
		w.tables[w.spec.Tables[i].ID] = &w.spec.Tables[i]
	}
	w.out = &packWriter{disk: s.disk, dir: s.cfg.Dir, stem: w.stem, id: spec.ID, group: spec.Group, limit: s.cfg.packLimit}
	s.mark(s.writing, spec.ID, 1)
	var err error
	if w.from, err = s.pin(ctx, spec, w.stem); err != nil {
		return fail(errors.Join(err, w.Cancel()))
	}
	return w, nil
}

func (spec *Spec) validate() error {
	switch {
	case spec.ID == 0:
		return errors.New("a checkpoint's id is at least 1")
	case spec.Shards < 1 || spec.Shards > layout.Partitions || int64(spec.Group) > int64(spec.Shards):
		return fmt.Errorf("group %d of %d shards: want 1 to %d shards", spec.Group, spec.Shards, layout.Partitions)
	case spec.Base >= spec.ID:
		return fmt.Errorf("base %d is not an earlier checkpoint", spec.Base)
	}
	return validTables(spec.Tables)
}

// mark counts a use of a checkpoint up or down.
func (s *Store) mark(uses map[uint64]int, id uint64, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if uses[id] += by; uses[id] <= 0 {
		delete(uses, id)
	}
}

// usable is the error of a writer that has ended.
func (w *Writer) usable() error {
	switch {
	case w.err != nil:
		return w.err
	case w.closed || w.part != nil:
		return w.wrap(ErrClosed)
	}
	return nil
}

func (w *Writer) wrap(err error) error {
	return fmt.Errorf("write checkpoint %d, %s: %w", w.spec.ID, layout.GroupName(w.spec.Group), err)
}

// fail remembers the first error.
func (w *Writer) fail(err error) error {
	if w.err == nil {
		w.err = w.wrap(err)
	}
	return w.err
}

// WritePage writes a page; its bytes are not kept. When a page comes twice the
// last one counts. It waits for the rate.
func (w *Writer) WritePage(ctx context.Context, p Page) error {
	if err := w.usable(); err != nil {
		return err
	}
	t := w.tables[p.Table]
	if t == nil {
		return w.fail(fmt.Errorf("page %v is of no table of this checkpoint", p.PageID))
	}
	if err := checkPage(p, t, w.spec.Group, w.spec.Shards); err != nil {
		return w.fail(err)
	}
	at, err := w.chunk(ctx, chunkPage, p.Table, p.packed(), p.Data)
	if err != nil {
		return w.fail(err)
	}
	w.known.pages = append(w.known.pages, entry{table: p.Table, page: p.packed(), place: at})
	w.mine[short(&at.sum)] = int32(len(w.known.pages) - 1)
	return nil
}

// Drop says that a page of the base is not there any more.
func (w *Writer) Drop(id PageID) error {
	if err := w.usable(); err != nil {
		return err
	}
	w.known.pages = append(w.known.pages, entry{table: id.Table, page: id.packed(), place: place{pack: noPack}})
	return nil
}

// DropRest says that every page there is was given: those of the base that were
// not are not there any more.
func (w *Writer) DropRest() error {
	if err := w.usable(); err != nil {
		return err
	}
	given := slices.Clone(w.known.pages)
	slices.SortFunc(given, func(a, b entry) int { return compareEntries(&a, &b) })
	for i := range w.from.base.pages {
		old := &w.from.base.pages[i]
		_, there := slices.BinarySearchFunc(given, old, func(a entry, b *entry) int { return compareEntries(&a, b) })
		if !there && !old.gone() {
			w.known.pages = append(w.known.pages, entry{table: old.table, page: old.page, place: place{pack: noPack}})
		}
	}
	return nil
}

// WriteBlob writes a named piece of opaque state, to its end. A name is used once
// a part; see DropBlob.
func (w *Writer) WriteBlob(ctx context.Context, name string, r io.Reader) error {
	if err := w.usable(); err != nil {
		return err
	}
	at, there := slices.BinarySearchFunc(w.blobs, name, func(o blob, name string) int { return strings.Compare(o.name, name) })
	if !validBlob(name) || there {
		return w.fail(fmt.Errorf("blob %q: want a name of UTF-8, 1 to %d bytes, that is not there yet", name, maxBlobName))
	}
	o := blob{name: name}
	buf := make([]byte, w.store.cfg.blobChunk)
	for more := true; more; {
		n, err := fill(r, buf)
		if more = err == nil; err != nil && !errors.Is(err, io.EOF) {
			return w.fail(fmt.Errorf("read blob %q: %w", name, err))
		}
		if n == 0 {
			continue
		}
		at, err := w.chunk(ctx, chunkBlob, 0, uint64(len(o.pieces)), buf[:n])
		if err != nil {
			return w.fail(err)
		}
		o.pieces, o.bytes = append(o.pieces, at), o.bytes+int64(n)
	}
	w.blobs = slices.Insert(w.blobs, at, o)
	return nil
}

// DropBlob takes back a blob that was written: it is not in the part, and its name
// is free again. What its bytes took in packs stays there.
func (w *Writer) DropBlob(name string) error {
	if err := w.usable(); err != nil {
		return err
	}
	i := slices.IndexFunc(w.blobs, func(o blob) bool { return o.name == name })
	if i < 0 {
		return w.fail(fmt.Errorf("drop blob %q: it was not written", name))
	}
	w.blobs = slices.Delete(w.blobs, i, i+1)
	return nil
}

// fill reads until buf is full or there is an error, io.EOF at the end.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var m int
		m, err = r.Read(buf[n:])
		n += m
	}
	return n, err
}

func short(s *sum) uint64 { return le.Uint64(s[:8]) }

// chunk finds the place of a chunk, or makes it one.
func (w *Writer) chunk(ctx context.Context, kind uint8, table uint32, page uint64, data []byte) (place, error) {
	if err := w.pace.wait(ctx, len(data)); err != nil {
		return place{}, err
	}
	r := record{kind: kind, table: table, page: page, n: uint32(len(data)), sum: sha256.Sum256(data)}
	at, there := w.find(&r, data)
	if !there {
		pack, off, err := w.out.add(&r, data)
		if err != nil {
			return place{}, err
		}
		if pack == len(w.own) {
			w.own = append(w.own, w.known.number(w.out.packs[pack]))
		}
		at = place{pack: w.own[pack], n: r.n, off: off, sum: r.sum}
	}
	w.done.Pages++
	w.done.Bytes += int64(len(data))
	w.done.New = w.out.bytes
	if there {
		w.done.Reused += int64(len(data))
	}
	if w.spec.Progress != nil {
		w.spec.Progress(w.done)
	}
	return at, nil
}

// find looks for a chunk in this part, and then in the checkpoints pinned by it.
// What is on disk is compared, byte by byte: a damaged chunk is written anew.
func (w *Writer) find(r *record, data []byte) (place, bool) {
	if r.kind == chunkPage {
		if i, ok := w.mine[short(&r.sum)]; ok && w.known.pages[i].sum == r.sum && w.known.pages[i].n == r.n {
			return w.known.pages[i].place, true
		}
	}
	if len(w.from.packs) == 0 {
		return place{}, false // nothing to take from
	}
	name, at, ok := w.store.cat.find(r.sum)
	if !ok || at.n != r.n {
		return place{}, false
	}
	size, ok := w.from.packs[name]
	if !ok || at.off < packHead || at.off > size-recordHead-int64(at.n) {
		return place{}, false
	}
	old, err := w.packs.chunk(name, r.kind, &at)
	if err != nil || !bytes.Equal(old, data) {
		w.store.log.Warn("a chunk cannot be used again", "pack", name, "offset", at.off, "err", err)
		return place{}, false
	}
	at.pack = w.known.number(packRef{name: name, size: size})
	return at, true
}

// Finish makes what was written durable, and returns what the manifest says of
// it. Nobody sees it before Store.Commit.
func (w *Writer) Finish(ctx context.Context) (Part, error) {
	if w.part != nil && !w.closed {
		return *w.part, nil
	}
	if err := w.usable(); err != nil {
		return Part{}, err
	}
	if err := context.Cause(ctx); err != nil {
		return Part{}, w.fail(err)
	}
	part, err := w.finish()
	if err != nil {
		return Part{}, w.fail(err)
	}
	w.part = &part
	return part, nil
}

func (w *Writer) finish() (Part, error) {
	defer w.packs.close()
	if err := w.out.seal(); err != nil {
		return Part{}, err
	}
	for i, k := range w.out.packs {
		w.known.packs[w.own[i]].size = k.size
	}
	p := &partFile{
		id: w.spec.ID, group: w.spec.Group, shards: uint32(w.spec.Shards), base: w.spec.Base,
		packs: w.known.packs, pages: compactEntries(w.known.pages), blobs: w.blobs,
	}
	if p.base == 0 {
		p.pages = slices.DeleteFunc(p.pages, func(e entry) bool { return e.gone() })
	}
	b, err := p.encode()
	if err != nil {
		return Part{}, err
	}
	// The folder is synced once for the packs and the part.
	name := string(kindPart) + "-" + w.stem
	if err := w.store.writeFile(name, name+temporary, b); err != nil {
		return Part{}, err
	}
	all := &w.from.base
	all.lay(p)
	part := Part{
		Group: w.spec.Group, File: name, Bytes: int64(len(b)), SHA256: digestOf(b),
		New: w.out.bytes, Reused: w.done.Reused, Tables: countTables(w.spec.Tables, all.pages),
	}
	w.known, w.from.base, w.mine = view{}, view{}, nil
	return part, nil
}

// Cancel takes back what was written, unless the checkpoint is committed; it must
// not be called while somebody may still commit the part. It does nothing the
// second time.
func (w *Writer) Cancel() error {
	if w.closed {
		return nil
	}
	w.closed = true
	w.packs.close()
	defer w.store.mark(w.store.writing, w.spec.ID, -1)
	if _, _, err := w.store.manifest(w.spec.ID); w.part != nil && !errors.Is(err, ErrNotFound) {
		return nil
	}
	part := w.store.path(string(kindPart) + "-" + w.stem)
	err := errors.Join(
		removeFile(w.store.disk, part), removeFile(w.store.disk, part+temporary), w.out.undo(),
		removeFile(w.store.disk, w.store.path(string(kindIntent)+"-"+w.stem)),
	)
	if err != nil {
		return fmt.Errorf("cancel checkpoint %d, %s: %w", w.spec.ID, layout.GroupName(w.spec.Group), err)
	}
	return nil
}
