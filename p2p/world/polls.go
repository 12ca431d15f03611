package world

import (
	"context"
	"sync"
	"time"
)

// pollTime is how long the center waits for the positions of ranks. They answer at once, whatever their users do.
const pollTime = time.Second

// gone is the age of a rank that cannot be asked.
const gone = ^uint32(0)

// polls are the center's rounds of asking all ranks: one at a time, so that the questions of many ranks at one moment make one or two.
type polls struct {
	wake chan struct{} // one token: there are askers

	mu     sync.Mutex
	askers []asker
	seats  []*seat // by rank; nil: it cannot be asked

	// Of the round under way:
	query     uint64
	positions map[int][]byte // by rank, that have come
	missing   map[*seat]int  // rank
	whole     chan struct{}  // closed when missing is empty
}

type asker struct {
	sink  sink
	query uint64
	scope string
}

func newPolls() *polls { return &polls{wake: make(chan struct{}, 1)} }

// reset begins an epoch.
func (p *polls) reset(seats []*seat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seats, p.askers = seats, nil
	p.finish()
}

// ask has s told the positions, soon. It does not wait.
func (p *polls) ask(s *seat, query uint64, scope string) {
	p.mu.Lock()
	p.askers = append(p.askers, asker{s.sink, query, scope})
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *polls) serve(ctx context.Context) {
	for {
		select {
		case <-p.wake:
		case <-ctx.Done():
			return
		}
		for p.round(ctx) {
			continue
		}
	}
}

// round asks everybody who is there about one scope, and tells those who wanted to know; false: nobody did.
func (p *polls) round(ctx context.Context) bool {
	p.mu.Lock()
	if len(p.askers) == 0 || ctx.Err() != nil {
		p.mu.Unlock()
		return false
	}
	scope := p.askers[0].scope
	var askers, others []asker
	for _, a := range p.askers {
		if a.scope == scope {
			askers = append(askers, a)
		} else {
			others = append(others, a)
		}
	}
	p.askers = others
	whole := p.begin(scope)
	p.mu.Unlock()
	t := time.NewTimer(pollTime)
	defer t.Stop()
	select {
	case <-whole:
	case <-t.C:
	case <-ctx.Done():
	}
	p.mu.Lock()
	answers := make([]frame, len(p.seats))
	for r, s := range p.seats {
		answers[r] = frame{kind: kindPosition, rank: r, age: s.age(), position: p.positions[r]}
	}
	p.positions, p.missing = nil, nil // what comes late is forgotten
	p.mu.Unlock()
	for _, a := range askers {
		for _, f := range answers {
			f.query = a.query
			a.sink.post(f)
		}
		a.sink.post(frame{kind: kindAnswered, query: a.query})
	}
	return true
}

// begin asks; p.mu is held.
func (p *polls) begin(scope string) <-chan struct{} {
	p.query++
	p.positions = make(map[int][]byte)
	p.missing = make(map[*seat]int)
	p.whole = make(chan struct{})
	for r, s := range p.seats {
		if s != nil {
			p.missing[s] = r
			s.sink.post(frame{kind: kindAsk, query: p.query, scope: scope})
		}
	}
	whole := p.whole
	if len(p.missing) == 0 {
		p.finish()
	}
	return whole
}

// age is how many milliseconds ago something was heard of the process.
func (s *seat) age() uint32 {
	switch {
	case s == nil:
		return gone
	case s.line == nil:
		return 0
	}
	ms := time.Since(time.Unix(0, s.line.heard.Load())).Milliseconds()
	return uint32(min(max(ms, 0), int64(gone)-1))
}

// finish ends the waiting of a round; p.mu is held.
func (p *polls) finish() {
	if p.whole != nil {
		close(p.whole)
	}
	p.whole = nil
}

// answer takes a rank's position.
func (p *polls) answer(s *seat, f frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rank, is := p.missing[s]
	if f.query != p.query || !is {
		return
	}
	p.positions[rank] = f.position
	p.settled(s)
}

// gone says that a process cannot be asked any more.
func (p *polls) gone(s *seat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := range p.seats {
		if p.seats[r] == s {
			p.seats[r] = nil
		}
	}
	if _, is := p.missing[s]; is {
		p.settled(s)
	}
}

// settled notes that nothing more will come of a rank in this round; p.mu is held.
func (p *polls) settled(s *seat) {
	if delete(p.missing, s); len(p.missing) == 0 {
		p.finish()
	}
}
