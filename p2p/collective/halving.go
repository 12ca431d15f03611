package collective

import "math/bits"

// halving is the place of a rank in recursive halving and doubling. Of p ranks q, the largest power of two, are active; each of the
// first p-q active ones stands for its right neighbour too, so that the parts of active rank i and its neighbour lie together.
type halving struct {
	team
	q, extra int
}

func newHalving(t team) halving {
	q := 1 << (bits.Len(uint(t.size())) - 1)
	return halving{t, q, t.size() - q}
}

// active says whether this rank is, and which one.
func (h halving) active() (int, bool) {
	if h.me < 2*h.extra {
		return h.me / 2, h.me%2 == 0
	}
	return h.me - h.extra, true
}

// member is the rank of active i.
func (h halving) member(i int) int { return i + min(i, h.extra) }

// spans says whether active i stands for its neighbour.
func (h halving) spans(i int) bool { return i < h.extra }

// halvingReduceScatter leaves part me of the reduction of every src in out, which may be that part of src. In each of log2 q steps a
// rank exchanges half of what it still has to do with another.
// Cost for p = 2^k: log2 p alpha + (p-1)/p n (beta + gamma); else the neighbours' n to begin with and n/p to end with.
func halvingReduceScatter(t team, v vector, src, out []byte, parts cut) error {
	h := newHalving(t)
	i, ok := h.active()
	if !ok {
		return h.standAside(v, src, out)
	}
	sum, err := h.reduce(v, i, src, parts)
	if err != nil {
		return err
	}
	mine := len(parts.part(src, t.me))
	if h.spans(i) {
		t.sendPieces(v, t.me+1, sum[mine:])
	}
	if err := t.flush(); err != nil { // out may be what is sent
		return err
	}
	copy(out, sum[:mine])
	return nil
}

// standAside gives the left neighbour what there is to reduce, and takes a result of out's length from it.
func (h halving) standAside(v vector, src, out []byte) error {
	h.sendPieces(v, h.me-1, src)
	if err := h.flush(); err != nil { // out may be what is sent
		return err
	}
	return h.wait(h.recvPieces(v, h.me-1, out)...)
}

// reduce returns the reduction of the parts that active i stands for, in scratch memory.
func (h halving) reduce(v vector, i int, src []byte, parts cut) ([]byte, error) {
	sum, base := src, 0 // what is reduced so far, and where in the vector it begins
	if h.spans(i) {
		sum = h.scratch.take(len(src))
		if err := h.foldPieces(v, h.recvPieces(v, h.me+1, sum), sum, src); err != nil {
			return nil, err
		}
	}
	for lo, half := 0, h.q/2; half > 0; half /= 2 {
		keep, give := lo, lo+half
		if i&half != 0 {
			keep, give = give, keep
		}
		partner := h.member(i ^ half)
		from, to := parts[h.member(give)], h.end(parts, give+half)
		h.sendPieces(v, partner, sum[from-base:to-base])
		from, to = parts[h.member(keep)], h.end(parts, keep+half)
		in := h.scratch.take(to - from)
		if err := h.foldPieces(v, h.recvPieces(v, partner, in), in, sum[from-base:to-base]); err != nil {
			return nil, err
		}
		sum, base, lo = in, from, keep
	}
	return sum, nil
}

// end is where the parts of the active ones before i end.
func (h halving) end(parts cut, i int) int {
	if i == h.q {
		return parts[len(parts)-1]
	}
	return parts[h.member(i)]
}

// double completes data, of which active i has the parts that it stands for. Cost for p = 2^k: log2 p alpha + (p-1)/p n beta.
func (h halving) double(v vector, i int, data []byte, parts cut) error {
	for have := 1; have < h.q; have *= 2 {
		mine, theirs := i&^(have-1), (i^have)&^(have-1)
		partner := h.member(i ^ have)
		came := h.recvPieces(v, partner, data[parts[h.member(theirs)]:h.end(parts, theirs+have)])
		h.sendPieces(v, partner, data[parts[h.member(mine)]:h.end(parts, mine+have)])
		if err := h.wait(came...); err != nil {
			return err
		}
	}
	if h.spans(i) {
		h.sendPieces(v, h.me+1, data)
	}
	return h.flush()
}

// halvingAllGather completes data, of which each rank has its part: the range that a rank has doubles in every step.
func halvingAllGather(t team, v vector, data []byte, parts cut) error {
	h := newHalving(t)
	i, ok := h.active()
	if !ok {
		return h.standAside(v, parts.part(data, h.me), data)
	}
	if h.spans(i) {
		if err := h.wait(h.recvPieces(v, h.me+1, parts.part(data, h.me+1))...); err != nil {
			return err
		}
	}
	return h.double(v, i, data, parts)
}

// halvingAllReduce leaves the reduction of every src in dst, which may be src.
// Cost for p = 2^k: 2 log2 p alpha + 2 (p-1)/p n beta + (p-1)/p n gamma; the neighbours' n twice more otherwise.
func halvingAllReduce(t team, v vector, src, dst []byte, parts cut) error {
	h := newHalving(t)
	i, ok := h.active()
	if !ok {
		return h.standAside(v, src, dst)
	}
	sum, err := h.reduce(v, i, src, parts)
	if err != nil {
		return err
	}
	if err := h.flush(); err != nil { // dst may be what is sent
		return err
	}
	v.finish(sum, v.over)
	copy(dst[parts[h.member(i)]:], sum)
	return h.double(v, i, dst, parts)
}

func (t team) sendPieces(v vector, peer int, b []byte) {
	count := pieces(len(b), v.piece)
	for k := range count {
		t.send(peer, piece(b, v.width, k, count))
	}
}

func (t team) recvPieces(v vector, peer int, b []byte) []*message {
	count := pieces(len(b), v.piece)
	ms := make([]*message, count)
	for k := range ms {
		ms[k] = t.recv(peer, piece(b, v.width, k, count))
	}
	return ms
}

// foldPieces folds src into dst piece by piece as dst arrives.
func (t team) foldPieces(v vector, came []*message, dst, src []byte) error {
	for k, m := range came {
		if err := t.wait(m); err != nil {
			return err
		}
		v.into(piece(dst, v.width, k, len(came)), piece(src, v.width, k, len(came)))
	}
	return nil
}
