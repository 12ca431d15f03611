package worker

import (
	"fmt"
	"slices"

	"hcclps/internal/vec"
	"hcclps/ps/optim"
	"hcclps/ps/update"
	"hcclps/ps/wire"
)

// A dense tensor that learns by 1-bit Adam (package optim) has whole gradients, summed by AllReduce, in the steps of
// its warm-up. After it workers send codes of momenta (Tang et al. 2021, algorithm 1): each makes of its gradient its
// part of the momentum, in the share that its rows have in those of all, and encodes that and what is left of its code
// before; who owns a run adds the parts, and sends back the code of the sum and of what is left of that; what it
// decodes to is the momentum of the step, the same in all workers. Of a worker that has no gradient in a step the owner
// adds the part itself, since it knows the momentum before; where nobody has one, the tensor rests.
//
// Parts are means over the rows of all workers, so that what is left of a step is as much in the next, however many
// rows that has. How many there are is known when the heads are there: momenta are made then, and not with the codes of
// gradients. A worker that is alone takes the momentum as it is.

// oneBitCodec is how momenta travel unless a codec is named.
const oneBitCodec = "onebit"

// momentumCodec gives a tensor that learns by 1-bit Adam its codec: what is chosen by the size of gradients is none for it. said is what was asked for.
func momentumCodec(w *wire.Table, said string) error {
	if w.Optimizer != optim.OneBitAdam || w.Shape == nil || w.Compress != "" && w.Compress != update.Auto {
		return nil
	}
	if w.Compress == "" && said != "" {
		return fmt.Errorf("optimizer %s sends momenta in codes, and compression %s (--compress) wants none: name a codec or leave it away, which is %s; or take optimizer adam (--optimizer)", w.Optimizer, said, oneBitCodec)
	}
	w.Compress = oneBitCodec
	return nil
}

// shareOf is a rank's share in the rows of all workers.
func (o *round) shareOf(rank int) float64 {
	if rows := o.rows(); rows > 0 {
		return float64(o.heads[rank].rows) / float64(rows)
	}
	return 1 / float64(len(o.heads))
}

// codeMomentum makes the codes of this worker's part of a momentum, if the tensor wants one, and it has a gradient.
func (q *squeeze) codeMomentum(c *coders, t *squeezed, o *round, divisor uint64) error {
	if !t.momentum || !t.gives {
		return nil
	}
	if divisor == 0 {
		t.gives = false // a step without rows
		return nil
	}
	s := wire.Section{Table: t.spec.ID, Dim: int(t.spec.Dim), Keys: t.held.keys, Values: t.gradient}
	t.held.Momentum(s, o.shareOf(q.rank), 1/float64(divisor))
	return q.code(c, t, o.heads[0].step, t.gradient)
}

// addAbsent adds the parts of the momentum of those who have no gradient of a tensor to the sum of this worker's run.
func (t *squeezed) addAbsent(rows []int32, o *round) {
	share := 0.0
	for rank, gave := range t.gave {
		if !gave {
			share += o.shareOf(rank)
		}
	}
	if share == 0 {
		return
	}
	dim := int(t.spec.Dim)
	part := make([]float32, len(rows)*dim)
	keys := t.held.keys[rows[0]:][:len(rows)]
	t.held.Momentum(wire.Section{Table: t.spec.ID, Dim: dim, Keys: keys, Values: part}, share, 0)
	vec.Add(t.held.sum[int(rows[0])*dim:][:len(part)], part)
}

// momenta puts momenta in the place of gradients of tables that want them: those that workers have summed, or those of a worker that is alone.
func (r *replica) momenta(o *round, gradients []wire.Section) ([]wire.Section, error) {
	for _, s := range gradients {
		if r.table(s.Table).WantsMomentum() {
			r.table(s.Table).Momentum(s, 1, 1)
		}
	}
	all := slices.Concat(gradients, o.momenta)
	for _, s := range all {
		if t := r.table(s.Table); t.WantsMomentum() {
			if err := refused(t.Takes(s, vec.NonFinite(s.Values))); err != nil {
				return nil, fmt.Errorf("momentum: %w", err)
			}
		}
	}
	return all, nil
}

// settleOrder takes the tensors that are done with their warm-up out of those that AllReduce sums.
func (r *replica) settleOrder() {
	r.order = slices.DeleteFunc(r.order, func(id uint32) bool {
		t := r.table(id)
		if !t.squeezes() {
			return false
		}
		r.log.Info("1-bit adam: the warm-up is over, momenta travel in codes", "table", t.Spec.Name, "steps", t.Opt.Steps, "codec", t.Spec.Compress)
		return true
	})
}
