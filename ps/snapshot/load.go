package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hcclps/ps/corrupt"
)

// load fills the books from the folder.
func (s *Store) load() error {
	names, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return err
	}
	pages := map[uint32]int64{}
	for _, d := range names {
		name := d.Name()
		seq, isManifest := number(name, "manifest-%020d")
		n, isPages := number(name, "pages-%08d")
		switch {
		case strings.HasSuffix(name, ".tmp"):
			if err := s.disk.Remove(filepath.Join(s.cfg.Dir, name)); err != nil {
				return err
			}
		case isManifest:
			if err := s.loadManifest(seq); err != nil {
				return err
			}
			s.nextSeq = max(s.nextSeq, seq+1)
		case isPages:
			info, err := d.Info()
			if err != nil {
				return err
			}
			pages[uint32(n)] = info.Size()
			s.nextFile = max(s.nextFile, uint32(n)+1)
		default:
			s.log.Warn("unknown file among the snapshots", "file", filepath.Join(s.cfg.Dir, name))
		}
	}
	slices.SortFunc(s.snaps, newer)
	if err := s.verify(); err != nil {
		return err
	}
	return s.cutLeftovers(pages)
}

// number takes the number out of a file's name; ok is false unless format makes exactly that name of it.
func number(name, format string) (n uint64, ok bool) {
	prefix, _, _ := strings.Cut(format, "%")
	n, err := strconv.ParseUint(strings.TrimPrefix(name, prefix), 10, 64)
	return n, err == nil && fmt.Sprintf(format, n) == name
}

func (s *Store) loadManifest(seq uint64) error {
	name := s.manifestName(seq)
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	m, err := decodeManifest(b)
	if bad, ok := errors.AsType[*corrupt.Error](err); ok {
		bad.File = name
		return bad
	}
	if err != nil {
		return err
	}
	if m.seq != seq {
		return &corrupt.Error{File: name, Offset: 12, Reason: fmt.Sprintf("it is the manifest of snapshot %d", m.seq)}
	}
	s.snaps = append(s.snaps, m)
	for _, n := range m.needs {
		if s.files[n] == nil {
			s.files[n] = &pageFile{n: n}
		}
		s.files[n].refs++
	}
	return nil
}

// place is a payload to verify or to move.
type place struct {
	entry
	kind Kind
}

// places lists the payloads of the snapshots once each, in the order of the files.
func places(snaps []*manifest, want func(file uint32) bool) []place {
	var all []place
	for _, m := range snaps {
		if want(m.head.file) {
			all = append(all, place{m.head, Head})
		}
		for i := range m.pages {
			if want(m.pages[i].file) {
				all = append(all, place{m.pages[i], Page})
			}
		}
	}
	slices.SortFunc(all, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.off, b.off), cmp.Compare(a.n, b.n), cmp.Compare(a.id, b.id))
	})
	return slices.Compact(all)
}

// verify reads every payload once, in the order of the files, and sets their sizes to the last byte used.
func (s *Store) verify() error {
	var f *os.File
	defer func() { _ = f.Close() }() // of a nil file too: an error, no panic
	var buf []byte
	open := uint32(0)
	for _, p := range places(s.snaps, func(uint32) bool { return true }) {
		if f == nil || open != p.file {
			_ = f.Close()
			var err error
			if f, err = openPages(s.cfg.Dir, p.file); err != nil {
				return err
			}
			open = p.file
		}
		if info, err := f.Stat(); err != nil || p.off < pageFileHeader || p.off > info.Size() || int64(p.n) > info.Size()-p.off {
			return &corrupt.Error{File: f.Name(), Offset: p.off, Reason: fmt.Sprintf("page %d of %d bytes is outside the file", p.id, p.n)}
		}
		var err error
		if buf, err = readPayload(f, p.kind, &p.entry, buf); err != nil {
			return err
		}
		s.files[p.file].size = max(s.files[p.file].size, p.off+int64(p.n))
	}
	return nil
}

// cutLeftovers removes page files that no manifest names, and what stands behind the last payload of the others. The newest file is
// continued by the next snapshot.
func (s *Store) cutLeftovers(pages map[uint32]int64) error {
	for n, size := range pages {
		f, name := s.files[n], pageFileName(s.cfg.Dir, n)
		if f == nil {
			if err := s.disk.Remove(name); err != nil {
				return err
			}
			continue
		}
		if size > f.size {
			w, err := s.disk.Append(name)
			if err != nil {
				return err
			}
			if err := errors.Join(w.Truncate(f.size), w.Close()); err != nil {
				return err
			}
		}
		if f.size < pageFileLimit && (s.tail == nil || s.tail.n < n) {
			s.tail = f
		}
	}
	return nil
}
