package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
)

const (
	window   = 1 << 20  // read at once where reads follow each other
	glimpse  = 64 << 10 // and where they do not
	maxPacks = 32       // files open at once
)

// packReader reads chunks. It is used by one goroutine.
type packReader struct {
	disk disk
	dir  string
	open map[string]*packSource
	age  int64
}

type packSource struct {
	f    source
	path string
	size int64
	buf  []byte
	at   int64 // of buf in the file
	age  int64
}

func newPackReader(d disk, dir string) *packReader {
	return &packReader{disk: d, dir: dir, open: map[string]*packSource{}}
}

func (r *packReader) close() {
	for _, s := range r.open {
		_ = s.f.Close() // only read
	}
	clear(r.open)
}

// source opens a pack and checks its head.
func (r *packReader) source(name string) (*packSource, error) {
	r.age++
	if s := r.open[name]; s != nil {
		s.age = r.age
		return s, nil
	}
	if len(r.open) >= maxPacks {
		oldest := ""
		for n, s := range r.open {
			if oldest == "" || s.age < r.open[oldest].age {
				oldest = n
			}
		}
		_ = r.open[oldest].f.Close() // only read
		delete(r.open, oldest)
	}
	path := filepath.Join(r.dir, name)
	f, size, err := openSource(r.disk, path)
	if err != nil {
		return nil, err
	}
	s := &packSource{f: f, path: path, size: size, age: r.age}
	head, err := s.read(0, packHead)
	if err == nil {
		err = checkPackHead(head)
	}
	if err != nil {
		_ = f.Close() // only read
		return nil, inFile(err, path)
	}
	r.open[name] = s
	return s, nil
}

func openSource(d disk, path string) (source, int64, error) {
	f, err := d.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	if err != nil {
		return nil, 0, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, size, nil
}

// read yields n bytes, which are good until the next read of the pack.
func (s *packSource) read(off int64, n int) ([]byte, error) {
	if end := s.at + int64(len(s.buf)); off >= s.at && off+int64(n) <= end {
		return s.buf[off-s.at:][:n], nil
	}
	if off+int64(n) > s.size {
		return nil, &DamageError{File: s.path, Offset: s.size, Reason: fmt.Sprintf("it ends before the %d bytes at %d", n, off)}
	}
	want := glimpse
	if off == s.at+int64(len(s.buf)) || off >= s.at && off < s.at+int64(len(s.buf)) {
		want = window
	}
	want = max(n, int(min(int64(want), s.size-off)))
	if cap(s.buf) < want {
		s.buf = make([]byte, want)
	}
	s.buf, s.at = s.buf[:want], off
	if _, err := s.f.ReadAt(s.buf, off); err != nil && !errors.Is(err, io.EOF) {
		s.buf = s.buf[:0]
		return nil, fmt.Errorf("read %s at %d: %w", s.path, off, err)
	}
	return s.buf[:n], nil
}

// chunk yields the bytes of a chunk, checked against its record and the place
// that names it; they are good until the next read of the pack.
func (r *packReader) chunk(pack string, kind uint8, p *place) ([]byte, error) {
	s, err := r.source(pack)
	if err != nil {
		return nil, err
	}
	b, err := s.read(p.off, recordHead+int(p.n))
	if err != nil {
		return nil, withChunk(err, s.path, 0, p)
	}
	rec, err := decodeRecord(b)
	switch {
	case err != nil:
	case rec.kind != kind || rec.n != p.n || rec.sum != p.sum:
		err = &DamageError{Reason: fmt.Sprintf("there is another chunk, %s of %d bytes", rec.sum, rec.n)}
	default:
		err = rec.check(b[recordHead:])
	}
	if err != nil {
		return nil, withChunk(err, s.path, p.off, p)
	}
	return b[recordHead:], nil
}

// withChunk completes a DamageError with what is known where it was found.
func withChunk(err error, path string, off int64, p *place) error {
	if d, ok := errors.AsType[*DamageError](err); ok {
		if d.File == "" {
			d.File, d.Offset = path, d.Offset+off
		}
		d.Chunk = p.sum.String()
	}
	return err
}
