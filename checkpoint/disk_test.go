package checkpoint

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

var errPower = errors.New("the power is off")

// memDisk is a file system in memory that knows what a loss of power would leave.
// It stops at the n-th operation that changes something, which is done by half,
// and has room for so many bytes.
type memDisk struct {
	mu      sync.Mutex
	left    int   // operations; -1: no end
	room    int64 // bytes; -1: no end
	files   map[string]*memFile
	durable map[string]*memFile // names that are on disk
	pending []nameChange        // since the last SyncDir
}

type memFile struct {
	data   []byte
	synced int
}

// nameChange gives a file a name, or takes one away.
type nameChange struct {
	from, to string // from "": made; to "": removed
	f        *memFile
}

func newMemDisk() *memDisk {
	return &memDisk{left: -1, room: -1, files: map[string]*memFile{}, durable: map[string]*memFile{}}
}

// step counts an operation. The caller holds mu.
func (d *memDisk) step() error {
	switch {
	case d.left < 0:
		return nil
	case d.left == 0:
		return errPower
	}
	d.left--
	return nil
}

func (d *memDisk) Create(name string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return nil, err
	}
	if d.room == 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: unix.ENOSPC}
	}
	if d.files[name] != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrExist}
	}
	f := &memFile{}
	d.files[name] = f
	d.pending = append(d.pending, nameChange{to: name, f: f})
	return &memWriter{d, f}, nil
}

func (d *memDisk) Open(name string) (source, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == 0 {
		return nil, errPower
	}
	f := d.files[name]
	if f == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return memReader{bytes.NewReader(f.data)}, nil
}

func (d *memDisk) List(string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == 0 {
		return nil, errPower
	}
	var names []string
	for n := range d.files {
		names = append(names, filepath.Base(n))
	}
	return names, nil
}

func (d *memDisk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return err
	}
	if d.files[to] != nil {
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
	}
	f := d.files[from]
	delete(d.files, from)
	d.files[to] = f
	d.pending = append(d.pending, nameChange{from, to, f})
	return nil
}

func (d *memDisk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return err
	}
	f := d.files[name]
	if f == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	if d.room >= 0 {
		d.room += int64(len(f.data))
	}
	delete(d.files, name)
	d.pending = append(d.pending, nameChange{from: name, f: f})
	return nil
}

func (d *memDisk) SyncDir(string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return err
	}
	d.durable = maps.Clone(d.files)
	d.pending = nil
	return nil
}

// crash is the disk after a loss of power, or after the death of the process
// alone: then all that was done is there. Otherwise any of the names that were not
// synced are, and of bytes that were not synced any number, some of them zero.
func (d *memDisk) crash(r *rand.Rand, powerLost bool) *memDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := newMemDisk()
	names := d.files
	if powerLost {
		names = maps.Clone(d.durable)
		share := r.IntN(3) // none, some, all
		for _, c := range d.pending {
			if r.IntN(2) >= share {
				continue
			}
			if c.from != "" && names[c.from] == c.f {
				delete(names, c.from)
			}
			if c.to != "" {
				names[c.to] = c.f
			}
		}
	}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		f := names[n]
		data := bytes.Clone(f.data)
		if powerLost && len(data) > f.synced {
			data = data[:f.synced+r.IntN(len(data)-f.synced+1)]
			if zero := f.synced + r.IntN(len(data)-f.synced+1); r.IntN(2) == 0 {
				clear(data[zero:])
			}
		}
		after.files[n] = &memFile{data, len(data)}
	}
	after.durable = maps.Clone(after.files)
	return after
}

func (d *memDisk) names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.files))
}

type memWriter struct {
	d *memDisk
	f *memFile
}

func (w *memWriter) Write(b []byte) (int, error) {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	err := w.d.step()
	n := len(b)
	if err != nil {
		n /= 2
	}
	if w.d.room >= 0 && int64(n) > w.d.room {
		n, err = int(w.d.room), unix.ENOSPC
	}
	if w.d.room >= 0 {
		w.d.room -= int64(n)
	}
	w.f.data = append(w.f.data, b[:n]...)
	return n, err
}

func (w *memWriter) Sync() error {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	if err := w.d.step(); err != nil {
		return err
	}
	w.f.synced = len(w.f.data)
	return nil
}

func (w *memWriter) Close() error { return nil }

type memReader struct{ r *bytes.Reader }

func (r memReader) ReadAt(b []byte, off int64) (int, error) {
	n, err := r.r.ReadAt(b, off)
	if n == len(b) && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (r memReader) Close() error         { return nil }
func (r memReader) Size() (int64, error) { return r.r.Size(), nil }
