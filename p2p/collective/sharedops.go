package collective

// The operations on shared memory. Contributions are folded in the order of ranks, each element at one rank or at all alike, so that the bits are those of a
// mesh. A message of at most tiny bytes is shown whole, and everyone folds for itself; larger ones go in pieces, or, where they lie in shared memory
// already, are read in place. The team is all ranks that share the memory.

// sharedAllReduce leaves the reduction of every src in dst, which may be src. It divides averages.
// Cost: two copies and a reading of all; with dst and src in shared memory a reading of all and a writing of n bytes a rank.
func sharedAllReduce(t team, v vector, src, dst []byte) error {
	s, p := t.shared, t.size()
	if len(src)*(p-1) <= sharedTiny && len(src) <= tiny {
		return sharedTinyReduce(t, v, src, dst, NoRoot)
	}
	from, to := t.place(src), t.place(dst)
	if to != 0 {
		if from == 0 {
			if !s.said { // later others may have written their results there
				place(dst, src)
			}
			from = to
		}
		if ok, err := t.agree(from, to); err != nil {
			return err
		} else if ok {
			return zeroAllReduce(t, v, dst)
		}
	}
	part := func(b []byte, k, i, r int) []byte { return piece(piece(b, v.width, i, k), v.width, r, p) }
	k := pieces(len(src), sharedPiece)
	return t.run(flow{
		pieces: k, from: NoRoot,
		show: func(i int, slot []byte) { showOthers(slot, piece(src, v.width, i, k), v.width, s.me, p) },
		reduce: func(i int, slot []byte) {
			mine := part(src, k, i, s.me)
			out := slot[:len(mine)]
			t.foldSlots(v, out, mine, i, func(b []byte) []byte {
				return piece(b[:len(piece(src, v.width, i, k))], v.width, s.me, p)
			})
			v.finish(out, v.over)
			copy(part(dst, k, i, s.me), out)
		},
		take: func(i int) {
			for r := range p {
				if r != s.me {
					copy(part(dst, k, i, r), s.slot(s.stageB(), r, i))
				}
			}
		},
	})
}

// showOthers copies what other ranks reduce of a piece.
func showOthers(slot, b []byte, width, me, p int) {
	lo := len(b) / width * me / p * width
	hi := len(b) / width * (me + 1) / p * width
	copy(slot, b[:lo])
	copy(slot[hi:], b[hi:])
}

// foldSlots folds what all ranks show of piece i in stage A and what this rank has itself. cut finds the contribution in a slot.
func (t team) foldSlots(v vector, dst, mine []byte, i int, cut func(slot []byte) []byte) {
	s := t.shared
	for r := range s.parts {
		if s.parts[r] = mine; r != s.me {
			s.parts[r] = cut(s.slot(s.stageA(), r, i))
		}
	}
	v.fold(dst, s.parts)
}

// sharedTiny is the most bytes that a rank reads of all others in a single step.
const sharedTiny = 64 << 10

// sharedTinyReduce lets everyone fold what all show; with a root it alone.
func sharedTinyReduce(t team, v vector, src, dst []byte, root int) error {
	s := t.shared
	if err := t.announce(nonNil(src), [2]int{}); err != nil {
		return err
	}
	if root != NoRoot && root != s.me {
		return nil
	}
	if err := t.meetAll(); err != nil {
		return err
	}
	for r := range s.parts {
		if s.parts[r] = src; r != s.me {
			s.parts[r] = t.shown(r, len(src))
		}
	}
	v.fold(dst, s.parts)
	if root == NoRoot {
		v.finish(dst, v.over)
	}
	return nil
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// sharedBarrier ends when all ranks have called it.
func sharedBarrier(t team) error {
	if err := t.announce([]byte{}, [2]int{}); err != nil {
		return err
	}
	return t.meetAll()
}
