package pstest

import (
	"fmt"
	"slices"

	"hcclps/ps/wire"
)

// judgeBSP looks for a history of a lane in which each step was applied once,
// with one of the contents it may have had, that explains every read and the
// rows at the end. There are few contents to choose from (a worker that was
// killed during a push computes the step anew), and a wrong choice shows at
// the next read.
func (c *jobCase) judgeBSP(l lane) error {
	var first error
	for _, rates := range c.schedules(c.last()) {
		s := bspSearch{jobCase: c, lane: l, rates: rates, end: c.lastIn(l)}
		s.sort()
		if s.from(0, rows{}, nil) {
			return nil
		}
		if first == nil {
			first = s.best
		}
	}
	return first
}

// last is the most steps any worker has completed on any shard, or was told to
// have.
func (c *jobCase) last() uint64 {
	last := uint64(0)
	for _, done := range c.done {
		for _, d := range done {
			last = max(last, d)
		}
	}
	for _, opens := range c.opens {
		for _, o := range opens {
			last = max(last, o.Clock)
		}
	}
	return last
}

func (c *jobCase) lastIn(l lane) uint64 {
	last := uint64(0)
	for _, done := range c.done {
		last = max(last, done[l.shard])
	}
	return last
}

// bspSearch is a depth-first search over steps.
type bspSearch struct {
	*jobCase
	lane  lane
	rates schedule
	end   uint64
	reads map[uint64][]read // by clock
	final []read            // after everybody's last step
	best  error             // why the branch that went furthest ended
	depth uint64            // how far that was
	tries int
}

// read is a pull's share of the lane.
type read struct {
	pull  *Pull
	grads []Gradient
	loose bool // the shard may have been one step ahead
}

// maxTries bounds a search.
const maxTries = 1 << 14

func (s *bspSearch) sort() {
	s.reads = map[uint64][]read{}
	for i := range s.pulls {
		p := &s.pulls[i]
		r := read{pull: p, grads: s.in(s.lane, p.Rows), loose: p.First && p.Life > 0}
		switch {
		case len(r.grads) == 0:
		case p.Step == wire.Infinity:
			s.final = append(s.final, r)
		default:
			s.reads[p.Step] = append(s.reads[p.Step], r)
		}
	}
}

// from continues at a clock with the rows there; open are the reads of the
// clock before that may be of this one.
func (s *bspSearch) from(clock uint64, rs rows, open []read) bool {
	s.tries++
	if s.tries > maxTries {
		s.note(s.end+1, fmt.Errorf("more than %d ways to explain the history", maxTries))
		return false
	}
	for _, r := range open {
		if err := s.explains(rs, r); err != nil {
			s.note(clock, err)
			return false
		}
	}
	open = nil
	for _, r := range s.reads[clock] {
		err := s.explains(rs, r)
		switch {
		case err == nil:
		case r.loose && clock < s.end:
			open = append(open, r)
		default:
			s.note(clock, err)
			return false
		}
	}
	if clock == s.end {
		return s.ends(rs)
	}
	return s.branch(clock, rs, open, s.contributors(clock), nil)
}

// ends compares with the rows at the end.
func (s *bspSearch) ends(rs rows) bool {
	err := s.finalRows(s.lane, rs)
	for _, r := range s.final {
		if err == nil {
			err = s.explains(rs, r)
		}
	}
	if err != nil {
		s.note(s.end+1, err)
	}
	return err == nil
}

// contributors are those who have completed the step, in ascending rank.
func (s *bspSearch) contributors(step uint64) []string {
	var out []string
	for _, w := range s.workers {
		if s.done[w][s.lane.shard] > step {
			out = append(out, w)
		}
	}
	return out
}

// branch chooses a content for each contributor left, and goes on with the
// step applied.
func (s *bspSearch) branch(step uint64, rs rows, open []read, left []string, chosen []contribution) bool {
	if len(left) == 0 {
		next, divisor := rs.clone(), uint64(0)
		parts := make([][]Gradient, len(chosen))
		for i, c := range chosen {
			divisor += uint64(c.rows)
			parts[i] = c.grads
		}
		s.apply(next, step, s.divisor(divisor), s.rates.at(step), parts)
		if s.params.Parts > 1 { // a read may come between this part of the step and the last one, which evicts
			open = slices.DeleteFunc(slices.Clone(open), func(r read) bool { return s.explains(next, r) == nil })
		}
		if slices.ContainsFunc(chosen, func(c contribution) bool { return !c.skipped }) { // else the clock went past it
			s.sweep(next, step+1)
		}
		return s.from(step+1, next, open)
	}
	all := s.candidates(left[0], step, s.lane)
	if len(all) == 0 {
		s.note(step, fmt.Errorf("step %d of worker %s is counted, but it was never sent", step, left[0]))
	}
	for _, c := range all {
		if s.branch(step, rs, open, left[1:], append(slices.Clip(chosen), c)) {
			return true
		}
	}
	return false
}

// explains says whether a read saw these rows.
func (s *bspSearch) explains(rs rows, r read) error {
	for _, g := range r.grads {
		dim := int(s.tables[g.Table].Dim)
		for i, k := range g.Keys {
			got, want := g.Values[i*dim:][:dim], s.weights(rs, cell{g.Table, k})
			if !same(got, want) {
				return fmt.Errorf("%v: read of step %d: table %d, key %d is %v, want %v", r.pull.Who, r.pull.Step, g.Table, k, got, want)
			}
		}
	}
	return nil
}

// note keeps the reason of the branch that went furthest.
func (s *bspSearch) note(depth uint64, err error) {
	if s.best == nil || depth > s.depth {
		s.best, s.depth = err, depth
	}
}
