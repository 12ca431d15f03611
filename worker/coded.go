package worker

import (
	"context"
	"errors"

	"hcclps/ps/wire"
)

// coded puts codes in the place of gradients where there is a codec: of dense tensors in a squeeze, of rows in their sections.
func (r *replica) coded(step uint64, own []wire.Section) ([]wire.Section, error) {
	q, err := r.squeezeOf()
	if err != nil {
		return nil, err
	}
	for i, s := range own { // before residuals change
		k, err := r.coderOf(s.Table)
		if k == nil && err == nil {
			continue
		}
		if err == nil {
			r.agreed(k)
			own[i].Values, err = r.coders.check(k, s.Keys, s.Values)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, t := range q.tensors {
		r.agreed(t.coder)
	}
	if own, err = q.pack(r.coders, step, own); err != nil {
		return nil, err
	}
	r.counters.pushedRaw.Add(uint64(q.raw))
	for i, s := range own {
		k, err := r.coderOf(s.Table)
		if k == nil && err == nil {
			continue
		}
		if err == nil {
			own[i], err = k.section(s, step, r.coders.seedOf(&k.spec, step, q.rank))
		}
		if err != nil {
			return nil, err
		}
		r.coders.look(k, step, s.Values)
		r.counters.pushedRaw.Add(uint64(wire.SectionSize(len(s.Keys), s.Dim) - wire.CodedSize(len(own[i].Code))))
	}
	return own, nil
}

// coderOf is that of a table, nil where its gradients travel as they are in the next step, or in halves.
func (r *replica) coderOf(table uint32) (*coder, error) {
	t := r.table(table)
	if t.sum != nil && !t.squeezes() {
		return nil, nil
	}
	return r.coders.of(&t.Spec)
}

// section is the code of rows, all of which go to all workers.
func (k *coder) section(s wire.Section, step, seed uint64) (wire.Section, error) {
	k.begin(step, 1)
	var err error
	if k.codes[0], err = k.rows.AppendFrame(k.codes[0][:0], s.Keys, s.Values, seed); err != nil {
		return s, k.failed(err)
	}
	return wire.Section{Table: s.Table, Dim: s.Dim, Rows: len(s.Keys), Code: k.codes[0]}, nil
}

// exchangeCodes sums what travels in codes, unless somebody has refused the step.
func (r *replica) exchangeCodes(ctx context.Context, o *round) error {
	for i := range o.heads {
		if o.heads[i].refused {
			return nil
		}
	}
	r.codec = o.heads[0].codec
	if len(r.squeeze.tensors) == 0 {
		return nil
	}
	n, err := r.squeeze.fill(r.coders, o, r.divisor(o))
	if err != nil {
		return errors.Join(err, r.peers.group.Close()) // the others wait for what will not come
	}
	r.counters.pushedBytes.Add(uint64(n))
	return r.squeeze.exchange(ctx, r.peers, r.coders, o)
}
