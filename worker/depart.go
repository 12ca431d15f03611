package worker

import (
	"cmp"
	"fmt"
	"slices"

	"hcclps/p2p"
	"hcclps/p2p/collective"
	"hcclps/ps/wire"
)

// departures are the dense gradients of a step that leave before the step is done: while the model is still at the rest of its backward pass. The order is
// that of replica.order on all ranks, so one that is given early waits for those before it.
type departures struct {
	at      int             // so many of the order have left
	ready   map[uint32]bool // taken from the model, by id
	given   map[uint32]int  // how often the model has given a tensor's gradient in this step
	often   map[uint32]bool // tensors whose gradient a model gives more than once a step: they leave when it is done
	buckets []*collective.Bucket
	fault   error                // the first that does not fit
	kept    map[uint32][]float32 // of hybrid: what was given, for the case that it has to be summed again
}

// reset gets ready for the next step.
func (d *departures) reset() {
	for id, n := range d.given {
		if n > 1 {
			if d.often == nil {
				d.often = map[uint32]bool{}
			}
			d.often[id] = true
		}
	}
	*d = departures{often: d.often, kept: d.kept}
}

// give takes a whole gradient of a dense tensor that a model is through with, and lets out what can leave. It reports whether it has taken it: what comes
// later is more of it, not the same again.
func (r *replica) give(id uint32, values []float32) bool {
	d := &r.early
	t := r.table(id)
	if t == nil || t.sum == nil || len(values) > len(t.sum) || d.often[id] || d.ready[id] || !slices.Contains(r.order, id) {
		return false
	}
	clear(t.sum[copy(t.sum, values):])
	if err := t.check(wire.Section{Table: id, Dim: int(t.Spec.Dim), Keys: t.keys, Values: t.sum}); err != nil && d.fault == nil {
		d.fault = err
	}
	if d.ready == nil {
		d.ready = map[uint32]bool{}
	}
	d.ready[id] = true
	if r.cfg.Mode == Hybrid {
		if d.kept == nil {
			d.kept = map[uint32][]float32{}
		}
		d.kept[id] = append(d.kept[id][:0], values...)
	}
	for d.at < len(r.order) && d.ready[r.order[d.at]] {
		r.depart(r.table(r.order[d.at]))
	}
	return true
}

// left are the gradients of this step that have left already, where they may have to leave again.
func (r *replica) left() []Gradient {
	var out []Gradient
	for id := range r.early.ready {
		if values, there := r.early.kept[id]; there {
			out = append(out, Gradient{Table: newTable(r.table(id).Spec), Values: values})
		}
	}
	slices.SortFunc(out, func(a, b Gradient) int { return cmp.Compare(a.Table.spec().ID, b.Table.spec().ID) })
	return out
}

// count notes that a model has given a tensor's gradient.
func (d *departures) count(id uint32) {
	if d.given == nil {
		d.given = map[uint32]int{}
	}
	d.given[id]++
}

// depart lets the next tensor of the order out.
func (r *replica) depart(t *held) {
	d := &r.early
	d.buckets = append(d.buckets, r.peers.fusionOf(&t.Spec).Add(p2p.Bytes(t.bytes())))
	raw := uint64(4 * len(t.sum))
	r.counters.pushedRaw.Add(raw)
	if halves(&t.Spec) != 0 {
		raw /= 2
	}
	r.counters.pushedBytes.Add(raw)
	d.at++
}

// leaves says where gradients may leave for before a step is done: not where they are still to be clipped or added to, or where the step before
// may be on its way.
func (r *replica) leaves(opt *TrainOptions) *replica {
	if r.peers == nil || r.delay > 0 || opt.Accumulate > 1 || opt.Clip != (Clip{}) {
		return nil
	}
	return r
}

// lag sets by how many steps parameters may lag.
func (c *Client) lag(delay int) error {
	switch {
	case delay < 0 || delay > 1:
		return fmt.Errorf("delay of %d steps: want 0 or 1", delay)
	case c.local == nil || c.servers != nil:
		if delay > 0 {
			return fmt.Errorf("delay of a step: %v has none; with servers ssp has", c.cfg.Mode)
		}
	case c.local.peers != nil: // a worker that is alone waits for nobody
		c.local.delay = uint64(delay)
	}
	return nil
}

// abandon drops what has left, when nobody waits for it any more.
func (r *replica) abandon() {
	r.peers.flush()
	for _, b := range r.early.buckets {
		<-b.Done() // the group is closed
	}
	r.early.reset()
}

// Ready says that the gradient of a dense tensor is whole in this batch, where a model sums it up with GradOf: where workers sum gradients
// themselves it leaves at once, while the model goes on. What is given later is added, at the cost of another message. A gradient
// given by Grad is ready by that.
func (s *Step) Ready(of Tensor) {
	o := of.of
	if s.out == nil || o == nil || !o.used || !dense(o.reading.table) {
		return
	}
	id := o.reading.table.spec().ID
	s.out.early.count(id)
	if s.usedOnce(id) && s.out.give(id, o.grad) {
		o.used = false // its next gradient begins anew
	}
}

// usedOnce says whether a table has one use in the batch so far.
func (s *Step) usedOnce(id uint32) bool {
	n := 0
	for _, o := range s.operands {
		if o.reading.table.spec().ID == id {
			n++
		}
	}
	return n == 1
}
