package checkpoint

import (
	"errors"
	"fmt"
	"slices"

	"hcclps/ps/layout"
)

// chain is a checkpoint and those it stands on, down to a full one.
func (s *Store) chain(m *Manifest) ([]*Manifest, error) {
	all := []*Manifest{m}
	for m.Base != nil {
		base, digest, err := s.manifest(m.Base.ID)
		if errors.Is(err, ErrNotFound) {
			return nil, fmt.Errorf("checkpoint %d stands on %s: %w: %w", m.ID, manifestName(m.Base.ID), ErrMissing, err)
		}
		if err != nil {
			return nil, fmt.Errorf("checkpoint %d stands on %s: %w", m.ID, manifestName(m.Base.ID), err)
		}
		next := 1
		if base.Base != nil {
			next = base.Base.Chain + 1
		}
		if digest != m.Base.SHA256 || next != m.Base.Chain || base.Job != m.Job || base.Shards != m.Shards || base.HashSeed != m.HashSeed {
			return nil, &DamageError{
				File:   s.path(manifestName(base.ID)),
				Reason: fmt.Sprintf("it is not the manifest that checkpoint %d was made upon: SHA-256 is %s, want %s", m.ID, digest, m.Base.SHA256),
			}
		}
		m = base
		all = append(all, m)
	}
	return all, nil
}

// part reads the part of a group and compares it with the manifest.
func (s *Store) part(m *Manifest, group uint32) (*partFile, error) {
	ref := m.part(group)
	if ref == nil {
		return nil, fmt.Errorf("checkpoint %d has no part of %s: %w", m.ID, layout.GroupName(group), ErrNotFound)
	}
	path := s.path(ref.File)
	b, err := s.readFile(path, maxPartFile)
	var p *partFile
	if err == nil {
		if digest := digestOf(b); digest != ref.SHA256 || int64(len(b)) != ref.Bytes {
			err = &DamageError{Reason: fmt.Sprintf("%d bytes with SHA-256 %s, the manifest says %d with %s", len(b), digest, ref.Bytes, ref.SHA256)}
		}
	}
	if err == nil {
		p, err = decodePart(b)
	}
	base := uint64(0)
	if m.Base != nil {
		base = m.Base.ID
	}
	if err == nil && (p.id != m.ID || p.group != group || int(p.shards) != m.Shards || p.base != base) {
		err = &DamageError{Reason: fmt.Sprintf("it is a part of checkpoint %d, base %d, %s of %d", p.id, p.base, layout.GroupName(p.group), p.shards)}
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint %d: %w", m.ID, inFile(err, path))
	}
	return p, nil
}

// view is all pages of a group, those of the bases included.
type view struct {
	packs []packRef
	pages []entry
	index map[string]uint32
}

// number gives a pack its place in the table.
func (v *view) number(k packRef) uint32 {
	if v.index == nil {
		v.index = map[string]uint32{}
	}
	i, ok := v.index[k.name]
	if !ok {
		i = uint32(len(v.packs))
		v.index[k.name] = i
		v.packs = append(v.packs, k)
	}
	v.packs[i].size = max(v.packs[i].size, k.size)
	return i
}

// lay puts the pages of a part over what is there.
func (v *view) lay(p *partFile) {
	v.pages = merge(v.pages, p, func(pack uint32) uint32 { return v.number(p.packs[pack]) })
}

// view reads the parts of a chain.
func (s *Store) view(chain []*Manifest, group uint32) (*view, error) {
	v := &view{}
	for _, m := range slices.Backward(chain) {
		p, err := s.part(m, group)
		if err != nil {
			return nil, err
		}
		v.lay(p)
	}
	return v, nil
}
