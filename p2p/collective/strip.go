package collective

import (
	"slices"

	"hcclps/p2p"
)

// strip is tensors as one vector, though they lie apart.
type strip struct {
	tensors [][]byte
	ends    []int // where each ends, counted over all
}

func (s *strip) add(t []byte) {
	s.tensors = append(s.tensors, t)
	s.ends = append(s.ends, s.len()+len(t))
}

func (s *strip) len() int {
	if len(s.ends) == 0 {
		return 0
	}
	return s.ends[len(s.ends)-1]
}

// gather copies what is at some place of the vector into b.
func (s *strip) gather(b []byte, at int) {
	for i, from := s.find(at); len(b) > 0; i, from = i+1, 0 {
		b = b[copy(b, s.tensors[i][from:]):]
	}
}

// scatter copies b to some place of the vector.
func (s *strip) scatter(b []byte, at int) {
	for i, from := s.find(at); len(b) > 0; i, from = i+1, 0 {
		b = b[copy(s.tensors[i][from:], b):]
	}
}

// find is the tensor in which a place is, and where in that.
func (s *strip) find(at int) (tensor, from int) {
	tensor, _ = slices.BinarySearch(s.ends, at+1)
	if tensor > 0 {
		at -= s.ends[tensor-1]
	}
	return tensor, at
}

// strips says whether tensors that lie apart are reduced in place: where all ranks share memory, into which pieces are copied anyway.
func (g *Group) strips(t p2p.DType, r Reduction) bool {
	a := g.check(AllReduce, t).reduction(r)
	return g.all.shared != nil && !g.natively(a.call) && g.choose.choose(AllReduce, 0) == Choice{Level1: SHM}
}

// allReduceStrip is allReduce in place of a strip, where strips says so. To other ranks it looks like that of one tensor.
func (g *Group) allReduceStrip(s *strip, t p2p.DType, r Reduction, tag uint32, after func(error)) *Work {
	a := g.check(AllReduce, t).reduction(r)
	n := s.len()
	a.call.Count = n / t.Size()
	var flat []byte // made once: the operation may be taken up again, see errLater
	return g.postTagged(a.call, n, tag, func(t team, v vector) error {
		if !t.atOnce(v, n) {
			return sharedAllReduceStrip(t, v, s)
		}
		if flat == nil {
			flat = t.scratch.take(n)
			s.gather(flat, 0)
		}
		err := sharedAllReduce(t, v, flat, flat)
		if err == nil {
			s.scatter(flat, 0)
		}
		return err
	}, after)
}

// sharedAllReduceStrip is the larger part of sharedAllReduce, in the same pieces.
func sharedAllReduceStrip(t team, v vector, vec *strip) error {
	s, p, n := t.shared, t.size(), vec.len()
	k := pieces(n, v.room(1))
	part := func(i, r int) (lo, a, b int) { // of the piece, and of the part of a rank in it
		lo, hi := span(n, v.width, i, k)
		a, b = span(hi-lo, v.width, r, p)
		return lo, a, b
	}
	return t.run(flow{
		pieces: k, from: NoRoot,
		show: func(i int, slot []byte) { // what others reduce
			lo, hi := span(n, v.width, i, k)
			_, a, b := part(i, s.me)
			vec.gather(slot[:a], lo)
			vec.gather(slot[b:hi-lo], lo+b)
		},
		reduce: func(i int, slot []byte) {
			lo, a, b := part(i, s.me)
			out := slot[:b-a]
			vec.gather(out, lo+a)
			t.foldSlots(v, out, out, i, func(theirs []byte) []byte { return theirs[a:b] })
			v.finish(out, v.over)
			vec.scatter(out, lo+a)
		},
		take: func(i int) {
			for r := range p {
				if r != s.me {
					lo, a, b := part(i, r)
					vec.scatter(s.slot(s.stageB(), r, i)[:b-a], lo+a)
				}
			}
		},
	})
}
