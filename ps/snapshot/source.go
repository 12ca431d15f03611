package snapshot

import (
	"errors"
	"io"
	"os"
)

// source is the stream of one snapshot, made on the fly from its page files.
type source struct {
	store *Store
	m     *manifest
	files map[uint32]*os.File
	step  int // 0 begin, 1 head, 2.. pages, then the end
	buf   []byte
	rest  []byte // of the record in buf, not read yet
	data  []byte
	sent  uint64 // bytes of the records before the next
	chain uint32
	err   error
}

func newSource(s *Store, m *manifest) *source {
	return &source{store: s, m: m, files: map[uint32]*os.File{}}
}

// Read implements io.Reader.
func (r *source) Read(p []byte) (int, error) {
	for len(r.rest) == 0 && r.err == nil {
		r.err = r.next()
	}
	if len(r.rest) == 0 {
		return 0, r.err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// next puts the next record into rest.
func (r *source) next() error {
	r.buf = r.buf[:0]
	pages := len(r.m.pages)
	switch i := r.step - 2; {
	case i == -2:
		r.buf = appendBegin(r.buf)
	case i == -1:
		if err := r.payload(Head, &r.m.head); err != nil {
			return err
		}
	case i < pages:
		if err := r.payload(Page, &r.m.pages[i]); err != nil {
			return err
		}
	case i == pages:
		r.buf = appendEnd(r.buf, uint64(pages), r.sent, r.chain)
	default:
		return io.EOF
	}
	r.step++
	r.rest = r.buf
	r.sent += uint64(len(r.buf))
	r.chain = chainCRC(r.chain, le.Uint32(r.buf[16:]))
	return nil
}

func (r *source) payload(kind Kind, e *entry) error {
	f := r.files[e.file]
	if f == nil {
		var err error
		if f, err = openPages(r.store.cfg.Dir, e.file); err != nil {
			return err
		}
		r.files[e.file] = f
	}
	var err error
	if r.data, err = readPayload(f, kind, e, r.data); err != nil {
		return err
	}
	r.buf = append(appendHeader(r.buf, kind, e.id, len(r.data), e.crc), r.data...)
	return nil
}

// Close lets go of the files. It may be called more than once.
func (r *source) Close() error {
	if r.store == nil {
		return nil
	}
	r.err, r.rest = os.ErrClosed, nil
	var errs []error
	for _, f := range r.files {
		errs = append(errs, f.Close())
	}
	r.store.unrefer(r.m)
	r.store = nil
	return errors.Join(errs...)
}
