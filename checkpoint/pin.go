package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// pinned is what a writer builds upon: the checkpoint it may take chunks from,
// which cannot be deleted meanwhile.
type pinned struct {
	packs map[string]int64 // that may be used again, and the bytes that are known good
	base  view             // the base's pages of the group; empty for a full part
}

// intent is the file of a writer in progress: Delete spares what it pins.
type intent struct {
	Checkpoint uint64   `json:"checkpoint"`
	Pins       []uint64 `json:"pins"`
}

// pin writes the intent first, and looks then whether what it pins is still
// there: who deletes looks for intents first.
func (s *Store) pin(ctx context.Context, spec Spec, stem string) (*pinned, error) {
	names, err := s.disk.List(s.cfg.Dir)
	if err != nil {
		return nil, err
	}
	ids := manifestIDs(names)
	if slices.Contains(ids, spec.ID) {
		return nil, ErrExists
	}
	from, err := s.newest(ids, spec)
	if err != nil {
		return nil, err
	}
	in := intent{Checkpoint: spec.ID}
	if from != nil {
		in.Pins = []uint64{from.ID} // what it stands on cannot be deleted before it
	}
	b, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	name := string(kindIntent) + "-" + stem
	if err := s.writeFile(name, name+temporary, b); err != nil {
		return nil, err
	}
	if from == nil {
		return &pinned{}, nil
	}
	p, err := s.reusable(ctx, from, spec)
	if err != nil && spec.Base == 0 {
		// A full checkpoint needs nothing of an earlier one.
		s.log.Warn("an earlier checkpoint cannot be built upon", "id", from.ID, "err", err)
		return &pinned{}, nil
	}
	return p, err
}

// newest finds the base, or the job's newest checkpoint, if there is one that can
// be read.
func (s *Store) newest(ids []uint64, spec Spec) (*Manifest, error) {
	if spec.Base != 0 {
		m, _, err := s.manifest(spec.Base)
		if err != nil {
			return nil, fmt.Errorf("base: %w", err)
		}
		return m, m.canBase(&spec)
	}
	for _, id := range slices.Backward(ids) {
		m, _, err := s.manifest(id)
		if err == nil && m.Job == spec.Job && id < spec.ID {
			return m, nil
		}
		if err != nil {
			s.log.Warn("cannot read an earlier checkpoint", "id", id, "err", err)
		}
	}
	return nil, nil //nolint:nilnil // there need not be one
}

// canBase says why a delta cannot stand on a checkpoint.
func (m *Manifest) canBase(spec *Spec) error {
	switch {
	case m.Job != spec.Job:
		return fmt.Errorf("base %d is of job %q, not %q", m.ID, m.Job, spec.Job)
	case m.Shards != spec.Shards:
		return fmt.Errorf("base %d is of %d shards, not %d: write a full checkpoint", m.ID, m.Shards, spec.Shards)
	case m.HashSeed != spec.HashSeed:
		return fmt.Errorf("base %d: %w: %d, not %d", m.ID, ErrHashSeed, m.HashSeed, spec.HashSeed)
	case m.Base != nil && m.Base.Chain >= MaxChain:
		return fmt.Errorf("base %d is number %d in a chain of deltas, the limit: write a full checkpoint", m.ID, m.Base.Chain)
	}
	for _, t := range spec.Tables {
		if old := m.table(t.ID); old != nil && (old.Name != t.Name || old.Dim != t.Dim || old.Slots != t.Slots) {
			return fmt.Errorf("base %d has table %d as %q of %d+%d values, not %q of %d+%d", m.ID, t.ID, old.Name, old.Dim, old.Slots, t.Name, t.Dim, t.Slots)
		}
	}
	return nil
}

// reusable makes sure that the catalogue has the chunks of the checkpoint, and
// lists its packs.
func (s *Store) reusable(ctx context.Context, from *Manifest, spec Spec) (*pinned, error) {
	chain, err := s.chain(from)
	if err != nil {
		return nil, err
	}
	p := &pinned{packs: map[string]int64{}}
	live := map[string]int64{}
	for g := range uint32(from.Shards) + 1 {
		if from.part(g) == nil || from.Shards == spec.Shards && g != spec.Group {
			continue // the same shards: what the group had is what it may have again
		}
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		var v view
		var newest *partFile
		for _, m := range slices.Backward(chain) {
			f, err := s.part(m, g)
			if err != nil {
				return nil, err
			}
			s.cat.add(m.part(g).File, f)
			v.lay(f)
			for _, k := range f.packs {
				v.number(k)
			}
			newest = f
		}
		for i, n := range v.live(newest) {
			live[v.packs[i].name] += n
			p.packs[v.packs[i].name] = v.packs[i].size
		}
		if spec.Base != 0 {
			p.base = v
		}
	}
	// A full checkpoint takes nothing from a pack that is mostly dead, so that such
	// packs go with the checkpoints that need them.
	maps.DeleteFunc(p.packs, func(name string, size int64) bool { return spec.Base == 0 && 2*live[name] < size-packHead })
	return p, nil
}

// live is how many bytes of each pack the pages need, and the blobs of the newest
// part.
func (v *view) live(newest *partFile) []int64 {
	live := make([]int64, len(v.packs))
	for i := range v.pages {
		live[v.pages[i].pack] += recordHead + int64(v.pages[i].n)
	}
	for i := range newest.blobs {
		for j := range newest.blobs[i].pieces {
			at := &newest.blobs[i].pieces[j]
			live[v.number(newest.packs[at.pack])] += recordHead + int64(at.n)
		}
	}
	return live
}

// intents reads the intents among the names of a folder. One that cannot be read
// pins everything, which unknown says; one that is gone meanwhile pins nothing.
func (s *Store) intents(names []string, want func(id uint64) bool) (all []intent, unknown bool) {
	for _, n := range names {
		f, ok := parseName(n)
		if !ok || f.kind != kindIntent || !want(f.id) {
			continue
		}
		var in intent
		b, err := s.readFile(s.path(n), 1<<20)
		if err == nil {
			err = json.Unmarshal(b, &in)
		}
		switch {
		case errors.Is(err, ErrMissing):
		case err != nil:
			s.log.Warn("cannot read the intent of a writer", "file", s.path(n), "err", err)
			unknown = true
		default:
			all = append(all, in)
		}
	}
	return all, unknown
}
