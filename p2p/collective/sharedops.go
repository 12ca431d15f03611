package collective

// The operations on shared memory. Contributions are folded in the order of ranks, each element at one rank or at all alike, so that the bits are those of a
// mesh. A message of at most tiny bytes is shown whole, and everyone folds for itself; larger ones go in pieces, or, where they lie in shared memory
// already, are read in place. The team is all ranks that share the memory.

// sharedAllReduce leaves the reduction of every src in dst, which may be src. It divides averages.
// Cost: two copies and a reading of all; with dst and src in shared memory a reading of all and a writing of n bytes a rank.
func sharedAllReduce(t team, v vector, src, dst []byte) error {
	s, p := t.shared, t.size()
	if t.atOnce(v, len(src)) {
		return t.tinily(src, func() {
			t.foldShown(v, dst, src, len(src), func(b []byte) []byte { return b })
			v.finish(dst, v.over)
		})
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
	k := pieces(len(src), v.room(1))
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
	lo, hi := span(len(b), width, me, p)
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
	t.fold(v, dst)
}

// foldBlock is how much is folded before it is written elsewhere.
const foldBlock = 32 << 10

// fold folds s.parts into dst, which may be this rank's.
func (t team) fold(v vector, dst []byte) {
	for lo := 0; lo < len(dst); lo += foldBlock {
		hi := min(lo+foldBlock, len(dst))
		t.foldSpan(v, dst[lo:hi], lo, hi)
	}
}

// foldSpan folds bytes lo to hi, at most foldBlock, of s.parts.
func (t team) foldSpan(v vector, dst []byte, lo, hi int) {
	s := t.shared
	for r, p := range s.parts {
		s.views[r] = p[lo:hi]
	}
	if s.me < 2 || !same(dst, s.views[s.me]) {
		v.fold(dst, s.views)
		return
	}
	if s.block == nil { // a fold of more than two goes fast only into memory of its own
		s.block = make([]byte, foldBlock)
	}
	v.fold(s.block[:hi-lo], s.views)
	copy(dst, s.block)
}

// room is the most bytes that each of p parts of a piece has.
func (v vector) room(p int) int {
	return max(1, min(v.piece, sharedPiece)/p/v.width) * v.width
}

// whole says whether a message of n bytes is shown whole. A call has one such message, so it must be the only thing that is shown in it.
func (t team) whole(v vector, n int) bool {
	return n <= min(v.piece, tiny) && t.call.Algorithm.Level0 == Auto
}

// atOnce says whether a message of n bytes is reduced in a single step, in which everyone reads those of all others.
func (t team) atOnce(v vector, n int) bool {
	return t.whole(v, n) && n*(t.size()-1) <= sharedTiny
}

// sharedTiny is the most bytes that a rank reads of all others in a single step.
const sharedTiny = 64 << 10

// tinily shows a message of at most tiny bytes, and does something when all have shown theirs.
func (t team) tinily(message []byte, do func()) error {
	if err := t.announce(nonNil(message), [2]int{}); err != nil {
		return err
	}
	if err := t.meetAll(); err != nil {
		return err
	}
	do()
	return nil
}

// foldShown folds what all ranks show in tiny messages of n bytes and what this rank has itself. cut finds the contribution in a message.
func (t team) foldShown(v vector, dst, mine []byte, n int, cut func(message []byte) []byte) {
	s := t.shared
	for r := range s.parts {
		if s.parts[r] = mine; r != s.me {
			s.parts[r] = cut(t.shown(r, n))
		}
	}
	t.fold(v, dst)
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// showParts puts piece i of k of the parts that are for others into a slot, each in a room of its own.
func (s *sharing) showParts(slot, src []byte, parts cut, width, i, k, room int) {
	for r := range len(parts) - 1 {
		if r != s.me {
			copy(slot[r*room:], piece(parts.part(src, r), width, i, k))
		}
	}
}

// sharedBarrier ends when all ranks have called it.
func sharedBarrier(t team) error {
	return t.tinily(nil, func() {})
}

// sharedReduceScatter leaves part me of the reduction of every src in out, which may be that part of src.
func sharedReduceScatter(t team, v vector, src, out []byte, parts cut) error {
	s, p := t.shared, t.size()
	if t.whole(v, len(src)) {
		return t.tinily(src, func() {
			t.foldShown(v, out, parts.part(src, s.me), len(src), func(b []byte) []byte { return parts.part(b, s.me) })
		})
	}
	if from := t.place(src); from != 0 {
		if ok, err := t.agree(from, 0); err != nil {
			return err
		} else if ok {
			return zeroReduceScatter(t, v, src, out, parts)
		}
	}
	room := v.room(p)
	k := pieces(parts.largest(), room)
	return t.run(flow{
		pieces: k, from: NoRoot,
		show: func(i int, slot []byte) { s.showParts(slot, src, parts, v.width, i, k, room) },
		take: func(i int) {
			dst := piece(out, v.width, i, k)
			t.foldSlots(v, dst, piece(parts.part(src, s.me), v.width, i, k), i, func(b []byte) []byte {
				return b[s.me*room : s.me*room+len(dst)]
			})
		},
	})
}

// sharedReduce leaves the reduction of every src in out at root, which may be src there; it is not used elsewhere.
func sharedReduce(t team, v vector, src, out []byte, root int) error {
	s, p := t.shared, t.size()
	if t.atOnce(v, len(src)) {
		return t.tinily(src, func() {
			if s.me == root {
				t.foldShown(v, out, src, len(src), func(b []byte) []byte { return b })
			}
		})
	}
	part := func(b []byte, k, i, r int) []byte { return piece(piece(b, v.width, i, k), v.width, r, p) }
	k := pieces(len(src), v.room(1))
	f := flow{
		pieces: k, from: NoRoot,
		show: func(i int, slot []byte) { showOthers(slot, piece(src, v.width, i, k), v.width, s.me, p) },
		reduce: func(i int, slot []byte) {
			mine := part(src, k, i, s.me)
			t.foldSlots(v, slot[:len(mine)], mine, i, func(b []byte) []byte {
				return piece(b[:len(piece(src, v.width, i, k))], v.width, s.me, p)
			})
		},
	}
	if s.me == root {
		f.take = func(i int) {
			for r := range p {
				copy(part(out, k, i, r), s.slot(s.stageB(), r, i))
			}
		}
	}
	return t.run(f)
}

// sharedAllGather completes data, of which each rank has its part.
func sharedAllGather(t team, v vector, data []byte, parts cut) error {
	s := t.shared
	mine := parts.part(data, s.me)
	if t.whole(v, parts.largest()) {
		return t.tinily(mine, func() {
			for r := range s.members {
				if r != s.me {
					dst := parts.part(data, r)
					copy(dst, t.shown(r, len(dst)))
				}
			}
		})
	}
	if from := t.place(mine); from != 0 {
		if ok, err := t.agree(from, 0); err != nil {
			return err
		} else if ok {
			return zeroAllGather(t, data, parts)
		}
	}
	k := pieces(parts.largest(), v.room(1))
	return t.run(flow{
		pieces: k, from: NoRoot,
		show: func(i int, slot []byte) { copy(slot, piece(mine, v.width, i, k)) },
		take: func(i int) {
			for r := range s.members {
				if r != s.me {
					copy(piece(parts.part(data, r), v.width, i, k), s.slot(s.stageA(), r, i))
				}
			}
		},
	})
}

// sharedBroadcast copies data of root to every rank.
func sharedBroadcast(t team, v vector, data []byte, root int) error {
	s := t.shared
	if t.whole(v, len(data)) {
		return t.tinily(data, func() {
			if s.me != root {
				copy(data, t.shown(root, len(data)))
			}
		})
	}
	if ok, err := t.offers(data, root); err != nil {
		return err
	} else if ok {
		return zeroBroadcast(t, data, root)
	}
	k := pieces(len(data), v.room(1))
	f := flow{pieces: k, from: root}
	if s.me == root {
		f.show = func(i int, slot []byte) { copy(slot, piece(data, v.width, i, k)) }
	} else {
		f.take = func(i int) { copy(piece(data, v.width, i, k), s.slot(s.stageA(), root, i)) }
	}
	return t.run(f)
}

// sharedAlltoAll sends part i of src to rank i, which puts it at the part of the sender.
func sharedAlltoAll(t team, v vector, src, dst []byte, parts cut) error {
	s, p := t.shared, t.size()
	if t.whole(v, len(src)) {
		return t.tinily(src, func() {
			for r := range p {
				from := src
				if r != s.me {
					from = t.shown(r, len(src))
				}
				copy(parts.part(dst, r), parts.part(from, s.me))
			}
		})
	}
	if from := t.place(src); from != 0 {
		if ok, err := t.agree(from, 0); err != nil {
			return err
		} else if ok {
			return zeroAlltoAll(t, src, dst, parts)
		}
	}
	room := v.room(p)
	k := pieces(parts.largest(), room)
	return t.run(flow{
		pieces: k, from: NoRoot,
		show: func(i int, slot []byte) { s.showParts(slot, src, parts, v.width, i, k, room) },
		take: func(i int) {
			for r := range p {
				from := piece(parts.part(src, s.me), v.width, i, k)
				if r != s.me {
					from = s.slot(s.stageA(), r, i)[s.me*room:]
				}
				copy(piece(parts.part(dst, r), v.width, i, k), from)
			}
		},
	})
}
