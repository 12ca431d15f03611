package tcp

import "slices"

// maxClaims bounds the pieces of a message that are beyond a hole. A sender that hands pieces out in order has one a stripe at most.
const maxClaims = 64

// claims are the ranges of a message that have arrived or are arriving: no byte is taken twice. The zero value is empty.
type claims struct {
	prefix int    // bytes from the start without a hole
	later  []span // in order, apart from each other and from the prefix
}

type span struct{ from, to int }

// add claims [from, to), which is not empty. It reports false if a part of it is claimed already, or there are too many holes.
func (c *claims) add(from, to int) bool {
	if from == c.prefix { // the common case
		if len(c.later) > 0 && to > c.later[0].from {
			return false
		}
		c.prefix = to
		if len(c.later) > 0 && c.later[0].from == to {
			c.prefix = c.later[0].to
			c.later = slices.Delete(c.later, 0, 1)
		}
		return true
	}
	i, found := slices.BinarySearchFunc(c.later, from, func(s span, from int) int { return s.from - from })
	switch {
	case from < c.prefix || found:
		return false
	case i > 0 && c.later[i-1].to > from:
		return false
	case i < len(c.later) && c.later[i].from < to:
		return false
	}
	before, after := i > 0 && c.later[i-1].to == from, i < len(c.later) && c.later[i].from == to
	switch {
	case before && after:
		c.later[i-1].to = c.later[i].to
		c.later = slices.Delete(c.later, i, i+1)
	case before:
		c.later[i-1].to = to
	case after:
		c.later[i].from = from
	case len(c.later) == maxClaims:
		return false
	default:
		c.later = slices.Insert(c.later, i, span{from, to})
	}
	return true
}
