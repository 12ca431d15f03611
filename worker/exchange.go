package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"hcclps/ps/wire"
)

// A step of all workers goes, on every rank in this order:
//
//  1. the dense tensors of r.order, in that order, are summed by fused AllReduce; who has no gradient of one gives -0, which changes no sum,
//     and says so in its body by a section without rows;
//  2. heads: everybody's head, by AllGather;
//  3. dense tensors with a codec that has a residual: see squeeze;
//  4. bodies: all other gradients as sections, as a server would get them, by an AllGather of parts as long as the longest; or where they are
//     long the rows of each embedding without a codec by SparseReduce, and only the rest so;
//  5. a barrier, if there were bodies.
//
// A dense tensor that is not in r.order yet goes in the body, and is in the order from then on: behind those that are, as the lowest
// rank lists the new ones.

// orderTable is the id of a section that says in which order new dense tensors came: keys of a position and a table's id.
const orderTable = math.MaxUint32

// pack lets the dense tensors of a step out, and gets its head and body ready. What it was given is not used any more then.
func (r *replica) pack(c *commit) (head, error) {
	own, err := r.gradients(c)
	if err == nil {
		err = r.early.fault
	}
	if err == nil {
		own, err = r.coded(c.step, own)
	}
	if err != nil && !errors.Is(err, ErrNonFinite) {
		if r.early.at > 0 { // others wait for the rest of a step that will not come
			err = errors.Join(err, r.peers.group.Close())
		}
		r.abandon()
		return head{}, err
	}
	h := r.head(c)
	if err == nil {
		h.codec = r.propose(c.step, r.squeeze.raw/4)
	}
	body := r.send(own)
	if r.peers.body = r.peers.body[:0]; err != nil {
		h.refused, h.rows = true, 0
		why := err.Error()
		if said, ok := errors.AsType[*RefusedError](err); ok {
			why = said.Detail
		}
		r.peers.body = fmt.Appendf(r.peers.body, "worker %q: %s", r.cfg.Worker, why)
	} else {
		for _, s := range body {
			r.peers.body = wire.AppendSection(r.peers.body, s)
		}
	}
	h.body = uint64(len(r.peers.body))
	return h, nil
}

// trade takes the rest of a step's way.
func (r *replica) trade(ctx context.Context, h head) (*round, error) {
	w := r.waits.begin(fmt.Sprintf("sums of step %d", h.step), "the other workers")
	defer r.waits.end(w)
	o, err := r.peers.exchangeHeads(ctx, h)
	if err == nil {
		o.there = time.Now()
		err = r.exchangeCodes(ctx, o)
	}
	if err == nil {
		err = r.exchangeBodies(ctx, o)
	}
	for _, b := range r.early.buckets {
		if failed := b.Wait(ctx); err == nil {
			err = failed
		}
	}
	r.early.reset()
	if err != nil {
		return nil, err
	}
	return o, nil
}

// send begins the sums of dense tensors that have not left yet, and returns what is left for the body.
func (r *replica) send(own []wire.Section) (body []wire.Section) {
	given := make(map[uint32]bool, len(own))
	for _, s := range own {
		given[s.Table] = true
		if !slices.Contains(r.order, s.Table) || r.early.ready[s.Table] {
			body = append(body, s)
		}
	}
	for _, id := range r.order[r.early.at:] {
		t := r.table(id)
		if !given[id] && !r.early.ready[id] {
			fill(t.sum, negativeZero())
			body = append(body, wire.Section{Table: id, Dim: int(t.Spec.Dim)})
		}
		r.depart(t)
	}
	r.peers.flush()
	slices.SortFunc(body, func(a, b wire.Section) int { return cmp.Compare(a.Table, b.Table) })
	var fresh []uint64
	for _, s := range slices.Backward(body) { // models make their tensors in the order in which they use them
		if t := r.table(s.Table); t.sum != nil && len(s.Keys) > 0 && !slices.Contains(r.order, s.Table) {
			fresh = append(fresh, uint64(len(fresh))<<32|uint64(s.Table))
		}
	}
	if len(fresh) > 0 {
		body = append(body, wire.Section{Table: orderTable, Keys: fresh})
	}
	return body
}

func negativeZero() float32 { return float32(math.Copysign(0, -1)) }

func fill(b []float32, v float32) {
	for i := range b {
		b[i] = v
	}
}

// exchangeHeads tells everybody everybody's head.
func (p *peers) exchangeHeads(ctx context.Context, h head) (*round, error) {
	size := p.world.Size()
	p.heads = room(p.heads, size*headSize)
	mine := make([]byte, headSize)
	h.encode(mine)
	if err := p.gather(ctx, mine, p.heads); err != nil {
		return nil, err
	}
	o := &round{heads: make([]head, size), bodies: make([][]wire.Section, size)}
	for rank := range o.heads {
		var err error
		if o.heads[rank], err = decodeHead(p.heads[rank*headSize:][:headSize]); err != nil {
			return nil, fmt.Errorf("head of rank %d: %w", rank, err)
		}
	}
	for rank := range o.heads {
		switch a, b := &o.heads[0], &o.heads[rank]; {
		case a.step != b.step:
			return nil, fmt.Errorf("rank 0 is at step %d, rank %d at step %d: give all workers the same data and options", a.step, rank, b.step)
		case a.schema != b.schema:
			return nil, fmt.Errorf("rank %d has other tables or options than rank 0 at step %d: give all workers the same model and options", rank, a.step)
		}
	}
	return o, nil
}

// exchangeBodies gives everybody everybody's body.
func (r *replica) exchangeBodies(ctx context.Context, o *round) error {
	p := r.peers
	longest := uint64(0)
	for _, h := range o.heads {
		longest = max(longest, h.body)
	}
	if longest == 0 {
		return nil
	}
	r.counters.pushedBytes.Add(o.heads[p.world.Rank()].body)
	r.counters.pushedRaw.Add(o.heads[p.world.Rank()].body)
	if p.transport() != "shm" && o.sparse() {
		return r.exchangeRows(ctx, o)
	}
	part := int(longest+7) &^ 7
	p.body = append(p.body, make([]byte, part-len(p.body))...)
	p.bodies = room(p.bodies, part*len(o.heads))
	err := p.gather(ctx, p.body, p.bodies)
	if err == nil {
		err = p.group.Barrier().Wait(ctx)
	}
	if err != nil {
		return err
	}
	var refusals []error
	r.reader.Reset()
	for rank := range o.heads {
		b := p.bodies[part*rank:][:o.heads[rank].body]
		if o.heads[rank].refused {
			refusals = append(refusals, &RefusedError{wire.NonFinite, fmt.Sprintf("rank %d: %s", rank, b)})
			continue
		}
		if o.bodies[rank], err = r.reader.Sections(b); err != nil {
			return bodyError(rank, err)
		}
	}
	return errors.Join(refusals...)
}

func bodyError(rank int, err error) error { return fmt.Errorf("body of rank %d: %w", rank, err) }

// sort takes what is no gradient out of bodies, and adds the sums.
func (r *replica) sort(o *round) error {
	absent := map[uint32]int{}
	known := len(r.order)
	for rank, body := range o.bodies {
		kept := body[:0]
		for _, s := range body {
			switch t := r.table(s.Table); {
			case s.Table == orderTable:
				r.follow(s.Keys)
			case t == nil:
				return fmt.Errorf("rank %d has a gradient of table %d, which does not exist", rank, s.Table)
			case len(s.Keys) == 0:
				absent[s.Table]++
			default:
				kept = append(kept, s)
			}
		}
		o.bodies[rank] = kept
	}
	if r.squeeze != nil {
		gradients, momenta := r.squeeze.summed()
		o.sums, o.momenta = append(o.sums, gradients...), momenta
	}
	for _, id := range r.order[:known] {
		if t := r.table(id); absent[id] < len(o.heads) {
			o.sums = append(o.sums, wire.Section{Table: id, Dim: int(t.Spec.Dim), Keys: t.keys, Values: t.sum})
		}
	}
	return nil
}

// follow adds new dense tensors to the order.
func (r *replica) follow(keys []uint64) {
	for _, k := range keys {
		id := uint32(k)
		if t := r.table(id); t != nil && t.sum != nil && !slices.Contains(r.order, id) {
			r.order = append(r.order, id)
		}
	}
}
