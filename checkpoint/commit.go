package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"reflect"
	"slices"

	"hcclps/ps/layout"
)

// Commit makes a checkpoint exist, durable and whole: it writes the manifest,
// when it has seen that every part and pack is there. The caller fills in ID,
// Cluster, Job, Step, HashSeed, Shards, Layout, Params, Tables, Workers and Parts;
// for a delta also Base.ID. What Commit has made of it is returned.
//
// Committing the same parts again is no error: it returns the manifest that is
// there. Others under the same id are ErrExists.
func (s *Store) Commit(ctx context.Context, m Manifest) (*Manifest, error) {
	made, err := s.commit(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("commit checkpoint %d: %w", m.ID, err)
	}
	return made, nil
}

func (s *Store) commit(ctx context.Context, m Manifest) (*Manifest, error) {
	if err := s.alive(); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	names, err := s.disk.List(s.cfg.Dir)
	if err != nil {
		return nil, err
	}
	ids := manifestIDs(names)
	m.Format, m.Version = manifestFormat, Version
	m.Parts = slices.Clone(m.Parts)
	slices.SortFunc(m.Parts, func(a, b Part) int { return cmp.Compare(a.Group, b.Group) })
	if slices.Contains(ids, m.ID) {
		return s.committed(&m)
	}
	if err := s.stand(&m, ids); err != nil {
		return nil, err
	}
	if m.Created.IsZero() {
		m.Created = s.cfg.now().UTC()
	}
	if err := m.validate(); err != nil {
		return nil, err
	}
	for i := range m.Parts {
		if err := s.checkPart(ctx, &m, &m.Parts[i]); err != nil {
			return nil, err
		}
	}
	b, err := m.encode()
	if err != nil {
		return nil, err
	}
	made, err := decodeManifest(b)
	if err != nil {
		return nil, err
	}
	name := manifestName(m.ID)
	err = s.writeFile(name, fmt.Sprintf("%s-%020d-%s-%s.json%s", kindManifest, m.ID, s.cfg.Owner, s.cfg.tag(), temporary), b)
	if errors.Is(err, fs.ErrExist) {
		return s.committed(&m)
	}
	if err != nil {
		return nil, err
	}
	s.unpin(m.ID, names)
	s.mark(s.writing, m.ID, -math.MaxInt32)
	return made, nil
}

// committed is what an id stands for already.
func (s *Store) committed(m *Manifest) (*Manifest, error) {
	old, _, err := s.manifest(m.ID)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrExists, err)
	}
	if !reflect.DeepEqual(old.Parts, m.Parts) {
		return nil, fmt.Errorf("%w, with other parts: made %s of step %d", ErrExists, old.Created, old.Step)
	}
	return old, s.syncDir() // who made it may have died before that
}

// stand gives a manifest its number, and what it says of its base.
func (s *Store) stand(m *Manifest, ids []uint64) error {
	var base uint64
	if m.Base != nil {
		base = m.Base.ID
		old, digest, err := s.manifest(base)
		if err != nil {
			return fmt.Errorf("base: %w", err)
		}
		if err := old.canBase(&Spec{Job: m.Job, Shards: m.Shards, HashSeed: m.HashSeed, Tables: m.Tables}); err != nil {
			return err
		}
		m.Base = &Base{ID: base, SHA256: digest, Chain: 1}
		if old.Base != nil {
			m.Base.Chain = old.Base.Chain + 1
		}
	}
	m.Number = 1
	for _, id := range slices.Backward(ids) {
		if old, _, err := s.manifest(id); err == nil && old.Job == m.Job {
			m.Number = old.Number + 1
			break
		}
	}
	return nil
}

// checkPart looks whether a part is the one the manifest means and its packs are
// there. Writers have checked all else.
func (s *Store) checkPart(ctx context.Context, m *Manifest, ref *Part) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	p, size, err := s.partHead(ref.File)
	if errors.Is(err, ErrMissing) && s.cfg.Local {
		return nil
	}
	if err != nil {
		return fmt.Errorf("part of %s: %w", layout.GroupName(ref.Group), err)
	}
	base := uint64(0)
	if m.Base != nil {
		base = m.Base.ID
	}
	if size != ref.Bytes || p.id != m.ID || p.group != ref.Group || int(p.shards) != m.Shards || p.base != base {
		return fmt.Errorf("part %s is of checkpoint %d, base %d, %s of %d, with %d bytes: want checkpoint %d, base %d, %s of %d, %d bytes",
			ref.File, p.id, p.base, layout.GroupName(p.group), p.shards, size, m.ID, base, layout.GroupName(ref.Group), m.Shards, ref.Bytes)
	}
	for _, k := range p.packs {
		f, size, err := openSource(s.disk, s.path(k.name))
		if err != nil {
			return fmt.Errorf("part of %s: %w", layout.GroupName(ref.Group), err)
		}
		_ = f.Close() // only looked at
		if size < k.size {
			return fmt.Errorf("part of %s: %w", layout.GroupName(ref.Group), &DamageError{File: s.path(k.name), Offset: size, Reason: fmt.Sprintf("it ends there, %d bytes are needed", k.size)})
		}
	}
	return nil
}

// partHead reads what a part says of itself and its packs.
func (s *Store) partHead(name string) (p *partFile, size int64, err error) {
	path := s.path(name)
	f, size, err := openSource(s.disk, path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	b := make([]byte, min(size, 64<<10))
	for {
		if _, err := f.ReadAt(b, 0); err != nil {
			return nil, 0, fmt.Errorf("read %s: %w", path, err)
		}
		p, _, _, need, err := decodePartHead(b)
		if err != nil && need > len(b) && int64(need) <= size {
			b = make([]byte, need)
			continue
		}
		return p, size, inFile(err, path)
	}
}

// unpin ends the writers of a checkpoint.
func (s *Store) unpin(id uint64, names []string) {
	for _, n := range names {
		if f, ok := parseName(n); ok && f.kind == kindIntent && f.id == id {
			// What stays goes with the next Collect.
			if err := removeFile(s.disk, s.path(n)); err != nil {
				s.log.Warn("cannot remove the intent of a writer", "file", s.path(n), "err", err)
			}
		}
	}
}
