package snapshot

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// Run compacts until ctx ends: whenever less than half of the bytes in the page files is needed by a snapshot, the files with the
// least live bytes are copied, at Config.Rate, into a new one. It starts no goroutine. An error means that the folder is damaged
// (*corrupt.Error) or not writable; a clean end is nil.
func (s *Store) Run(ctx context.Context) error {
	for {
		victims := s.victims()
		if len(victims) > 0 {
			if err := s.compact(ctx, victims); err != nil && ctx.Err() == nil {
				return fmt.Errorf("compact snapshots: %w", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.kick:
		}
	}
}

// victims chooses the files to rewrite, none while half of all bytes is live.
func (s *Store) victims() map[uint32]bool {
	s.mu.Lock()
	snaps := slices.Clone(s.snaps)
	sizes := map[uint32]int64{}
	total := int64(0)
	for n, f := range s.files {
		if !f.writing {
			sizes[n] = f.size
			total += f.size
		}
	}
	s.mu.Unlock()

	live, sum := map[uint32]int64{}, int64(0)
	for _, p := range places(snaps, func(n uint32) bool { return sizes[n] > 0 }) {
		live[p.file] += int64(p.n)
		sum += int64(p.n)
	}
	if 2*sum >= total {
		return nil
	}
	chosen := map[uint32]bool{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, size := range sizes {
		f := s.files[n]
		if live[n] == 0 || 2*live[n] >= size || f == nil || f.writing || f.size != size {
			continue
		}
		if s.tail == f {
			s.tail = nil // nothing is appended to what is about to go
		}
		chosen[n] = true
	}
	return chosen
}

// compact copies what is live in the victims to a new file and lets the manifests point there. Readers and sinks that hold an old
// manifest keep its files.
func (s *Store) compact(ctx context.Context, victims map[uint32]bool) error {
	s.mu.Lock()
	snaps := slices.Clone(s.snaps)
	for _, m := range snaps {
		s.refer(m)
	}
	n := s.nextFile
	s.nextFile++
	s.files[n] = &pageFile{n: n, writing: true}
	s.mu.Unlock()

	size, err := s.rewrite(ctx, n, snaps, victims)
	s.giveBack(n, size, false)
	for _, m := range snaps {
		s.unrefer(m)
	}
	return err
}

// rewrite does it in the file n and says how long that is, 0 if it is not needed.
func (s *Store) rewrite(ctx context.Context, n uint32, snaps []*manifest, victims map[uint32]bool) (int64, error) {
	out, err := newPageWriter(s.disk, s.cfg.Dir, n, 0)
	if err != nil {
		return 0, err
	}
	moved, err := s.copyLive(ctx, out, snaps, victims)
	if err == nil {
		err = out.finish()
	}
	if err != nil {
		_ = out.undo() // the first error is the one to tell; Open removes the file otherwise
		return 0, err
	}
	return out.end, s.repoint(moved)
}

// copyLive appends the victims' live payloads to out and says where each one is now.
func (s *Store) copyLive(ctx context.Context, out *pageWriter, snaps []*manifest, victims map[uint32]bool) (map[entry]entry, error) {
	moved := map[entry]entry{}
	begin, copied := time.Now(), int64(0)
	var f *os.File
	defer func() { _ = f.Close() }()
	var buf []byte
	open := uint32(0)
	for _, p := range places(snaps, func(n uint32) bool { return victims[n] }) {
		if f == nil || open != p.file {
			_ = f.Close()
			var err error
			if f, err = openPages(s.cfg.Dir, p.file); err != nil {
				return nil, err
			}
			open = p.file
		}
		var err error
		if buf, err = readPayload(f, p.kind, &p.entry, buf); err != nil {
			return nil, err
		}
		if moved[p.entry], err = out.add(p.kind, p.id, buf); err != nil {
			return nil, err
		}
		copied += int64(p.n)
		due := time.Duration(float64(copied) / float64(s.cfg.Rate) * float64(time.Second))
		if ahead := due - time.Since(begin); ahead > 10*time.Millisecond {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(ahead):
			}
		}
	}
	return moved, nil
}

// repoint replaces, one by one, the manifests that name a moved payload.
func (s *Store) repoint(moved map[entry]entry) error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.mu.Lock()
	snaps := slices.Clone(s.snaps)
	s.mu.Unlock()
	for _, old := range snaps {
		m := *old
		m.pages = slices.Clone(old.pages)
		changed := false
		move := func(e *entry) {
			if to, ok := moved[*e]; ok {
				*e, changed = to, true
			}
		}
		move(&m.head)
		for i := range m.pages {
			move(&m.pages[i])
		}
		if !changed {
			continue
		}
		m.index()
		exists, err := s.writeManifest(&m)
		if exists {
			s.mu.Lock()
			s.refer(&m)
			s.snaps[slices.Index(s.snaps, old)] = &m
			s.mu.Unlock()
		}
		if err != nil {
			return err // the old files stay: the old manifest may come back after a loss of power
		}
		s.unrefer(old)
	}
	return nil
}
