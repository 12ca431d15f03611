package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Sink is one snapshot being written: by pages (WriteHead, WritePage), or by the stream form (Write), never both. It is used by one
// goroutine. Only Close makes the snapshot exist; after an error it cannot any more.
type Sink struct {
	store  *Store
	m      manifest
	base   *manifest // pinned until Close or Cancel; nil: none, or forgotten
	out    *pageWriter
	head   bool
	fresh  []entry
	stream *parser
	err    error
	closed bool // by Close or Cancel
	exists bool
}

var (
	errSinkClosed = errors.New("the sink is closed")
	errTwoForms   = errors.New("a snapshot is written by pages or as a stream, not both")
)

// ID implements raft.SnapshotSink.
func (k *Sink) ID() string { return k.m.meta.ID }

// Base is the id of the snapshot whose pages are carried over unless they are written again; "" if there is none, after Full, and for
// a stream.
func (k *Sink) Base() string {
	if k.base == nil {
		return ""
	}
	return k.base.meta.ID
}

// Full forgets the base: pages that are not written vanish.
func (k *Sink) Full() error {
	if k.closed {
		return errSinkClosed
	}
	k.dropBase()
	return nil
}

func (k *Sink) dropBase() {
	if k.base != nil {
		k.store.unrefer(k.base)
		k.base = nil
	}
}

// WriteHead writes the small state; exactly once, before or after pages. b is not kept.
func (k *Sink) WriteHead(b []byte) error {
	if k.stream != nil {
		return k.fail(errTwoForms)
	}
	return k.put(Head, 0, b)
}

// WritePage writes one page; the last one counts when an id comes twice. b is not kept.
func (k *Sink) WritePage(id uint64, b []byte) error {
	if k.stream != nil {
		return k.fail(errTwoForms)
	}
	return k.put(Page, id, b)
}

// Write takes the stream that Store.Open yields, in pieces of any size, and checks it on the way. Such a snapshot has no base.
func (k *Sink) Write(b []byte) (int, error) {
	if k.stream == nil {
		if k.head || len(k.fresh) > 0 {
			return 0, k.fail(errTwoForms)
		}
		k.dropBase()
		k.stream = &parser{emit: k.put}
	}
	if k.closed || k.err != nil {
		return 0, k.fail(errSinkClosed)
	}
	if err := k.stream.write(b); err != nil {
		return 0, k.fail(err)
	}
	return len(b), nil
}

// fail remembers the first error.
func (k *Sink) fail(err error) error {
	if k.err == nil && !k.closed {
		k.err = fmt.Errorf("write snapshot %s: %w", k.ID(), err)
	}
	if k.err != nil {
		return k.err
	}
	return err
}

func (k *Sink) put(kind Kind, id uint64, b []byte) error {
	switch {
	case k.closed:
		return errSinkClosed
	case k.err != nil:
		return k.err
	case len(b) > maxRecord:
		return k.fail(fmt.Errorf("%d bytes in one piece, the limit is %d", len(b), maxRecord))
	case kind == Head && k.head:
		return k.fail(errors.New("the head is written already"))
	}
	if k.out == nil {
		if err := k.open(); err != nil {
			return k.fail(err)
		}
	}
	e, err := k.out.add(kind, id, b)
	if err != nil {
		return k.fail(err)
	}
	if kind == Head {
		k.head, k.m.head = true, e
	} else {
		k.fresh = append(k.fresh, e)
	}
	return nil
}

// open takes the store's tail, or begins a new file.
func (k *Sink) open() error {
	n, size := k.store.take()
	out, err := newPageWriter(k.store.disk, k.store.cfg.Dir, n, size)
	if err != nil {
		k.store.giveBack(n, size, false)
		return err
	}
	k.out = out
	return nil
}

// Close makes the snapshot exist, durable and whole, or reports why it does not. Called again, as raft does after the FSM, it repeats
// the verdict; after Cancel it is an error.
func (k *Sink) Close() error {
	if k.closed {
		if k.err == nil && !k.exists {
			return errSinkClosed
		}
		return k.err
	}
	switch {
	case k.err != nil:
	case k.stream != nil && !k.stream.check.done():
		_ = k.fail(k.stream.check.bad("the stream ends early"))
	case !k.head:
		_ = k.fail(errors.New("no head was written"))
	}
	if k.err != nil {
		return errors.Join(k.err, k.Cancel())
	}
	exists, err := k.commit()
	if err != nil {
		_ = k.fail(err)
	}
	if !exists {
		return errors.Join(k.err, k.Cancel())
	}
	k.closed, k.exists = true, true
	k.dropBase()
	k.store.giveBack(k.out.n, k.out.end, err == nil)
	return k.err
}

func (k *Sink) commit() (exists bool, err error) {
	if err := k.out.finish(); err != nil {
		return false, err
	}
	k.m.pages = merge(k.base, k.fresh)
	bytes := int64(0)
	for i := range k.m.pages {
		bytes += int64(k.m.pages[i].n)
	}
	k.m.meta.Size = streamSize(int(k.m.head.n), len(k.m.pages), bytes)
	m := k.m
	m.index()
	return k.store.publish(&m)
}

// merge lays fresh pages over those of the base. The last of equal ids counts.
func merge(base *manifest, fresh []entry) []entry {
	slices.SortStableFunc(fresh, func(a, b entry) int { return cmp.Compare(a.id, b.id) })
	var old []entry
	if base != nil {
		old = base.pages
	}
	all := make([]entry, 0, len(old)+len(fresh))
	for i := range fresh {
		if i+1 < len(fresh) && fresh[i+1].id == fresh[i].id {
			continue
		}
		for len(old) > 0 && old[0].id < fresh[i].id {
			all, old = append(all, old[0]), old[1:]
		}
		if len(old) > 0 && old[0].id == fresh[i].id {
			old = old[1:]
		}
		all = append(all, fresh[i])
	}
	return append(all, old...)
}

// Cancel takes back everything that was written. After Close, or a second time, it does nothing.
func (k *Sink) Cancel() error {
	if k.closed {
		return nil
	}
	k.closed = true
	k.dropBase()
	if k.out == nil {
		return nil
	}
	err := k.out.undo()
	k.store.giveBack(k.out.n, k.out.start, err == nil && k.err == nil)
	if err != nil {
		return fmt.Errorf("cancel snapshot %s: %w", k.ID(), err)
	}
	return nil
}

// take hands the tail, or the number of a new file (size 0), to one writer.
func (s *Store) take() (n uint32, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.tail
	if f == nil {
		f = &pageFile{n: s.nextFile}
		s.nextFile++
		s.files[f.n] = f
	}
	s.tail = nil
	f.writing = true
	return f.n, f.size
}

// giveBack ends the writing. size 0 says that the writer has removed the file. A sound file that is short enough becomes the tail
// again.
func (s *Store) giveBack(n uint32, size int64, sound bool) {
	s.mu.Lock()
	f := s.files[n]
	f.writing, f.size = false, size
	var gone []uint32
	switch {
	case f.refs == 0:
		delete(s.files, n)
		if size > 0 {
			gone = append(gone, n)
		}
	case sound && size < pageFileLimit && s.tail == nil:
		s.tail = f
	}
	s.mu.Unlock()
	s.removePages(gone)
}
