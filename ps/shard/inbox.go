package shard

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"hcclps/ps/wire"
)

// inbox is the leader's soft state: pushes that are not in the log yet, and
// messages to be logged. It exists while this replica leads; a new leader
// starts with an empty one, and workers send again.
//
// Its lock is taken after that of State where both are needed.
type inbox struct {
	mu       sync.Mutex
	leading  bool
	all      map[pushRef]*contribution
	parts    map[partRef]map[string]*contribution // bsp: by worker
	solo     []*contribution                      // ssp, asp: whole ones, in order of arrival
	messages []*request
	budget   *Budget
	held     int           // bytes of budget
	ready    chan struct{} // there may be something to log
}

// partRef names what bsp logs as one item.
type partRef struct {
	job  string
	step uint64
	part uint32
}

// request waits for its answer, together with whoever asks the same again.
type request struct {
	message wire.Message // nil: a contribution
	answer  wire.Answer
	done    chan struct{}
}

// contribution is one push on its way into the log.
type contribution struct {
	request
	ref      pushRef
	rank     uint32
	rows     uint32
	cursor   []byte
	body     []byte
	sections []wire.Section // of body
	plain    []byte         // of the inbox: what coded sections decode to
	bytes    int
	since    time.Time
	arrived  time.Time // bsp: when it was whole, and
	joined   time.Time // when those of the other workers were; zero: there are none
	pooled   bool      // body goes back to the inbox
	whole    bool      // the body is here and checked: from now on it belongs to the inbox
	proposed bool
}

func newInbox(budget *Budget) *inbox {
	b := &inbox{budget: budget, ready: make(chan struct{}, 1)}
	b.clear()
	return b
}

func (b *inbox) clear() {
	b.all, b.parts, b.solo, b.messages = map[pushRef]*contribution{}, map[partRef]map[string]*contribution{}, nil, nil
}

// begin opens the inbox of a new leader.
func (b *inbox) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leading = true
}

// end answers everything that waits, and refuses what comes.
func (b *inbox) end(a wire.Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leading = false
	for _, c := range b.all {
		b.finish(c, a)
	}
	for _, r := range b.messages {
		r.resolve(a)
	}
	b.clear()
}

func (r *request) resolve(a wire.Answer) {
	r.answer = a
	close(r.done)
}

// signal wakes the proposer.
func (b *inbox) signal() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// message queues an entry of its own, of which replica.arrived is to be told; nil when this replica does not lead.
func (b *inbox) message(m wire.Message) *request {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.leading {
		return nil
	}
	r := &request{message: m, done: make(chan struct{})}
	b.messages = append(b.messages, r)
	return r
}

// admitted is how an inbox took a push.
type admitted uint8

const (
	took      admitted = iota // the caller brings the body
	joined                    // the same push is here already: wait with it
	full                      // over the budget
	notLeader                 // this replica does not lead
)

// enter makes room for a push of n bytes that State has admitted. Over the
// budget it is refused, unless it is the one that the others wait for: bsp's
// lowest missing rank, or the only push here. The caller holds State's lock for
// reading.
func (b *inbox) enter(a *admission, ref pushRef, n int) (*contribution, admitted) {
	bsp := a.job.Params.Sync == wire.BSP
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.leading {
		return nil, notLeader
	}
	if c := b.all[ref]; c != nil {
		return c, joined
	}
	if !b.budget.take(n, false) {
		first, missing := b.lowestMissing(a.job)
		if bsp && (!missing || first != ref) || !bsp && b.held > 0 {
			return nil, full
		}
		b.budget.take(n, true)
	}
	c := &contribution{request: request{done: make(chan struct{})}, ref: ref, rank: a.worker.Rank, bytes: n, since: time.Now()}
	b.held += n
	b.all[ref] = c
	if bsp {
		p := ref.of()
		if b.parts[p] == nil {
			b.parts[p] = map[string]*contribution{}
		}
		if old := b.parts[p][ref.worker]; old != nil && old.ref.incarnation > ref.incarnation {
			return c, took // the sweep will answer it
		}
		b.parts[p][ref.worker] = c
	}
	return c, took
}

func (p pushRef) of() partRef { return partRef{p.job, p.step, p.part} }

// arrive says that a contribution's body is here. It reports false if the
// contribution was answered meanwhile; else replica.arrived is to be told.
func (b *inbox) arrive(c *contribution, bsp bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all[c.ref] != c {
		return false
	}
	c.whole = true
	if bsp {
		c.arrived = time.Now()
	} else {
		b.solo = append(b.solo, c)
	}
	return true
}

// release gives the memory of a body back. Whoever it belongs to calls it, once
// nobody reads it any more: what is in the log was copied there.
func (b *inbox) release(c *contribution) {
	body, plain := c.body, c.plain
	c.body, c.plain, c.sections = nil, nil, nil
	if c.pooled {
		b.budget.memory.Put(body)
	}
	if plain != nil {
		b.budget.memory.Put(plain)
	}
}

// drop answers a contribution that is not in the log.
func (b *inbox) drop(c *contribution, a wire.Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all[c.ref] == c {
		b.finish(c, a)
	}
}

// finish answers a contribution and forgets it. The lock is held.
func (b *inbox) finish(c *contribution, a wire.Answer) {
	delete(b.all, c.ref)
	if m := b.parts[c.ref.of()]; m[c.ref.worker] == c {
		delete(m, c.ref.worker)
		if len(m) == 0 {
			delete(b.parts, c.ref.of())
		}
	}
	if i := slices.Index(b.solo, c); i >= 0 {
		b.solo = slices.Delete(b.solo, i, i+1)
	}
	b.budget.give(c.bytes)
	b.held -= c.bytes
	if c.whole {
		b.release(c)
	}
	c.resolve(a)
}

// lowestMissing is the part of the lowest rank that a bsp job waits for and that
// nobody is bringing. Both locks are held.
func (b *inbox) lowestMissing(j *job) (pushRef, bool) {
	if j.Params.Sync != wire.BSP {
		return pushRef{}, false
	}
	for part := range j.Params.Parts {
		if j.Parts&(1<<part) != 0 {
			continue
		}
		at := partRef{j.Name, j.Clock, part}
		for _, w := range j.Workers {
			if j.expects(w) && b.parts[at][w.Name] == nil {
				return pushRef{j.Name, w.Name, w.Incarnation, j.Clock, part}, true
			}
		}
	}
	return pushRef{}, false
}

// batch is what can be logged as one item.
type batch struct {
	from []*contribution // ascending rank
	step uint64
	part uint32
	rate float32
	sum  bool // divisor 1
}

// collect takes what can be logged now, about limit bytes of it: parts of bsp
// steps that all required workers have brought, pushes of ssp and asp in order
// of arrival. It answers contributions that state has no use for any more.
// The caller holds State's lock for reading.
func (b *inbox) collect(s *State, limit int) (messages []*request, batches []batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep(s)
	messages, b.messages = b.messages, nil
	bytes := 0
	take := func(j *job, from []*contribution) {
		now := time.Now()
		for _, c := range from {
			c.proposed = true
			bytes += c.bytes
			if len(from) > 1 {
				c.joined = now
			}
		}
		ref := from[0].ref
		batches = append(batches, batch{from, ref.step, ref.part, j.rate(ref.step), j.Params.Sum})
	}
	for _, at := range b.candidates(s) {
		j := s.jobs[at.job]
		from := b.complete(s, j, at)
		if from == nil {
			continue
		}
		if take(j, from); bytes >= limit {
			return messages, batches
		}
	}
	rest := b.solo[:0]
	for i, c := range b.solo {
		if bytes >= limit {
			rest = append(rest, b.solo[i:]...)
			break
		}
		if a := s.admit(c.ref); a.blocked {
			rest = append(rest, c)
		} else {
			take(a.job, []*contribution{c})
		}
	}
	b.solo = rest
	return messages, batches
}

// sweep answers what cannot be logged any more: fenced off, expelled, passed.
func (b *inbox) sweep(s *State) {
	for ref, c := range b.all {
		if c.proposed {
			continue
		}
		if a := s.admit(ref); !a.ok() {
			b.finish(c, a.answer)
		}
	}
}

// candidates lists the parts of steps in progress that have contributions, in a
// fixed order.
func (b *inbox) candidates(s *State) []partRef {
	var out []partRef
	for at := range b.parts {
		if j := s.jobs[at.job]; j != nil && (at.step == j.Clock || s.cfg.Bugs.DedupeOff) {
			out = append(out, at)
		}
	}
	slices.SortFunc(out, func(x, y partRef) int {
		return cmp.Or(cmp.Compare(x.job, y.job), cmp.Compare(x.step, y.step), cmp.Compare(x.part, y.part))
	})
	return out
}

// complete lists the contributions to a part when all are there, else nil.
func (b *inbox) complete(s *State, j *job, at partRef) []*contribution {
	have := b.parts[at]
	if at.step < j.Clock { // only with a planted bug: as it comes
		for _, c := range have {
			if c.whole && !c.proposed {
				return []*contribution{c}
			}
		}
		return nil
	}
	if !j.Begun || j.Held != nil && j.Held.T <= at.step || j.Parts&(1<<at.part) != 0 {
		return nil
	}
	var from []*contribution
	for _, w := range j.Workers {
		if !j.expects(w) {
			continue
		}
		c := have[w.Name]
		if c == nil || !c.whole || c.proposed || c.ref.incarnation != w.Incarnation && !s.cfg.Bugs.NoFence {
			return nil
		}
		from = append(from, c)
	}
	return from
}

// settled answers contributions whose item was applied.
func (b *inbox) settled(from []*contribution, answers []wire.Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, c := range from {
		if b.all[c.ref] == c {
			b.finish(c, answers[i])
		}
	}
}
