package pstest

import (
	"fmt"
	"slices"

	"hcclps/ps/wire"
)

// judgeAsync judges a lane of an ssp or asp job. Its updates are exact and
// commute (sgd over dyadic rationals), so the rows are those at the beginning
// plus what each worker's steps add, in any order: a read is explained by how
// many steps of each worker it holds.
func (c *jobCase) judgeAsync(l lane) error {
	var first error
	for _, rates := range c.schedules(c.last()) {
		s := asyncSearch{jobCase: c, lane: l, rates: rates}
		if s.choose(0, 0) {
			return nil
		}
		if first == nil {
			first = s.best
		}
	}
	return first
}

// asyncSearch chooses a content for every step that was applied.
type asyncSearch struct {
	*jobCase
	lane   lane
	rates  schedule
	chosen [][]contribution // by worker (index in workers) and step
	best   error
	tries  int
}

// choose goes on at a step of a worker; all before are chosen.
func (s *asyncSearch) choose(w, step int) bool {
	if s.chosen == nil {
		s.chosen = make([][]contribution, len(s.workers))
	}
	for w < len(s.workers) && uint64(step) == s.done[s.workers[w]][s.lane.shard] {
		w, step = w+1, 0
	}
	if w == len(s.workers) {
		s.tries++
		err := s.check()
		if err != nil && s.best == nil {
			s.best = err
		}
		return err == nil
	}
	all := s.candidates(s.workers[w], uint64(step), s.lane)
	if len(all) == 0 && s.best == nil {
		s.best = fmt.Errorf("step %d of worker %s is counted, but it was never sent", step, s.workers[w])
	}
	for _, content := range all {
		if s.tries > maxTries {
			return false
		}
		s.chosen[w] = append(s.chosen[w][:step], content)
		if s.choose(w, step+1) {
			return true
		}
	}
	return false
}

// check compares the rows at the end and explains every read.
func (s *asyncSearch) check() error {
	final := rows{}
	for w := range s.chosen {
		for step, content := range s.chosen[w] {
			s.apply(final, uint64(step), s.divisor(uint64(content.rows)), s.rates.at(uint64(step)), [][]Gradient{content.grads})
		}
	}
	for at, r := range final {
		r.step = 0 // who came last is not known
		final[at] = r
	}
	if err := s.finalRows(s.lane, final); err != nil {
		return err
	}
	seen := map[Who][]uint64{}
	for i := range s.pulls {
		if err := s.read(&s.pulls[i], seen); err != nil {
			return err
		}
	}
	return s.linearizable()
}

// read explains one pull. seen is, by session, what earlier reads of it held
// for sure: later ones hold no less.
func (s *asyncSearch) read(p *Pull, seen map[Who][]uint64) error {
	grads := s.in(s.lane, p.Rows)
	if len(grads) == 0 {
		return nil
	}
	low, high := s.bounds(p)
	for w, n := range seen[p.Who] {
		low[w] = max(low[w], n)
	}
	e := explanation{low: low, high: high, held: slices.Clone(high)}
	for _, g := range grads {
		dim := int(s.tables[g.Table].Dim)
		for i, k := range g.Keys {
			e.add(s.history(cell{g.Table, k}), g.Values[i*dim:][:dim])
		}
	}
	switch found := e.find(0); {
	case !found && !e.over():
		return fmt.Errorf("%v: read at step %d: no numbers of steps from %v to %v of workers %v explain the rows %v", p.Who, p.Step, low, high, s.workers, grads)
	case !e.over():
		seen[p.Who] = e.held
	}
	return nil
}

// bounds are the fewest and the most steps of each worker that a read may
// hold.
func (s *asyncSearch) bounds(p *Pull) (low, high []uint64) {
	for _, name := range s.workers {
		done := s.done[name][s.lane.shard]
		acked, begun := s.progress(name, p.Call, 0)
		_, later := s.progress(name, p.Return, 0)
		var least uint64
		switch {
		case p.Step == wire.Infinity:
			least = done
		case name == p.Worker:
			least = p.Step
		case s.job.Params.Sync == wire.SSP:
			least = p.Step - min(p.Step, uint64(s.job.Params.Staleness))
		}
		if p.Fresh {
			least = max(least, acked)
		}
		if name == p.Worker && !p.First {
			later = min(later, max(begun, p.Step)) // it reads and pushes by turns
		}
		low = append(low, min(least, done))
		high = append(high, min(max(later, least), done))
	}
	return low, high
}

// history is a row after each number of steps of each worker, as what is added
// to its first weights; [worker][steps][element].
func (s *asyncSearch) history(at cell) addends {
	a := addends{first: s.initial(at).values, by: make([][][]float64, len(s.chosen))}
	for w := range s.chosen {
		total := make([]float64, len(a.first))
		a.by[w] = append(a.by[w], slices.Clone(total))
		for step, content := range s.chosen[w] {
			s.addTo(total, at, uint64(step), content)
			a.by[w] = append(a.by[w], slices.Clone(total))
		}
	}
	return a
}

func (s *asyncSearch) addTo(total []float64, at cell, step uint64, content contribution) {
	for _, g := range content.grads {
		i, ok := slices.BinarySearch(g.Keys, at.key)
		if g.Table != at.table || !ok || content.rows == 0 {
			continue
		}
		lr := s.tables[at.table].Params["lr"] * float64(s.rates.at(step))
		for d, v := range g.Values[i*len(total):][:len(total)] {
			total[d] -= lr * float64(v) / float64(s.divisor(uint64(content.rows)))
		}
	}
}

// addends is a row of the model as a sum over workers.
type addends struct {
	first []float32
	by    [][][]float64
}

// explanation looks for numbers of steps, one a worker, under which all rows
// of a read have the values read.
type explanation struct {
	low, high []uint64
	rows      []addends
	rest      [][]float64 // what is left to be explained of each row
	held      []uint64    // the least number of steps in any explanation, by worker
	found     bool
	tries     int
}

// Bounds of the search for explanations: for the first, and for all others.
const (
	maxFirst  = 1 << 21
	maxOthers = 1 << 13
)

// add adds a row that was read.
func (e *explanation) add(a addends, got []float32) {
	rest := make([]float64, len(got))
	for d := range got {
		rest[d] = float64(got[d]) - float64(a.first[d])
	}
	e.rows, e.rest = append(e.rows, a), append(e.rest, rest)
}

// over says whether the search has gone on for long enough.
func (e *explanation) over() bool {
	return e.tries > maxFirst || e.found && e.tries > maxOthers
}

// find tries all numbers for worker w and those after it, and says whether an
// explanation was found. The first is enough to accept a read; the others tell
// what it held for sure.
func (e *explanation) find(w int) bool {
	if w == len(e.low) {
		solved := e.solved()
		e.found = e.found || solved
		return solved
	}
	found := false
	for n := e.low[w]; n <= e.high[w] && !e.over(); n++ {
		if n > e.low[w] && e.unchanged(w, n) {
			continue // the same values again
		}
		e.tries++
		e.take(w, n, -1)
		if e.find(w + 1) {
			found = true
			e.held[w] = min(e.held[w], n)
		}
		e.take(w, n, 1)
	}
	return found
}

// unchanged says whether worker w's step n-1 touches none of the rows.
func (e *explanation) unchanged(w int, n uint64) bool {
	for _, r := range e.rows {
		if !slices.Equal(r.by[w][n], r.by[w][n-1]) {
			return false
		}
	}
	return true
}

// take moves worker w's n steps out of the rest (-1) or back into it (1).
func (e *explanation) take(w int, n uint64, sign float64) {
	for i, r := range e.rows {
		for d, v := range r.by[w][n] {
			e.rest[i][d] += sign * v
		}
	}
}

// solved says whether nothing is left to be explained.
func (e *explanation) solved() bool {
	for _, rest := range e.rest {
		for _, v := range rest {
			if v != 0 {
				return false
			}
		}
	}
	return true
}
