package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
)

const (
	packLimit = 1 << 30 // bytes after which a writer begins another pack
	packBuf   = 1 << 20 // bytes gathered before a write
)

// packWriter appends records to packs of its own, one after the other.
type packWriter struct {
	disk  disk
	dir   string
	stem  string
	id    uint64
	group uint32
	limit int64

	packs []packRef // so far, all made by this writer
	out   *flusher  // of the last of them
	buf   []byte
	bytes int64 // of all of them
}

// flusher writes full buffers in a goroutine of its own, which ends with stop, so
// that the next chunk is hashed meanwhile.
type flusher struct {
	f          file
	full, free chan []byte
	broken     chan struct{} // closed when err is set
	done       chan struct{}
	err        error
}

const packBufs = 3 // one being filled, one being written, one between them

func newFlusher(f file) *flusher {
	w := &flusher{f: f, full: make(chan []byte, packBufs), free: make(chan []byte, packBufs), broken: make(chan struct{}), done: make(chan struct{})}
	for range packBufs - 1 {
		w.free <- nil // made when it is needed
	}
	go w.run()
	return w
}

func (w *flusher) run() {
	defer close(w.done)
	for b := range w.full {
		if w.err == nil {
			if _, w.err = w.f.Write(b); w.err != nil {
				close(w.broken)
			}
		}
		w.free <- b[:0]
	}
}

// swap gives a full buffer for an empty one.
func (w *flusher) swap(b []byte) ([]byte, error) {
	select {
	case <-w.broken:
		return b[:0], w.err
	case w.full <- b:
		return <-w.free, nil
	}
}

// stop ends the goroutine when all is written.
func (w *flusher) stop() error {
	close(w.full)
	<-w.done
	return w.err
}

func (w *packWriter) path(pack int) string { return filepath.Join(w.dir, w.packs[pack].name) }

// add appends a record. It says in which of its packs it is, and where.
func (w *packWriter) add(r *record, data []byte) (pack int, off int64, err error) {
	size := int64(recordHead + len(data))
	if w.out != nil && w.packs[len(w.packs)-1].size+size > w.limit {
		if err := w.seal(); err != nil {
			return 0, 0, err
		}
	}
	if w.out == nil {
		if err := w.open(); err != nil {
			return 0, 0, err
		}
	}
	pack = len(w.packs) - 1
	off = w.packs[pack].size
	r.crc = crc32.Checksum(data, castagnoli)
	w.buf = appendRecord(w.buf, r)
	w.buf = append(w.buf, data...)
	w.packs[pack].size += size
	w.bytes += size
	if len(w.buf) >= packBuf {
		err = w.flush()
	}
	return pack, off, err
}

func (w *packWriter) open() error {
	name := fmt.Sprintf("%s-%s-%04d", kindPack, w.stem, len(w.packs))
	f, err := w.disk.Create(filepath.Join(w.dir, name))
	if err != nil {
		return explain("make pack", err)
	}
	w.out = newFlusher(f)
	w.packs = append(w.packs, packRef{name: name, size: packHead})
	w.buf = appendPackHead(w.buf[:0], w.id, w.group)
	w.bytes += packHead
	return nil
}

func (w *packWriter) flush() (err error) {
	if w.buf, err = w.out.swap(w.buf); err != nil {
		return explain("write "+w.path(len(w.packs)-1), err)
	}
	return nil
}

// seal ends the pack: all of it is on disk. It does nothing when there is none.
func (w *packWriter) seal() error {
	if w.out == nil {
		return nil
	}
	out, path := w.out, w.path(len(w.packs)-1)
	w.out = nil
	var err error
	if w.buf, err = out.swap(w.buf); err != nil {
		w.buf = nil
	}
	err = cmp.Or(err, out.stop())
	if err == nil {
		err = out.f.Sync()
	}
	if err = cmp.Or(err, out.f.Close()); err != nil {
		return explain("write "+path, err)
	}
	return nil
}

// undo removes the packs.
func (w *packWriter) undo() error {
	var errs []error
	if w.out != nil {
		_ = w.out.stop()
		_ = w.out.f.Close() // it goes
		w.out = nil
	}
	for i := range w.packs {
		errs = append(errs, removeFile(w.disk, w.path(i)))
	}
	return errors.Join(errs...)
}

// removeFile removes a file that may be gone already.
func removeFile(d disk, name string) error {
	if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove file: %w", err)
	}
	return nil
}
