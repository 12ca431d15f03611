package worker

import (
	"slices"

	"hcclps/internal/vec"
)

// lay puts the sums of dense tensors one behind the other, in the order in which they leave, and where workers share memory into that: so buckets are reduced
// where they are, straight from the memory of all. It is called between steps, and moves what the last has added to the order.
func (r *replica) lay() {
	p := r.peers
	if p == nil || r.early.at > 0 || len(r.early.ready) > 0 {
		return
	}
	var fresh []*held
	total := 0
	for _, id := range r.order {
		if t := r.table(id); t.laid == nil && p.fusionOf(&t.Spec) == p.fusion {
			fresh = append(fresh, t)
			total += 4 * len(t.sum)
		}
	}
	if total == 0 {
		return
	}
	room, err := p.allocate(total)
	if err != nil {
		r.log.Debug("sums of gradients have no memory of the group", "bytes", total, "err", err)
		room = make([]byte, total)
	}
	for _, t := range fresh {
		t.laid = room[:4*len(t.sum)] // with room for the next behind it, by which fusion sees that it adjoins
		room = room[len(t.laid):]
		t.sum = vec.Floats(t.laid)
	}
}

// unlay takes sums out of memory that is about to go, when no step is on its way any more.
func (r *replica) unlay() {
	r.flights.Wait()
	for _, t := range r.tables {
		if t.laid != nil {
			t.sum, t.laid = slices.Clone(t.sum), nil
		}
	}
}

// bytes are the sum as fusion takes it.
func (t *held) bytes() []byte {
	if t.laid != nil {
		return t.laid
	}
	return vec.BytesOfFloats(t.sum)
}

// allocate is memory that lives until release.
func (p *peers) allocate(n int) ([]byte, error) {
	if p.memory == nil {
		return make([]byte, n), nil
	}
	b, err := p.group.Alloc(n)
	return b.Host(), err
}
