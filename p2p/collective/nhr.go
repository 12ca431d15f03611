package collective

// NHR is HCCL's nonuniform hierarchical ring: as few steps as Bruck's, for any number of ranks, but the more parts a rank sends at once the nearer is
// their receiver. Between hosts whose ranks follow each other most bytes stay within them. What a rank sends in a step does not lie in one place.

// nhrAllGather completes data, of which each rank has its part: from the rank that is a stride behind come the parts of those an odd number of strides
// behind; the strides halve.
// Cost: ceil(log2 p) alpha + (p-1)/p n beta.
func nhrAllGather(t team, v vector, data []byte, parts cut) error {
	p := t.size()
	for stride := int(power(p)); stride > 0; stride /= 2 {
		var came []*message
		for far := stride; far < p; far += 2 * stride {
			came = append(came, t.recvPieces(v, t.at(-stride), parts.part(data, t.at(-far)))...)
		}
		for far := stride; far < p; far += 2 * stride {
			t.sendPieces(v, t.at(stride), parts.part(data, t.at(stride-far)))
		}
		if err := t.wait(came...); err != nil {
			return err
		}
	}
	return t.flush()
}

// nhrReduceScatter leaves part me of the reduction of every src in out, which may be that part of src: the steps of nhrAllGather backwards, with sums.
// Cost: ceil(log2 p) alpha + (p-1)/p n (beta + gamma).
func nhrReduceScatter(t team, v vector, src, out []byte, parts cut) error {
	p := t.size()
	sum, in := t.scratch.take(len(src)), t.scratch.take(len(src))
	copy(sum, src)
	for stride := 1; stride < p; stride *= 2 {
		var came [][]*message
		for far := stride; far < p; far += 2 * stride {
			came = append(came, t.recvPieces(v, t.at(stride), parts.part(in, t.at(stride-far))))
			t.sendPieces(v, t.at(-stride), parts.part(sum, t.at(-far)))
		}
		for i, ms := range came {
			part := t.at(-2 * i * stride)
			if err := t.foldPieces(v, ms, parts.part(sum, part), parts.part(in, part)); err != nil {
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
