package worker

import (
	"context"
	"slices"

	"hcclps/p2p/collective"
	"hcclps/ps/wire"
)

// sparseFrom is the length of the longest body from which on rows are summed on their way, by SparseReduce, and not gathered: short bodies take longer so. Over
// tcp it is even with two workers at about 700 KB each, and 1.5 times as fast with four. Where workers share memory gathering is faster at any length.
const sparseFrom = 512 << 10

// exchangeRows sums the rows of tables without a codec, and gives everybody everybody's rest. The bits are those of bodies.
func (r *replica) exchangeRows(ctx context.Context, o *round) error {
	p := r.peers
	own, err := wire.DecodeSections(p.body)
	if err != nil {
		return err
	}
	var rest []byte
	for _, s := range own {
		if !r.summable(s.Table) {
			rest = wire.AppendSection(rest, s)
		}
	}
	said, err := p.tell(ctx, rest, maxBody)
	if err != nil {
		return err
	}
	r.reader.Reset()
	for rank, b := range said {
		if o.bodies[rank], err = r.reader.Sections(b); err != nil {
			return bodyError(rank, err)
		}
	}
	for _, t := range r.tables { // in the order of ids, which is the same on all ranks
		if !r.summable(t.Spec.ID) {
			continue
		}
		mine := collective.Sparse{Dim: int(t.Spec.Dim)}
		if i := slices.IndexFunc(own, func(s wire.Section) bool { return s.Table == t.Spec.ID }); i >= 0 {
			mine.Keys, mine.Rows = own[i].Keys, own[i].Values
		}
		if err := p.group.SparseReduce(mine, &t.union).Wait(ctx); err != nil {
			return err
		}
		if len(t.union.Keys) > 0 {
			o.sums = append(o.sums, wire.Section{Table: t.Spec.ID, Dim: mine.Dim, Keys: t.union.Keys, Values: t.union.Rows})
		}
	}
	return p.group.Barrier().Wait(ctx)
}

// summable says whether the rows of a table may be summed on their way: those of an embedding that travels as it is.
func (r *replica) summable(id uint32) bool {
	t := r.table(id)
	return t != nil && t.sum == nil && t.Spec.Compress == ""
}

// sparse says whether rows are to be summed on their way, which all workers know from their heads.
func (o *round) sparse() bool {
	longest := uint64(0)
	for i := range o.heads {
		if o.heads[i].refused {
			return false
		}
		longest = max(longest, o.heads[i].body)
	}
	return longest >= sparseFrom
}
