package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Delete removes a checkpoint, also a damaged one. Its packs go with the next
// Collect. ErrInUse: a delta stands on it, or a newer one that cannot be read may;
// a writer builds upon it; or it is open here.
func (s *Store) Delete(ctx context.Context, id uint64) error {
	if err := s.delete(ctx, id); err != nil {
		return fmt.Errorf("delete checkpoint %d: %w", id, err)
	}
	return nil
}

func (s *Store) delete(ctx context.Context, id uint64) error {
	if err := errors.Join(s.alive(), context.Cause(ctx)); err != nil {
		return err
	}
	m, _, err := s.manifest(id)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return err
	}
	if err := s.unused(id); err != nil {
		return err
	}
	var known []*partFile // by the catalogue
	for i := 0; m != nil && i < len(m.Parts); i++ {
		var p *partFile
		if s.cat.has(m.Parts[i].File) {
			if p, err = s.part(m, m.Parts[i].Group); err != nil {
				p = nil // a sweep sees to it
			}
		}
		known = append(known, p)
	}
	if err := s.disk.Remove(s.path(manifestName(id))); err != nil {
		return err
	}
	// Its files go only when its name cannot come back.
	if err := s.syncDir(); err != nil {
		return err
	}
	for i, p := range known {
		if p != nil {
			s.cat.remove(m.Parts[i].File, p)
		}
		if err := removeFile(s.disk, s.path(m.Parts[i].File)); err != nil {
			s.log.Warn("cannot remove part", "file", s.path(m.Parts[i].File), "err", err)
		}
	}
	return nil
}

// unused says who needs a checkpoint.
func (s *Store) unused(id uint64) error {
	names, err := s.disk.List(s.cfg.Dir)
	if err != nil {
		return err
	}
	for _, other := range manifestIDs(names) {
		if other <= id {
			continue
		}
		d, _, err := s.manifest(other)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return fmt.Errorf("checkpoint %d may stand on it: %w: %w", other, ErrInUse, err)
		}
		if err == nil && d.Base != nil && d.Base.ID == id {
			return fmt.Errorf("checkpoint %d stands on it: %w", other, ErrInUse)
		}
	}
	intents, unknown := s.intents(names, func(uint64) bool { return true })
	if unknown {
		return fmt.Errorf("an unreadable intent may need it: %w: collect first", ErrInUse)
	}
	for _, in := range intents {
		if slices.Contains(in.Pins, id) {
			return fmt.Errorf("checkpoint %d is being written upon it: %w", in.Checkpoint, ErrInUse)
		}
	}
	s.mu.Lock()
	open := s.reading[id] > 0
	s.mu.Unlock()
	if open {
		return fmt.Errorf("it is being read: %w", ErrInUse)
	}
	return nil
}

// Policy says which checkpoints of a job are kept.
type Policy struct {
	Job   string
	Last  int    // the newest so many, at least 1
	Every uint64 // and every so manyth, by Manifest.Number; 0: none
}

// Retain deletes the checkpoints of a job that a policy does not keep and nothing
// stands on. It returns their ids. One that is in use is kept until the next time.
func (s *Store) Retain(ctx context.Context, p Policy) ([]uint64, error) {
	if p.Last < 1 {
		return nil, fmt.Errorf("retain checkpoints of job %q: keep at least the last 1, not %d", p.Job, p.Last)
	}
	all, err := s.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("retain checkpoints of job %q: %w", p.Job, err)
	}
	all = slices.DeleteFunc(all, func(m *Manifest) bool { return m.Job != p.Job })
	needed := map[uint64]bool{}
	var gone []uint64
	for i, m := range slices.Backward(all) { // what stands on another is newer
		keep := len(all)-i <= p.Last || p.Every > 0 && m.Number%p.Every == 0 || needed[m.ID]
		if !keep {
			switch err := s.delete(ctx, m.ID); {
			case errors.Is(err, ErrInUse):
				s.log.Info("an old checkpoint is kept", "id", m.ID, "why", err)
				keep = true
			case err != nil && !errors.Is(err, ErrNotFound):
				return gone, fmt.Errorf("retain checkpoints of job %q: delete %d: %w", p.Job, m.ID, err)
			default:
				gone = append(gone, m.ID)
			}
		}
		if keep && m.Base != nil {
			needed[m.Base.ID] = true
		}
	}
	return gone, nil
}

// Collected is what Collect has removed.
type Collected struct {
	Files int
	Bytes int64
}

// Collect removes what no checkpoint needs: packs and parts of deleted and of
// abandoned ones. Floor is the caller's word that no checkpoint below it is being
// written any more, by any server; what has a number from floor on is spared, and
// so are the writers of this store. Whole packs are removed, never a part of one.
//
// It removes nothing when a manifest or a part cannot be read, for what that needs
// is not known.
func (s *Store) Collect(ctx context.Context, floor uint64, owners ...string) (Collected, error) {
	var done Collected
	err := s.alive()
	if err == nil {
		err = s.collect(ctx, floor, owners, &done)
	}
	if err != nil {
		return done, fmt.Errorf("collect checkpoints: %w", err)
	}
	return done, nil
}

func (s *Store) collect(ctx context.Context, floor uint64, owners []string, done *Collected) error {
	names, err := s.disk.List(s.cfg.Dir)
	if err != nil {
		return err
	}
	others := writtenByOthers(names, owners)
	spared := func(id uint64, made []uint64) bool { return others[id] || s.spared(id, floor, made) }
	ids := manifestIDs(names)
	needed := map[string]bool{}
	for _, id := range ids {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := s.needs(id, ids, needed); err != nil {
			return err
		}
		s.mark(s.writing, id, -math.MaxInt32) // whoever committed it
	}
	// A writer whose base was deleted under it may need what that needed.
	intents, unknown := s.intents(names, func(id uint64) bool { return spared(id, ids) })
	old := uint64(0)
	for _, in := range intents {
		for _, pin := range in.Pins {
			if !slices.Contains(ids, pin) {
				old = max(old, pin)
			}
		}
	}
	for _, n := range names {
		f, ok := parseName(n)
		switch {
		case !ok || needed[n] || f.kind == kindManifest && !f.temp || spared(f.id, ids):
			continue
		case f.kind == kindPack && (unknown || f.id <= old):
			continue
		}
		if err := s.discard(n, done); err != nil {
			return err
		}
	}
	if done.Files == 0 {
		return nil
	}
	if err := s.syncDir(); err != nil {
		return err
	}
	return s.sweep()
}

// needs adds the parts and packs of a checkpoint; ids are all there are.
func (s *Store) needs(id uint64, ids []uint64, needed map[string]bool) error {
	m, _, err := s.manifest(id)
	if errors.Is(err, ErrNotFound) {
		return nil // deleted meanwhile
	}
	if err != nil {
		return err
	}
	if m.Base != nil && !slices.Contains(ids, m.Base.ID) {
		return fmt.Errorf("checkpoint %d stands on %s: %w", id, manifestName(m.Base.ID), ErrMissing)
	}
	for i := range m.Parts {
		needed[m.Parts[i].File] = true
		p, _, err := s.partHead(m.Parts[i].File)
		if errors.Is(err, ErrMissing) {
			if s.cfg.Local {
				continue
			}
			if _, _, gone := s.manifest(id); errors.Is(gone, ErrNotFound) {
				return nil
			}
		}
		if err != nil {
			return fmt.Errorf("checkpoint %d: %w", id, err)
		}
		for _, k := range p.packs {
			needed[k.name] = true
		}
	}
	return nil
}

// writtenByOthers are the checkpoints of which intents say that others than the
// owners are writing them; without owners nobody is another.
func writtenByOthers(names, owners []string) map[uint64]bool {
	by := map[uint64]bool{}
	for _, n := range names {
		if f, ok := parseName(n); ok && f.kind == kindIntent && len(owners) > 0 && !slices.Contains(owners, ownerOf(n)) {
			by[f.id] = true
		}
	}
	return by
}

// spared reports whether a checkpoint is being written.
func (s *Store) spared(id, floor uint64, made []uint64) bool {
	if slices.Contains(made, id) {
		return false // its needs are known
	}
	if id >= floor {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writing[id] > 0
}

func (s *Store) discard(name string, done *Collected) error {
	size := int64(0)
	if f, n, err := openSource(s.disk, s.path(name)); err == nil {
		size = n
		_ = f.Close() // only looked at
	}
	if err := removeFile(s.disk, s.path(name)); err != nil {
		return err
	}
	done.Files++
	done.Bytes += size
	return nil
}

// sweep takes out of the catalogue what is not in the folder any more.
func (s *Store) sweep() error {
	names, err := s.disk.List(s.cfg.Dir)
	if err != nil {
		return err
	}
	files := make(map[string]bool, len(names))
	for _, n := range names {
		files[n] = true
	}
	s.cat.sweep(files)
	return nil
}
