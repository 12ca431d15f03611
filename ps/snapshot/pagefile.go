package snapshot

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"hcclps/ps/corrupt"
)

const (
	pageMagic      = "hclppage"
	pageVersion    = 1
	pageFileHeader = 16
	pageFileLimit  = 256 << 20 // a file this long is not appended to by another snapshot
)

// pageFile is the store's record of one pages-N. Guarded by Store.mu.
type pageFile struct {
	n       uint32
	size    int64
	refs    int  // manifests, sinks and readers that need it
	writing bool // a sink or the compaction appends to it
}

func pageFileName(dir string, n uint32) string {
	return filepath.Join(dir, fmt.Sprintf("pages-%08d", n))
}

// pageWriter appends payloads to one page file that nobody else appends to.
type pageWriter struct {
	disk  disk
	dir   string
	n     uint32
	start int64 // length before us; 0: the file is ours
	end   int64
	f     file
	buf   *bufio.Writer
}

// newPageWriter continues the file n of that size, or begins it when size is 0.
func newPageWriter(d disk, dir string, n uint32, size int64) (*pageWriter, error) {
	w := &pageWriter{disk: d, dir: dir, n: n, start: size, end: size}
	open := d.Append
	if size == 0 {
		open = d.Create
	}
	f, err := open(w.name())
	if err != nil {
		return nil, explain("open page file", err)
	}
	w.f, w.buf = f, bufio.NewWriterSize(f, 256<<10)
	if size == 0 {
		h := le.AppendUint32([]byte(pageMagic), pageVersion)
		if _, err := w.buf.Write(le.AppendUint32(h, n)); err != nil {
			return nil, errors.Join(explain("begin page file", err), w.undo())
		}
		w.end = pageFileHeader
	}
	return w, nil
}

func (w *pageWriter) name() string { return pageFileName(w.dir, w.n) }

// add appends the payload of a record and says where it will be.
func (w *pageWriter) add(kind Kind, id uint64, data []byte) (entry, error) {
	e := entry{id: id, file: w.n, off: w.end, n: uint32(len(data)), crc: recordCRC(kind, id, data)}
	if _, err := w.buf.Write(data); err != nil {
		return e, explain("append to "+w.name(), err)
	}
	w.end += int64(len(data))
	return e, nil
}

// finish makes everything durable, the file's name too.
func (w *pageWriter) finish() error {
	if err := w.buf.Flush(); err != nil {
		return explain("append to "+w.name(), err)
	}
	if err := w.f.Sync(); err != nil {
		return explain("sync "+w.name(), err)
	}
	if err := w.f.Close(); err != nil {
		return explain("close "+w.name(), err)
	}
	w.f = nil
	if w.start > 0 {
		return nil
	}
	if err := w.disk.SyncDir(w.dir); err != nil {
		return explain("sync "+w.dir, err)
	}
	return nil
}

// undo takes back what was appended: the file is as long as before, or gone.
func (w *pageWriter) undo() error {
	if w.start == 0 {
		var err error
		if w.f != nil {
			err = w.f.Close()
		}
		return errors.Join(err, w.disk.Remove(w.name()))
	}
	if w.f == nil {
		f, err := w.disk.Append(w.name())
		if err != nil {
			return err
		}
		w.f = f
	}
	return errors.Join(w.f.Truncate(w.start), w.f.Close())
}

// openPages opens a page file for reading and checks its first bytes.
func openPages(dir string, n uint32) (*os.File, error) {
	name := pageFileName(dir, n)
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, &corrupt.Error{File: name, Reason: "the file is missing"}
	}
	if err != nil {
		return nil, fmt.Errorf("open page file: %w", err)
	}
	var h [pageFileHeader]byte
	if _, err := f.ReadAt(h[:], 0); err != nil || string(h[:8]) != pageMagic || le.Uint32(h[8:]) != pageVersion || le.Uint32(h[12:]) != n {
		return nil, errors.Join(&corrupt.Error{File: name, Reason: fmt.Sprintf("not page file %d in format version %d", n, pageVersion)}, f.Close())
	}
	return f, nil
}

// readPayload reads and verifies a payload into buf, which is grown as needed.
func readPayload(f *os.File, kind Kind, e *entry, buf []byte) ([]byte, error) {
	if cap(buf) < int(e.n) {
		buf = make([]byte, e.n)
	}
	buf = buf[:e.n]
	if _, err := f.ReadAt(buf, e.off); err != nil {
		return buf, &corrupt.Error{File: f.Name(), Offset: e.off, Reason: fmt.Sprintf("page %d of %d bytes cannot be read: %v", e.id, e.n, err)}
	}
	if crc := recordCRC(kind, e.id, buf); crc != e.crc {
		return buf, &corrupt.Error{File: f.Name(), Offset: e.off, Reason: fmt.Sprintf("page %d: CRC is %08x, the manifest says %08x", e.id, crc, e.crc)}
	}
	return buf, nil
}
