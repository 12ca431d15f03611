package collective

import "slices"

// around is where count parts lie that follow each other from first on, and on from the beginning after the last: in one span of bytes or two.
func (c cut) around(first, count int) (spans [2][2]int) {
	p := len(c) - 1
	first %= p
	last := first + count
	spans[0] = [2]int{c[first], c[min(last, p)]}
	if last > p {
		spans[1] = [2]int{0, c[last-p]}
	}
	return spans
}

// bruckSteps are how many parts a rank has before each step of bruckAllGather, and how many it gets in it.
func bruckSteps(p int) (steps [][2]int) {
	for have := 1; have < p; {
		more := min(have, p-have)
		steps = append(steps, [2]int{have, more})
		have += more
	}
	return steps
}

// bruckAllGather completes data, of which each rank has its part: in each step a rank gets as many parts again from the rank as far on as it has, for
// any number of ranks. (Bruck, Ho, Kipnis, Upfal and Weathersby, 1997; nothing is turned here, since a message may be in two pieces.)
// Cost: ceil(log2 p) alpha + (p-1)/p n beta.
func bruckAllGather(t team, v vector, data []byte, parts cut) error {
	for _, step := range bruckSteps(t.size()) {
		have, more := step[0], step[1]
		var came []*message
		for _, s := range parts.around(t.at(have), more) {
			came = append(came, t.recvPieces(v, t.at(have), data[s[0]:s[1]])...)
		}
		for _, s := range parts.around(t.me, more) {
			t.sendPieces(v, t.at(-have), data[s[0]:s[1]])
		}
		if err := t.wait(came...); err != nil {
			return err
		}
	}
	return t.flush()
}

// bruckReduceScatter leaves part me of the reduction of every src in out, which may be that part of src: the steps of bruckAllGather backwards, with sums.
// Cost: ceil(log2 p) alpha + (p-1)/p n (beta + gamma).
func bruckReduceScatter(t team, v vector, src, out []byte, parts cut) error {
	sum := t.scratch.take(len(src))
	copy(sum, src)
	steps := bruckSteps(t.size())
	in := t.scratch.take(len(src))
	for _, step := range slices.Backward(steps) {
		have, more := step[0], step[1]
		for _, s := range parts.around(t.at(have), more) {
			t.sendPieces(v, t.at(have), sum[s[0]:s[1]])
		}
		for _, s := range parts.around(t.me, more) {
			if err := t.foldPieces(v, t.recvPieces(v, t.at(-have), in[s[0]:s[1]]), sum[s[0]:s[1]], in[s[0]:s[1]]); err != nil {
				return err
			}
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	copy(out, parts.part(sum, t.me))
	return nil
}
