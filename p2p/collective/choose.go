package collective

import (
	"math"
	"slices"
)

// chooser decides by what algorithms operations are done. It is a pure function of its fields, which all ranks have alike.
type chooser struct {
	pinned  Algorithms
	inside  Link    // between ranks of one host
	across  Link    // between hosts
	levels  *levels // nil: one level
	ranks   int
	ordered bool

	shared   bool // the ranks of a host share memory
	together bool // all ranks do
	apart    bool // some ranks are behind slow links
}

// sharable says whether an operation can be done in shared memory.
func sharable(op Op) bool {
	switch op {
	case AllReduce, ReduceScatter, AllGather, Broadcast, Reduce, AlltoAll, Barrier:
		return true
	default:
		return false
	}
}

// candidates are the algorithms that an operation can be done by between the ranks of a level.
func (c chooser) candidates(op Op, shared bool) []Algorithm {
	if shared && sharable(op) {
		return []Algorithm{SHM}
	}
	return slices.DeleteFunc(supports(op), func(a Algorithm) bool { return a == SHM || a == Natively })
}

// choose returns the pinned choice, or the one with the least predicted time; the first of those that are equal.
func (c chooser) choose(op Op, n int) Choice {
	pinned := c.pinned[op]
	if pinned.Level1 == Natively { // what the backend cannot do is left to the model
		pinned = Choice{}
	}
	if pinned.Level1 != Auto && (c.levels == nil || pinned.Level0 == Auto) {
		return Choice{Level1: pinned.Level1}
	}
	if pinned.Level0 != Auto {
		return pinned
	}
	if op == AlltoAllV { // no rank knows all counts, so none may choose by them
		return Choice{Level1: Pairwise}
	}
	if op == SparseReduce { // chosen when all counts are known
		return Choice{}
	}
	if c.together && sharable(op) { // never slower than through a Comm
		return Choice{Level1: SHM}
	}
	if c.apart && op == AllReduce && !small(n, c.ranks) {
		return Choice{Level1: Mesh}
	}
	best, least := Choice{}, math.Inf(1)
	for _, a := range c.candidates(op, false) {
		choice := Choice{Level1: a}
		if s := c.predict(op, n, choice); s < least || best == (Choice{}) {
			best, least = choice, s
		}
	}
	if c.levels == nil || !layered(op) {
		return best
	}
	for _, level0 := range c.candidates(op, c.shared) {
		for _, level1 := range c.candidates(op, false) {
			choice := Choice{level0, level1}
			if s := c.predict(op, n, choice); s < least {
				best, least = choice, s
			}
		}
	}
	return best
}

// messages is the chooser for an operation that goes through a Comm even where memory is shared.
func (c chooser) messages() chooser {
	c.shared, c.together = false, false
	pinned := make(Algorithms)
	for op, choice := range c.pinned {
		if choice.Level0 != SHM && choice.Level1 != SHM && choice.Level1 != Natively {
			pinned[op] = choice
		}
	}
	c.pinned = pinned
	return c
}

// predict is the seconds of an operation by a choice.
func (c chooser) predict(op Op, n int, choice Choice) float64 {
	link := c.inside
	if c.levels != nil {
		link = c.across // the slowest link of a flat algorithm holds it up
	}
	if choice.Level0 == Auto {
		return cost(link, work{op, n, c.ranks, c.ordered}, choice.Level1)
	}
	return c.layered(op, n, choice)
}

// layered is the seconds of the phases of an operation in two levels.
func (c chooser) layered(op Op, n int, choice Choice) float64 {
	members := 0
	for _, h := range c.levels.hosts {
		members = max(members, len(h))
	}
	hosts := len(c.levels.hosts)
	part := n / members
	level0 := flat(choice.Level0)
	switch {
	case op == AllReduce && c.ordered && c.levels.uniform():
		return cost(c.across, work{ReduceScatter, n, c.ranks, true}, Mesh) +
			cost(c.across, work{AllGather, part, hosts, true}, flat(choice.Level1)) +
			cost(c.inside, work{AllGather, n, members, true}, level0)
	case op == AllReduce && c.levels.uniform():
		// All ranks of a host share its link to the others.
		shared := c.across
		shared.Bandwidth /= float64(members)
		return cost(c.inside, work{ReduceScatter, n, members, false}, level0) +
			cost(shared, work{AllReduce, part, hosts, false}, choice.Level1) +
			cost(c.inside, work{AllGather, n, members, false}, level0)
	case op == AllReduce:
		return c.layered(Reduce, n, choice) + c.layered(Broadcast, n, choice)
	case op == Reduce && c.ordered:
		return cost(c.across, work{Reduce, n, c.ranks, true}, Tree)
	default:
		return cost(c.inside, work{op, n, members, c.ordered}, choice.Level0) +
			cost(c.across, work{op, n, hosts, c.ordered}, choice.Level1)
	}
}
