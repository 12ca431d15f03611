package collective

import "slices"

// Bounds of the segments of apartAllReduce, of which a slow link carries the first and the last in one direction only.
const (
	segmentPieces = 2
	maxSegments   = 32
)

// apartAllReduce leaves the reduction of every src in dst, which may be src, as meshReduceScatter and meshAllGather do with parts for the owners alone:
// the others, whose links are slow, send every byte once and get every byte once. The vector is cut into segments, so that they get one while they
// send the next. Contributions are folded in ascending order of the ranks of the Comm.
// Cost, with B for a slow link: alpha + (1 + 1/k) n B with k segments; a flat algorithm takes 2 (p-1)/p n B.
func apartAllReduce(t team, v vector, apart []int, src, dst []byte) error {
	a := newApart(t, v, apart, src, dst)
	for j := range a.count + 1 {
		if j < a.count {
			a.contribute(j)
		}
		if j == 0 {
			continue
		}
		if err := a.complete(j - 1); err != nil {
			return err
		}
	}
	return t.flush()
}

// apartness is an apartAllReduce under way at one rank.
type apartness struct {
	team
	v        vector
	owners   []int // members that own parts, ascending
	seat     int   // this rank's place among them, negative if it is apart
	src, dst []byte
	count    int // segments

	sent [2][]*message // own contributions to a segment, by place of the owner; of two segments in turn
	came [2][]*message // contributions of others to this rank's part, by member
	bufs [2][][]byte   // and where they are
}

func newApart(t team, v vector, apart []int, src, dst []byte) *apartness {
	a := &apartness{team: t, v: v, src: src, dst: dst, seat: -1, count: min(max(len(src)/(segmentPieces*v.piece), 1), maxSegments)}
	for m := range t.size() {
		if slices.Contains(apart, t.ranks[m]) {
			continue
		}
		if m == t.me {
			a.seat = len(a.owners)
		}
		a.owners = append(a.owners, m)
	}
	room := len(src)/a.count/len(a.owners) + 2*v.width
	for i := range 2 {
		a.sent[i], a.came[i], a.bufs[i] = make([]*message, len(a.owners)), make([]*message, t.size()), make([][]byte, t.size())
		for m := range t.size() {
			if a.seat >= 0 && m != t.me {
				a.bufs[i][m] = t.scratch.take(room)
			}
		}
	}
	return a
}

// part is that of an owner in a segment of b.
func (a *apartness) part(b []byte, segment, owner int) []byte {
	return piece(piece(b, a.v.width, segment, a.count), a.v.width, owner, len(a.owners))
}

// contribute sends this rank's share of a segment to its owners, and lets those of others come.
func (a *apartness) contribute(segment int) {
	if a.seat >= 0 {
		n := len(a.part(a.dst, segment, a.seat))
		for d := 1; d < a.size(); d++ {
			m := a.at(-d)
			a.came[segment%2][m] = a.recv(m, a.bufs[segment%2][m][:n])
		}
	}
	for i := range a.owners { // each begins with another one
		o := (a.seat + 1 + i) % len(a.owners)
		if o != a.seat {
			a.sent[segment%2][o] = a.send(a.owners[o], a.part(a.src, segment, o))
		}
	}
}

// complete folds this rank's part of a segment and sends it to all, and lets those of others come.
func (a *apartness) complete(segment int) error {
	if a.seat >= 0 {
		if err := a.fold(segment); err != nil {
			return err
		}
		for d := 1; d < a.size(); d++ {
			a.send(a.at(d), a.part(a.dst, segment, a.seat))
		}
	}
	for o, owner := range a.owners {
		if o == a.seat {
			continue
		}
		if err := a.wait(a.sent[segment%2][o]); err != nil { // it may be what is written now
			return err
		}
		a.recv(owner, a.part(a.dst, segment, o))
	}
	return nil
}

// fold reduces this rank's part of a segment.
func (a *apartness) fold(segment int) error {
	dst := a.part(a.dst, segment, a.seat)
	contributions := make([][]byte, a.size())
	for at, m := range a.ascending() {
		if m == a.me {
			contributions[at] = a.part(a.src, segment, a.seat)
			continue
		}
		if err := a.wait(a.came[segment%2][m]); err != nil {
			return err
		}
		contributions[at] = a.bufs[segment%2][m][:len(dst)]
	}
	a.v.fold(dst, contributions)
	a.v.finish(dst, a.v.over)
	return nil
}
