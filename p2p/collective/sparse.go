package collective

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"hcclps/internal/vec"
	"hcclps/p2p"
)

// Sparse is some rows of a table: Rows[i*Dim : (i+1)*Dim] belongs to Keys[i]. Keys ascend, and none comes twice.
type Sparse struct {
	Dim  int // elements of a row, the same on all ranks
	Keys []uint64
	Rows []float32
}

// SparseReduce leaves the union of every rank's rows in recv at every rank: rows of one key are summed in the order of ranks, each on top of those
// before, whatever Config.RankOrder says. recv's slices are used again if they have room, else replaced; they must not overlap send's.
//
// All ranks learn all keys first, and so what the rows will be: they go to everybody, who sums all of them, or to owners of
// parts of the union, who sum and pass on. Which is cheaper is decided then, unless Mesh or Pairwise is pinned, by the cost model; the bits are the same.
func (g *Group) SparseReduce(send Sparse, recv *Sparse) *Work {
	a := g.check(SparseReduce, p2p.Float32)
	if a.err = send.validate(); a.err == nil && recv == nil {
		a.err = errors.New("nowhere to put rows")
	}
	if a.err != nil {
		return refused(SparseReduce, a.err)
	}
	a.call.Count = send.Dim
	return g.post(a.call, 4*len(send.Rows), func(t team, v vector) error {
		return g.sparse(t, v, send, recv)
	})
}

// mostRows bounds the rows of all ranks together.
const mostRows = math.MaxInt32

func (s Sparse) validate() error {
	switch {
	case s.Dim < 1 || s.Dim > 1<<20:
		return fmt.Errorf("rows of %d elements, want 1 to %d", s.Dim, 1<<20)
	case len(s.Keys) > mostRows:
		return fmt.Errorf("%d rows, want at most %d", len(s.Keys), mostRows)
	case len(s.Rows) != len(s.Keys)*s.Dim:
		return fmt.Errorf("%d elements for %d rows of %d: %w", len(s.Rows), len(s.Keys), s.Dim, p2p.ErrLength)
	}
	return ascending(s.Keys)
}

func ascending(keys []uint64) error {
	for i := 1; i < len(keys); i++ {
		if keys[i-1] >= keys[i] {
			return fmt.Errorf("key %d at %d comes after key %d, want ascending keys", keys[i], i, keys[i-1])
		}
	}
	return nil
}

// sparse does a SparseReduce.
func (g *Group) sparse(t team, v vector, send Sparse, recv *Sparse) error {
	recv.Dim = send.Dim
	if t.size() == 1 {
		recv.Keys, recv.Rows = append(recv.Keys[:0], send.Keys...), append(recv.Rows[:0], send.Rows...)
		return nil
	}
	model := g.choose.messages()
	keys, err := everyKey(t, v, model, send.Keys)
	if err != nil {
		return err
	}
	s := &sparse{team: t, v: v, dim: send.Dim, keys: keys, mine: send.Rows, model: model}
	recv.Keys = append(recv.Keys[:0], s.merge(keys)...)
	union := recv.Keys
	recv.Rows = slices.Grow(recv.Rows[:0], len(union)*send.Dim)[:len(union)*send.Dim]
	if s.toOwners(len(union), t.call.Algorithm.Level1) {
		return s.byOwners(union, recv.Rows)
	}
	return s.byAll(union, recv.Rows)
}

// everyKey returns the keys of every rank.
func everyKey(t team, v vector, model chooser, mine []uint64) ([][]uint64, error) {
	const word = 4
	counts := t.scratch.take(word * t.size())
	binary.LittleEndian.PutUint32(counts[word*t.me:], uint32(len(mine)))
	by := model.choose(AllGather, len(counts)).Level1
	if err := allGather(t, by, vector{width: word, piece: v.piece}, counts, equal(word, t.size())); err != nil {
		return nil, err
	}
	parts := make(cut, t.size()+1)
	for r := range t.size() {
		parts[r+1] = parts[r] + 8*int(binary.LittleEndian.Uint32(counts[word*r:]))
	}
	total := parts[t.size()]
	if total > 8*mostRows {
		return nil, fmt.Errorf("reduce %d rows of all ranks, want at most %d", total/8, mostRows)
	}
	all := t.scratch.take(total)
	copy(parts.part(all, t.me), vec.BytesOfUint64s(mine))
	by = model.choose(AllGather, total).Level1
	if err := allGather(t, by, vector{width: 8, piece: v.piece}, all, parts); err != nil {
		return nil, err
	}
	keys := make([][]uint64, t.size())
	for r := range keys {
		keys[r] = vec.Uint64s(parts.part(all, r))
		if err := ascending(keys[r]); err != nil {
			return nil, fmt.Errorf("rank %d: %w: %w", r, p2p.ErrMalformed, err)
		}
	}
	return keys, nil
}

// sparse is a SparseReduce whose keys are known.
type sparse struct {
	team
	v     vector
	dim   int
	keys  [][]uint64 // by rank
	mine  []float32  // rows of this rank
	model chooser
}

// merge is the union of ascending lists. It may be one of them.
func (s *sparse) merge(lists [][]uint64) []uint64 {
	if len(lists) == 1 {
		return lists[0]
	}
	a, b := s.merge(lists[:len(lists)/2]), s.merge(lists[len(lists)/2:])
	out := vec.Uint64s(s.scratch.take(8 * (len(a) + len(b))))
	n := 0
	for len(a) > 0 && len(b) > 0 {
		x, y := a[0], b[0]
		out[n] = min(x, y)
		if n++; x <= y {
			a = a[1:]
		}
		if y <= x {
			b = b[1:]
		}
	}
	n += copy(out[n:], a)
	n += copy(out[n:], b)
	return out[:n]
}

// toOwners says whether rows go to owners first. All ranks come to the same answer, since they know the same.
func (s *sparse) toOwners(union int, pinned Algorithm) bool {
	if pinned != Auto {
		return pinned == Pairwise
	}
	width, total, most := 4*s.dim, 0, 0
	for _, k := range s.keys {
		total, most = total+len(k), max(most, len(k))
	}
	gather, spread := s.model.choose(AllGather, width*total), s.model.choose(AlltoAll, width*most)
	back := s.model.choose(AllGather, width*union)
	fold := float64(width*total) / s.model.inside.Reduce
	all := s.model.predict(AllGather, width*total, gather) + fold
	owners := s.model.predict(AlltoAll, width*most, spread) + fold/float64(s.size()) + s.model.predict(AllGather, width*union, back)
	return owners < all
}

// byAll sends rows to everybody.
func (s *sparse) byAll(union []uint64, out []float32) error {
	width := 4 * s.dim
	parts := make(cut, s.size()+1)
	for r, k := range s.keys {
		parts[r+1] = parts[r] + width*len(k)
	}
	all := s.scratch.take(parts[s.size()])
	copy(parts.part(all, s.me), vec.BytesOfFloats(s.mine))
	by := s.model.choose(AllGather, len(all)).Level1
	if err := allGather(s.team, by, vector{width: width, piece: s.v.piece}, all, parts); err != nil {
		return err
	}
	seen := s.flags(len(union))
	for _, r := range s.ascending() {
		addRows(out, union, seen, s.keys[r], vec.Floats(parts.part(all, r)), s.dim)
	}
	return nil
}

// byOwners sends rows to the owners of parts of the union, who pass on their sums.
func (s *sparse) byOwners(union []uint64, out []float32) error {
	owned := even(len(union), 1, s.size())
	width := 4 * s.dim
	from := func(r, owner int) (lo, hi int) { // rows of rank r for an owner
		return s.between(r, union[owned[owner]:owned[owner+1]])
	}
	give, take := make(cut, s.size()+1), make(cut, s.size()+1)
	for r := range s.size() {
		lo, hi := from(s.me, r)
		give[r+1] = give[r] + width*(hi-lo)
		lo, hi = from(r, s.me)
		take[r+1] = take[r] + width*(hi-lo)
	}
	rows := s.scratch.take(take[s.size()])
	by := s.model.choose(AlltoAll, width*len(union)).Level1
	if err := alltoAll(s.team, by, vec.BytesOfFloats(s.mine), rows, give, take); err != nil {
		return err
	}
	part := union[owned[s.me]:owned[s.me+1]]
	seen := s.flags(len(part))
	for _, r := range s.ascending() {
		lo, hi := from(r, s.me)
		addRows(out[owned[s.me]*s.dim:owned[s.me+1]*s.dim], part, seen, s.keys[r][lo:hi], vec.Floats(take.part(rows, r)), s.dim)
	}
	whole := make(cut, s.size()+1)
	for i := range whole {
		whole[i] = width * owned[i]
	}
	by = s.model.choose(AllGather, width*len(union)).Level1
	return allGather(s.team, by, vector{width: width, piece: s.v.piece}, vec.BytesOfFloats(out), whole)
}

// flags are n bytes that are zero.
func (s *sparse) flags(n int) []byte {
	f := s.scratch.take(n)
	clear(f)
	return f
}

// between finds the keys of a rank that lie in a part of the union.
func (s *sparse) between(r int, part []uint64) (lo, hi int) {
	if len(part) == 0 {
		return 0, 0
	}
	lo, _ = slices.BinarySearch(s.keys[r], part[0])
	hi, found := slices.BinarySearch(s.keys[r], part[len(part)-1])
	if found {
		hi++
	}
	return lo, hi
}

// addRows adds the rows of one rank to those of the union, where some are seen already; keys are all in the union.
func addRows(out []float32, union []uint64, seen []byte, keys []uint64, rows []float32, dim int) {
	u := 0
	for i, k := range keys {
		for union[u] != k {
			u++
		}
		row, sum := rows[i*dim:(i+1)*dim], out[u*dim:(u+1)*dim]
		if seen[u] == 0 {
			seen[u] = 1
			copy(sum, row)
			continue
		}
		vec.Add(sum, row)
	}
}
