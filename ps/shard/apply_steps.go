package shard

import (
	"errors"
	"fmt"
	"slices"

	"hcclps/ps/table"
	"hcclps/ps/update"
	"hcclps/ps/wire"
)

// item applies one part of a step: all of it, or nothing.
func (s *State) item(it *wire.Item, p *preparedItem) ([]wire.Answer, error) {
	answers := make([]wire.Answer, len(it.Contributors))
	who := make([]admission, len(it.Contributors))
	ok := true
	for i, c := range it.Contributors {
		who[i] = s.admit(pushRef{it.Job, c.Worker, c.Incarnation, it.Step, it.Part})
		answers[i] = who[i].answer
		ok = ok && who[i].ok() && !who[i].blocked
	}
	if len(who) == 0 {
		return answers, nil
	}
	if !ok {
		return retry(who, answers), nil
	}
	j := who[0].job
	if !s.complete(j, it, who) {
		return retry(who, answers), nil
	}
	if refusal, bad := j.fits(it, p); bad {
		for i := range answers {
			answers[i] = who[i].worker.answer(j, refusal.Status, refusal.Detail)
		}
		return answers, nil
	}
	if err := s.update(j, it, p, who); err != nil {
		return nil, err
	}
	complete := j.Applied
	if j.Params.Sync == wire.BSP {
		s.countAll(j, it, who)
	} else {
		s.countOne(j, it, who[0].worker)
	}
	if j.Applied != complete {
		s.sweep(j)
	}
	for i := range answers {
		answers[i] = who[i].worker.answer(j, wire.OK, "")
	}
	return answers, nil
}

// retry tells those whose push is good, but came in an item that is not, to
// send it again; the others keep their answer.
func retry(who []admission, answers []wire.Answer) []wire.Answer {
	for i := range who {
		switch {
		case !who[i].ok():
		case who[i].blocked:
			answers[i].Status, answers[i].Detail = wire.Pending, who[i].wait.String()
		default:
			answers[i].Status, answers[i].After = wire.Busy, 1
			answers[i].Detail = "the workers that this step waits for have changed"
		}
	}
	return answers
}

// complete says whether the contributors are exactly those the item needs, in
// ascending rank.
func (s *State) complete(j *job, it *wire.Item, who []admission) bool {
	if j.Params.Sync != wire.BSP {
		return len(who) == 1
	}
	if s.cfg.Bugs.DedupeOff && it.Step < j.Clock {
		return true
	}
	i := 0
	for _, w := range j.Workers {
		if !j.expects(w) {
			continue
		}
		if i == len(who) || who[i].worker != w {
			return false
		}
		i++
	}
	return i == len(who)
}

// fits checks all that an item could fail on, before anything is touched, and
// mends values where the table's policy says so.
func (j *job) fits(it *wire.Item, p *preparedItem) (refusal wire.Answer, bad bool) {
	no := func(st wire.Status, format string, args ...any) (wire.Answer, bool) {
		where := fmt.Sprintf("part %d of step %d of %s, job %q: ", it.Part, it.Step, people(it), j.Name)
		return wire.Answer{Status: st, Detail: clean(where + fmt.Sprintf(format, args...))}, true
	}
	if p.err != nil {
		return no(wire.Refused, "%v", p.err)
	}
	if !finiteRates(it) {
		return no(wire.Refused, "rate is %v, of tables %v", it.Rate, it.Rates)
	}
	for i, s := range p.Sections {
		if st, why := j.takes(s, p.Bad(i)); st != wire.OK {
			return no(st, "%s", why)
		}
	}
	return wire.Answer{}, false
}

// takes checks the gradient of one table, of which value number bad is not
// finite (-1: none is). Where the table's policy says so, values are mended.
func (j *job) takes(s wire.Section, bad int) (st wire.Status, why string) {
	t := j.table(s.Table)
	if t == nil {
		return wire.Refused, fmt.Sprintf("table %d does not exist", s.Table)
	}
	switch err := t.Takes(s, bad); {
	case err == nil:
		return wire.OK, ""
	case errors.Is(err, update.ErrNonFinite):
		return wire.NonFinite, err.Error()
	default:
		return wire.Refused, err.Error()
	}
}

// finiteRates says whether all rates of an item, and their products, are numbers.
func finiteRates(it *wire.Item) bool {
	ok := finite(it.Rate)
	for _, r := range it.Rates {
		ok = ok && finite(float32(it.Rate*r.Rate))
	}
	return ok
}

func finite(v float32) bool { return v-v == 0 }

// people names the contributors of an item, a few of them.
func people(it *wire.Item) string {
	if len(it.Contributors) == 1 {
		return fmt.Sprintf("worker %q", it.Contributors[0].Worker)
	}
	return fmt.Sprintf("%d workers together", len(it.Contributors))
}

// update touches the tables. Divisor 0 means that there are no rows of data
// behind the step: it counts and touches nothing.
func (s *State) update(j *job, it *wire.Item, p *preparedItem, who []admission) error {
	if it.Divisor == 0 {
		return nil
	}
	stamp := table.Stamp{Step: uint32(it.Step + 1)}
	if len(who) == 1 {
		stamp.Writer = who[0].worker.Writer
	}
	if first := j.Parts == 0 && who[0].worker.Parts == 0; first {
		for _, t := range j.Tables { // each, also those without gradients here: shards must agree
			t.Advance()
		}
	}
	for _, sec := range p.Sections {
		t := j.table(sec.Table)
		u := t.Step(it.RateOf(sec.Table))
		if !s.cfg.Alone {
			s.digest.word(uint64(t.Slot))
			u = &hashing{inner: u, sum: &s.digest}
		}
		if err := t.Apply(sec, j.stamped(t, stamp), u); err != nil {
			return fmt.Errorf("job %q: %w", j.Name, err)
		}
		if !s.cfg.Alone {
			s.digest.word(t.Kept.Refused)
		}
	}
	return nil
}

// countAll counts a part of a bsp step. The first part of a step fixes its
// contributors; the clock moves when all parts are in.
func (s *State) countAll(j *job, it *wire.Item, who []admission) {
	if it.Step < j.Clock {
		return // only with a planted bug
	}
	for i := range who {
		w := who[i].worker
		w.InStep = true
		w.Term, w.Index = s.term, s.index
		if it.Part == j.Params.Parts-1 {
			w.Next = slices.Clone(it.Contributors[i].Cursor)
		}
	}
	j.Parts |= 1 << it.Part
	if j.Parts != j.allParts() {
		return
	}
	for _, w := range j.Workers {
		if w.InStep {
			w.advance(j)
			w.InStep = false
		}
	}
	j.Clock++
	j.Parts = 0
	j.settle()
}

// countOne counts a part of one worker's step (ssp, asp).
func (s *State) countOne(j *job, it *wire.Item, w *worker) {
	if w.Done == forgotten {
		w.Done = it.Step // only with a planted bug
	}
	if it.Step < w.Done {
		return // only with a planted bug
	}
	w.Term, w.Index = s.term, s.index
	if it.Part == j.Params.Parts-1 {
		w.Next = slices.Clone(it.Contributors[0].Cursor)
	}
	w.Parts |= 1 << it.Part
	if w.Parts == j.allParts() {
		w.advance(j)
		w.Parts = 0
		j.Clock = max(j.Clock, w.Done)
	}
}

// advance completes the worker's step.
func (w *worker) advance(j *job) {
	w.Done++
	w.Cursor, w.Next = w.Next, nil
	j.Applied++
}

// settle brings a bsp job on when those it waited for are gone: a step in
// progress that has lost all its contributors is given up, and when only
// workers that join at a later step are left, the clock goes there.
func (j *job) settle() {
	if j.Params.Sync != wire.BSP || !j.Begun {
		return
	}
	if !slices.ContainsFunc(j.Workers, func(w *worker) bool { return w.InStep }) {
		j.Parts = 0
	}
	next := openEnd
	for _, w := range j.Workers {
		if j.expects(w) {
			return
		}
		if w.Session == open {
			next = min(next, w.From)
		}
	}
	if next != openEnd {
		j.Clock = max(j.Clock, next)
	}
}
