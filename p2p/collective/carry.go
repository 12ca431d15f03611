package collective

// vector is how the elements of an operation are handled.
type vector struct {
	reducer      // nil where nothing is reduced
	width   int  // bytes of an element
	piece   int  // bytes of a message at most, a multiple of width
	ordered bool // fold in the order of ranks
	over    int  // ranks of which a result of allReduce is made; 1 where a sum stays one
}

// The functions below carry an operation out in a team by one algorithm. All but allReduce leave the division of an average to their callers.

// allReduce leaves the reduction of every src in dst, which may be src.
func allReduce(t team, a Algorithm, v vector, src, dst []byte) error {
	if a == SHM && t.size() > 1 {
		return sharedAllReduce(t, v, src, dst)
	}
	parts := even(len(src)/v.width, v.width, t.size())
	switch {
	case t.size() == 1:
		place(dst, src)
		v.finish(dst, v.over)
		return nil
	case a == Tree:
		if err := reduceTo(t, Tree, v, src, dst, 0); err != nil {
			return err
		}
		if t.me == 0 {
			v.finish(dst, v.over)
		}
		return treeBroadcast(t, dst, 0)
	case a == Mesh && small(len(src), t.size()):
		return meshAllReduce(t, v, src, dst)
	case a == Mesh:
		return meshReduceAll(t, v, src, dst, parts)
	case a == HalvingDoubling && !v.ordered:
		return halvingAllReduce(t, v, src, dst, parts)
	default:
		mine := parts.part(dst, t.me)
		if err := reduceScatter(t, a, v, src, mine, parts); err != nil {
			return err
		}
		v.finish(mine, v.over)
		return allGather(t, a, v, dst, parts)
	}
}

// reduceScatter leaves part me of the reduction of every src in out, which may be that part of src. src is not changed otherwise.
func reduceScatter(t team, a Algorithm, v vector, src, out []byte, parts cut) error {
	switch {
	case t.size() == 1:
		place(out, src)
		return nil
	case a == SHM:
		return sharedReduceScatter(t, v, src, out, parts)
	case a == Mesh || v.ordered:
		return meshReduceScatter(t, v, src, out, parts)
	case a == Bruck:
		return bruckReduceScatter(t, v, src, out, parts)
	case a == NHR:
		return nhrReduceScatter(t, v, src, out, parts)
	case a == HalvingDoubling:
		return halvingReduceScatter(t, v, src, out, parts)
	default:
		return ringReduceScatter(t, v, src, out, parts)
	}
}

// allGather completes data, of which each rank has its part.
func allGather(t team, a Algorithm, v vector, data []byte, parts cut) error {
	switch {
	case t.size() == 1:
		return nil
	case a == SHM:
		return sharedAllGather(t, v, data, parts)
	case a == Mesh:
		return meshAllGather(t, data, parts)
	case a == Bruck:
		return bruckAllGather(t, v, data, parts)
	case a == NHR:
		return nhrAllGather(t, v, data, parts)
	case a == HalvingDoubling:
		return halvingAllGather(t, v, data, parts)
	default:
		return ringAllGather(t, v, data, parts)
	}
}

// broadcast copies data of root to every rank.
func broadcast(t team, a Algorithm, v vector, data []byte, root int) error {
	switch {
	case t.size() == 1:
		return nil
	case a == SHM:
		return sharedBroadcast(t, v, data, root)
	case a == Tree || a == HalvingDoubling:
		return treeBroadcast(t, data, root)
	case a == Mesh:
		return meshBroadcast(t, v, data, root)
	default:
		return ringBroadcast(t, v, data, root)
	}
}

// reduceTo leaves the reduction of every src in out at root. out is scratch at the other ranks, and may be src.
func reduceTo(t team, a Algorithm, v vector, src, out []byte, root int) error {
	switch {
	case t.size() == 1:
		place(out, src)
		return nil
	case a == SHM:
		return sharedReduce(t, v, src, out, root)
	case a == Tree && v.ordered:
		return starReduce(t, v, src, out, root)
	case a == Tree:
		return treeReduce(t, v, src, out, root)
	default:
		parts := even(len(src)/v.width, v.width, t.size())
		mine := parts.part(out, t.me)
		if err := reduceScatter(t, a, v, src, mine, parts); err != nil {
			return err
		}
		return meshGather(t, mine, out, parts, root)
	}
}

// alltoAll sends part i of src to rank i, which puts it at the part of the sender.
func alltoAll(t team, a Algorithm, src, dst []byte, out, in cut) error {
	place(in.part(dst, t.me), out.part(src, t.me))
	if a == Mesh {
		return meshAlltoAll(t, src, dst, out, in)
	}
	return pairwiseAlltoAll(t, src, dst, out, in)
}
