package worker

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"hcclps/compress"
	"hcclps/internal/vec"
	"hcclps/p2p"
	"hcclps/ps/optim"
	"hcclps/ps/update"
	"hcclps/ps/wire"
)

// squeeze sums dense tensors whose codecs keep a residual, with codes in both directions (Tang et al. 2019,
// DoubleSqueeze). The blocks of all such tensors, one behind the other, are cut into as many runs as there are workers,
// and each worker owns one: all send it the codes of their gradients of that, it adds them in the order of ranks, and
// gives back the code of the sum to all, itself included. So all have the same bits. What codes do not hold stays where
// they are made, for the next step. Of tensors that learn by 1-bit Adam it is momenta that are summed so: see
// momentum.go.
//
// A parcel is u64 bytes, and as many bytes of sections. Parcels of an exchange are as long as the longest may be, which all workers know.
type squeeze struct {
	rank, size int
	tensors    []*squeezed   // ascending id
	out, in    []byte        // of the way there
	sums, all  []byte        // of the way back
	raw        int           // bytes that this worker's codes of the step stand for
	link       compress.Link // as the last exchange has found it
	reader     update.Reducer
}

// squeezed is a tensor of a squeeze.
type squeezed struct {
	*coder
	held  *held
	back  *compress.Feedback // of the sums of what this worker owns
	first []int32            // block where the run of each owner begins, and behind the last
	given int                // workers that have given a gradient in this step
	gives bool               // this one does

	momentum bool      // of which codes are, not of gradients
	gradient []float32 // this worker's, of which a part of the momentum is to be made
	gave     []bool    // by rank: who has given one
}

const (
	parcelHead = 8
	// leastMeasured is the parcel from which on the time of an exchange says how fast the link is.
	leastMeasured = 16 << 10
)

// squeezes says whether a table takes part in the next step: dense ones, with a codec that keeps enough back to need a
// residual. Halves travel as a type of their own: see fusionOf.
func (t *held) squeezes() bool {
	if t.Spec.Optimizer == optim.OneBitAdam {
		return t.WantsMomentum()
	}
	return t.sum != nil && t.Spec.Compress != "" && halves(&t.Spec) == 0
}

// halves is the type as which a tensor's elements travel in sums, 0: as they are, or coded. 1-bit Adam takes whole gradients first, and codes of momenta then.
func halves(t *wire.Table) p2p.DType {
	if t.Optimizer == optim.OneBitAdam {
		return 0
	}
	switch t.Compress {
	case compress.FP16.String():
		return p2p.Float16
	case compress.BF16.String():
		return p2p.BFloat16
	}
	return 0
}

// squeezeOf gets ready for the tensors and workers there are now.
func (r *replica) squeezeOf() (*squeeze, error) {
	rank, size := r.rank(), r.peers.world.Size()
	n := 0
	for _, t := range r.tables {
		if t.squeezes() {
			n++
		}
	}
	if q := r.squeeze; q != nil && q.rank == rank && q.size == size && len(q.tensors) == n && (n == 0 || q.tensors[n-1].held == r.table(q.tensors[n-1].held.Spec.ID)) {
		return q, nil
	}
	q := &squeeze{rank: rank, size: size}
	total := 0
	for _, t := range r.tables {
		if !t.squeezes() {
			continue
		}
		k, err := r.coders.of(&t.Spec)
		if err != nil {
			return nil, err
		}
		back, err := r.coders.backOf(k)
		if err != nil {
			return nil, err
		}
		q.tensors = append(q.tensors, &squeezed{coder: k, held: t, back: back, momentum: t.WantsMomentum(), gave: make([]bool, size)})
		total += len(t.keys)
	}
	before := 0
	for _, t := range q.tensors {
		blocks := len(t.held.keys)
		for owner := range size + 1 {
			t.first = append(t.first, int32(min(max(owner*total/size-before, 0), blocks)))
		}
		before += blocks
		t.keepOwned(rank)
	}
	r.squeeze = q
	return q, nil
}

// keepOwned moves what is left over of sums that another worker owns now to this worker's own gradients.
func (t *squeezed) keepOwned(rank int) {
	dim := int(t.spec.Dim)
	own, all := t.dense.Residual(), t.back.Residual()
	from, to := min(int(t.first[rank])*dim, len(all)), min(int(t.first[rank+1])*dim, len(all))
	for _, run := range [][2]int{{0, from}, {to, len(all)}} {
		vec.Add(own[run[0]:run[1]], all[run[0]:run[1]])
		clear(all[run[0]:run[1]])
	}
}

// run is the blocks of a tensor that a worker owns.
func (t *squeezed) run(owner int) []int32 {
	rows := make([]int32, t.first[owner+1]-t.first[owner])
	for i := range rows {
		rows[i] = t.first[owner] + int32(i)
	}
	return rows
}

// pack takes the tensors of a squeeze out of a worker's gradients, and makes their codes, but those of momenta, which fill makes.
func (q *squeeze) pack(c *coders, step uint64, own []wire.Section) (rest []wire.Section, err error) {
	q.raw = 0
	for _, t := range q.tensors {
		t.begin(step, q.size)
		i := slices.IndexFunc(own, func(s wire.Section) bool { return s.Table == t.spec.ID })
		if t.gives = i >= 0; !t.gives {
			continue
		}
		t.gradient = own[i].Values[:elements(&t.spec)]
		own = slices.Delete(own, i, i+1)
		q.raw += 4 * len(t.gradient)
		if t.momentum {
			continue
		}
		if err := q.code(c, t, step, t.gradient); err != nil {
			return nil, err
		}
	}
	return own, nil
}

// code makes the codes of what this worker gives of a tensor.
func (q *squeeze) code(c *coders, t *squeezed, step uint64, values []float32) error {
	for owner := range q.size {
		rows := t.run(owner)
		if len(rows) == 0 {
			continue
		}
		if err := t.encode(owner, nil, values, rows, c.seedOf(&t.spec, step, q.rank)); err != nil {
			return err
		}
	}
	c.look(t.coder, step, values)
	return nil
}

// fill makes the parcels of a step, whose gradients are divided by the divisor, and says how many bytes of codes are in them.
func (q *squeeze) fill(c *coders, o *round, divisor uint64) (bytes int, err error) {
	parcels, longest := make([][]byte, q.size), 0
	for _, t := range q.tensors {
		if err := q.codeMomentum(c, t, o, divisor); err != nil {
			return 0, err
		}
	}
	for owner := range parcels {
		most := parcelHead
		for _, t := range q.tensors {
			rows := int(t.first[owner+1] - t.first[owner])
			if rows == 0 {
				continue
			}
			n, err := compress.RowsLen(t.codec, rows, int(t.spec.Dim))
			if err != nil {
				return 0, err
			}
			most += wire.CodedSize(n)
			if t.gives {
				parcels[owner] = wire.AppendSection(parcels[owner], wire.Section{Table: t.spec.ID, Dim: int(t.spec.Dim), Rows: rows, Code: t.codes[owner]})
			}
		}
		longest = max(longest, most)
		bytes += len(parcels[owner])
	}
	q.out = room(q.out, longest*q.size)
	for owner, p := range parcels {
		fillParcel(q.out[owner*longest:][:longest], p)
	}
	return bytes, nil
}

// fillParcel writes a parcel.
func fillParcel(b, body []byte) {
	binary.LittleEndian.PutUint64(b, uint64(len(body)))
	clear(b[parcelHead+copy(b[parcelHead:], body):])
}

// open reads a parcel. What it returns is good until the next Reset of the reader.
func (q *squeeze) open(b []byte) ([]wire.Section, error) {
	n := binary.LittleEndian.Uint64(b)
	if n > uint64(len(b)-parcelHead) {
		return nil, fmt.Errorf("a parcel of %d bytes says it has %d", len(b), n)
	}
	return q.reader.Sections(b[parcelHead:][:n])
}

// exchange is the way there and back. Then the sums are in the tables' sum, of those tensors of which somebody has given a gradient.
func (q *squeeze) exchange(ctx context.Context, p *peers, c *coders, o *round) error {
	began := time.Now()
	part := len(q.out) / q.size
	q.in = room(q.in, len(q.out))
	if err := p.group.AlltoAll(p2p.Bytes(q.out), p2p.Bytes(q.in), p2p.Uint8).Wait(ctx); err != nil {
		return err
	}
	sums, err := q.add(c, o)
	if err != nil {
		return err
	}
	q.sums, q.all = room(q.sums, part), room(q.all, part*q.size)
	fillParcel(q.sums, sums)
	if err := p.gather(ctx, q.sums, q.all); err != nil {
		return err
	}
	if took := time.Since(began); took > 0 && part >= leastMeasured {
		q.link.Bandwidth = float64(2*part*(q.size-1)) / took.Seconds()
	}
	q.reader.Reset()
	for owner := range q.size {
		sections, err := q.open(q.all[owner*part:][:part])
		if err != nil {
			return fmt.Errorf("sums of rank %d: %w", owner, err)
		}
		for _, s := range sections {
			t := q.tensor(s.Table)
			if err := t.accept(s, owner); err != nil {
				return fmt.Errorf("sums of rank %d: %w", owner, err)
			}
			t.given++
			copy(t.held.sum[int(s.Keys[0])*s.Dim:], s.Values)
		}
	}
	return nil
}

// add adds what all have sent of this worker's blocks, in the order of ranks, and makes the code of the sums.
func (q *squeeze) add(c *coders, o *round) ([]byte, error) {
	part := len(q.in) / q.size
	q.reader.Reset()
	for _, t := range q.tensors {
		t.given = 0
		clear(t.gave)
	}
	for rank := range q.size {
		sections, err := q.open(q.in[rank*part:][:part])
		if err != nil {
			return nil, fmt.Errorf("gradients of rank %d: %w", rank, err)
		}
		for _, s := range sections {
			t := q.tensor(s.Table)
			if err := t.accept(s, q.rank); err != nil {
				return nil, fmt.Errorf("gradients of rank %d: %w", rank, err)
			}
			sum := t.held.sum[int(s.Keys[0])*s.Dim:][:len(s.Values)]
			t.gave[rank] = true
			if t.given++; t.given == 1 {
				copy(sum, s.Values)
			} else {
				vec.Add(sum, s.Values)
			}
		}
	}
	var body []byte
	for _, t := range q.tensors {
		if t.given == 0 {
			continue
		}
		t.given = 0
		rows := t.run(q.rank)
		if t.momentum {
			t.addAbsent(rows, o)
		}
		t.back.Switch(t.codec)
		code, err := t.back.AppendRows(nil, t.held.sum[:elements(&t.spec)], int(t.spec.Dim), rows, c.seedOf(&t.spec, o.heads[0].step, q.rank))
		if err != nil {
			return nil, t.failed(err)
		}
		body = wire.AppendSection(body, wire.Section{Table: t.spec.ID, Dim: int(t.spec.Dim), Rows: len(rows), Code: code})
	}
	return body, nil
}

// tensor finds a tensor, nil: there is none.
func (q *squeeze) tensor(id uint32) *squeezed {
	i := slices.IndexFunc(q.tensors, func(t *squeezed) bool { return t.spec.ID == id })
	if i < 0 {
		return nil
	}
	return q.tensors[i]
}

// accept wants a section to be what an owner has of a tensor.
func (t *squeezed) accept(s wire.Section, owner int) error {
	if t == nil {
		return fmt.Errorf("table %d is none that is summed in codes", s.Table)
	}
	from, to := t.first[owner], t.first[owner+1]
	if n := len(s.Keys); n == 0 || s.Dim != int(t.spec.Dim) || s.Keys[0] != uint64(from) || s.Keys[n-1] != uint64(to)-1 || n != int(to-from) {
		return fmt.Errorf("table %q: %d blocks of %d values, want blocks %d to %d of %d", t.spec.Name, n, s.Dim, from, to, t.spec.Dim)
	}
	return nil
}

// summed are the sums, as gradients, and those that are momenta.
func (q *squeeze) summed() (gradients, momenta []wire.Section) {
	for _, t := range q.tensors {
		if t.given == 0 {
			continue
		}
		s := wire.Section{Table: t.spec.ID, Dim: int(t.spec.Dim), Keys: t.held.keys, Values: t.held.sum}
		if t.momentum {
			momenta = append(momenta, s)
		} else {
			gradients = append(gradients, s)
		}
	}
	return gradients, momenta
}
