package checkpoint

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"

	"hcclps/ps/layout"
)

// Verified counts what Verify has read.
type Verified struct {
	Checkpoints int
	Packs       int
	Chunks      uint64
	Bytes       int64 // of packs
	Total       int64 // of all packs it will read, for a progress bar
}

// expected is a chunk that should be in a pack.
type expected struct {
	place
	table, blob string
}

// verifier is one run of Verify.
type verifier struct {
	store    *Store
	progress func(Verified)
	done     Verified
	seen     map[uint64]bool
	sizes    map[string]int64
	chunks   map[string][]expected
	errs     []error
}

// maxFaults is how many faults Verify names.
const maxFaults = 100

// Verify reads every byte of the checkpoints, of those they stand on, and of every
// pack that they need; no ids: all there are. It goes on after a fault, and its
// error names all of them, each a *DamageError or ErrMissing, up to a hundred. The
// callback, which may be nil, is called after each chunk.
func (s *Store) Verify(ctx context.Context, progress func(Verified), ids ...uint64) (Verified, error) {
	v := &verifier{store: s, progress: progress, seen: map[uint64]bool{}, sizes: map[string]int64{}, chunks: map[string][]expected{}}
	if len(ids) == 0 {
		names, err := s.disk.List(s.cfg.Dir)
		if err != nil {
			return v.done, fmt.Errorf("verify checkpoints: %w", err)
		}
		ids = manifestIDs(names)
	}
	for _, id := range ids {
		v.checkpoint(ctx, id)
	}
	for _, size := range v.sizes {
		v.done.Total += size
	}
	for _, name := range slices.Sorted(maps.Keys(v.sizes)) {
		if err := context.Cause(ctx); err != nil {
			v.fault(err)
			break
		}
		v.pack(ctx, name)
	}
	if err := errors.Join(v.errs...); err != nil {
		return v.done, fmt.Errorf("verify checkpoints in %s: %w", s.cfg.Dir, err)
	}
	return v.done, nil
}

func (v *verifier) fault(err error) {
	if len(v.errs) < maxFaults {
		v.errs = append(v.errs, err)
	}
}

// checkpoint checks what is about a checkpoint but the packs.
func (v *verifier) checkpoint(ctx context.Context, id uint64) {
	m, _, err := v.store.manifest(id)
	var chain []*Manifest
	if err == nil {
		chain, err = v.store.chain(m)
	}
	if err != nil {
		v.fault(err)
		return
	}
	for i, m := range chain {
		if v.seen[m.ID] {
			continue
		}
		v.seen[m.ID] = true
		v.done.Checkpoints++
		for j := range m.Parts {
			if err := context.Cause(ctx); err != nil {
				v.fault(err)
				return
			}
			v.part(m, &m.Parts[j])
			v.counts(chain[i:], &m.Parts[j])
		}
	}
}

// part notes what a part needs.
func (v *verifier) part(m *Manifest, ref *Part) {
	p, err := v.store.part(m, ref.Group)
	if err != nil {
		v.fault(err)
		return
	}
	for _, k := range p.packs {
		v.sizes[k.name] = max(v.sizes[k.name], k.size)
	}
	note := func(at place, table, blob string) {
		name := p.packs[at.pack].name
		v.chunks[name] = append(v.chunks[name], expected{at, table, blob})
	}
	for i := range p.pages {
		e := &p.pages[i]
		if e.gone() {
			continue
		}
		t := m.table(e.table)
		if t == nil {
			v.fault(&DamageError{File: v.store.path(ref.File), Chunk: e.sum.String(), Reason: fmt.Sprintf("page %v is of no table of checkpoint %d", unpackPage(e.table, e.page), m.ID)})
			continue
		}
		note(e.place, t.Name, "")
	}
	for i := range p.blobs {
		for _, at := range p.blobs[i].pieces {
			note(at, "", p.blobs[i].name)
		}
	}
}

// withPages leaves out tables of which a group has nothing: whoever wrote its
// part may not have known of them.
func withPages(tables []PartTable) []PartTable {
	return slices.DeleteFunc(slices.Clone(tables), func(t PartTable) bool { return t.Pages == 0 && t.Rows == 0 && t.Bytes == 0 })
}

// counts compares what the manifest says of a group's tables with the pages of the
// chain.
func (v *verifier) counts(chain []*Manifest, ref *Part) {
	all, err := v.store.view(chain, ref.Group)
	if err != nil {
		return // named already
	}
	got := countTables(chain[0].Tables, all.pages)
	if !slices.Equal(withPages(got), withPages(ref.Tables)) {
		v.fault(&DamageError{
			File:   v.store.path(manifestName(chain[0].ID)),
			Reason: fmt.Sprintf("%s has %+v, the manifest says %+v", layout.GroupName(ref.Group), got, ref.Tables),
		})
	}
}

// pack reads one from its first byte to its last.
func (v *verifier) pack(ctx context.Context, name string) {
	wanted := v.chunks[name]
	delete(v.chunks, name)
	slices.SortFunc(wanted, func(a, b expected) int { return cmp.Compare(a.off, b.off) })
	r := newPackReader(v.store.disk, v.store.cfg.Dir)
	defer r.close()
	s, err := r.source(name)
	if err != nil {
		v.fault(err)
		return
	}
	if s.size != v.sizes[name] {
		v.fault(&DamageError{File: s.path, Offset: min(s.size, v.sizes[name]), Reason: fmt.Sprintf("it has %d bytes, want %d", s.size, v.sizes[name])})
	}
	v.done.Packs++
	v.done.Bytes += packHead
	for off := int64(packHead); off < min(s.size, v.sizes[name]) && context.Cause(ctx) == nil; {
		var here []expected
		for len(wanted) > 0 && wanted[0].off <= off {
			if wanted[0].off < off {
				v.fault(wanted[0].damage(s.path, wanted[0].off, "no record begins there"))
			} else {
				here = append(here, wanted[0])
			}
			wanted = wanted[1:]
		}
		n, err := s.verify(off, here)
		if err != nil {
			v.fault(err)
		}
		if n == 0 { // how long the record is cannot be known
			if len(wanted) == 0 {
				break
			}
			n = wanted[0].off - off
		}
		off += n
		v.done.Chunks++
		v.done.Bytes += n
		if v.progress != nil {
			v.progress(v.done)
		}
	}
	for i := range wanted {
		v.fault(wanted[i].damage(s.path, wanted[i].off, "no record begins there"))
	}
}

func (e *expected) damage(path string, off int64, reason string) error {
	return &DamageError{File: path, Offset: off, Table: e.table, Blob: e.blob, Chunk: e.sum.String(), Reason: reason}
}

// verify checks the record at off, and that it is what all of here want. n is its
// length, 0 if that cannot be known.
func (s *packSource) verify(off int64, here []expected) (n int64, err error) {
	defer func() {
		d, ok := errors.AsType[*DamageError](err)
		if !ok {
			return
		}
		if d.File == "" {
			d.File, d.Offset = s.path, d.Offset+off
		}
		if len(here) > 0 {
			d.Table, d.Blob, d.Chunk = here[0].table, here[0].blob, here[0].sum.String()
		}
	}()
	b, err := s.read(off, recordHead)
	if err != nil {
		return 0, err
	}
	r, err := decodeRecord(b)
	if err != nil {
		return 0, err
	}
	n = recordHead + int64(r.n)
	if b, err = s.read(off, int(n)); err != nil {
		return n, err
	}
	data := b[recordHead:]
	if err := r.check(data); err != nil {
		return n, err
	}
	if got := sum(sha256.Sum256(data)); got != r.sum {
		return n, &DamageError{Offset: recordHead, Chunk: r.sum.String(), Reason: fmt.Sprintf("the chunk's SHA-256 is %s", got)}
	}
	for i := range here {
		if here[i].sum != r.sum || here[i].n != r.n {
			here = here[i:]
			return n, &DamageError{Reason: fmt.Sprintf("there is another chunk, %s of %d bytes", r.sum, r.n)}
		}
	}
	return n, nil
}
