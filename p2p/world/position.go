package world

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hcclps/p2p"
)

// pollTime is how long rank 0 waits for the positions of the others. They answer at once, whatever their users do.
const pollTime = time.Second

// place is where this rank is.
type place struct {
	mu sync.Mutex
	n  int
	b  [MaxPosition]byte
}

func (p *place) set(b []byte) {
	p.mu.Lock()
	p.n = copy(p.b[:], b)
	p.mu.Unlock()
}

func (p *place) get() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]byte(nil), p.b[:p.n]...)
}

// Report says where this rank is, in bytes of the user's own, of which the first MaxPosition are kept. It costs some nanoseconds: nothing is sent until
// somebody asks.
func (w *World) Report(position []byte) { w.place.set(position) }

// Positions asks all ranks where they are: what each reported last, by rank. It is nil of a rank that has reported nothing, has gone, or did not answer
// within a second. The caller's own is there too. It is an error if rank 0 cannot be asked. It waits for Run to be running.
func (w *World) Positions(ctx context.Context) ([][]byte, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("ask for positions: %w", context.Cause(ctx))
	}
	if w.cfg.Rank != 0 {
		positions, err := w.questions.ask(ctx, w.Size(), w.lines[0], w.stopped)
		if err != nil {
			return nil, fmt.Errorf("ask for positions: %w", err)
		}
		return positions, nil
	}
	answer := make(chan [][]byte, 1)
	w.polls.ask(func(positions [][]byte) { answer <- positions })
	select {
	case positions := <-answer:
		return positions, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("ask for positions: %w", context.Cause(ctx))
	case <-w.stopped:
		return nil, fmt.Errorf("ask for positions: %w", errStopped)
	}
}

// errStopped is what waits meet when Run has ended.
var errStopped = fmt.Errorf("the world has stopped: %w", p2p.ErrClosed)

// questions are what a rank above 0 has asked rank 0.
type questions struct {
	ended chan struct{} // closed when rank 0 can be asked no more

	mu   sync.Mutex
	last uint64
	open map[uint64]*question
}

type question struct {
	positions [][]byte
	answered  chan struct{}
}

func newQuestions() *questions {
	return &questions{ended: make(chan struct{}), open: make(map[uint64]*question)}
}

func (q *questions) ask(ctx context.Context, size int, l *line, stopped <-chan struct{}) ([][]byte, error) {
	one := &question{positions: make([][]byte, size), answered: make(chan struct{})}
	q.mu.Lock()
	q.last++
	id := q.last
	q.open[id] = one
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.open, id)
	}()
	l.post(frame{kind: kindAsk, query: id})
	select {
	case <-one.answered:
		return one.positions, nil
	case <-q.ended:
		return nil, errors.New("rank 0 has gone")
	case <-stopped:
		return nil, errStopped
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// told takes a part of an answer. One to a question that nobody waits for any more is forgotten.
func (q *questions) told(f frame) {
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.open[f.query]
	switch {
	case one == nil:
	case f.kind == kindAnswered:
		close(one.answered)
		delete(q.open, f.query)
	case len(f.position) > 0:
		one.positions[f.rank] = f.position
	}
}

func (q *questions) end() { close(q.ended) }

// polls are rank 0's rounds of asking all others: one at a time, so that the questions of many ranks at one moment make one or two.
type polls struct {
	w    *World
	wake chan struct{} // one token: there are askers

	mu      sync.Mutex
	askers  []func(positions [][]byte)
	present []bool // by rank: it can be asked

	// Of the round under way:
	query     uint64
	positions [][]byte
	missing   map[int]bool
	whole     chan struct{} // closed when missing is empty
}

func newPolls(w *World) *polls {
	p := &polls{w: w, wake: make(chan struct{}, 1), present: make([]bool, w.Size())}
	for r := 1; r < w.Size(); r++ {
		p.present[r] = true
	}
	return p
}

// ask has tell called with the positions, soon. It does not wait.
func (p *polls) ask(tell func(positions [][]byte)) {
	p.mu.Lock()
	p.askers = append(p.askers, tell)
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
		p.mu.Lock()
		askers := p.askers
		p.askers = nil
		p.mu.Unlock()
		positions := p.round(ctx)
		for _, tell := range askers {
			tell(positions)
		}
	}
}

// round asks everybody who is there.
func (p *polls) round(ctx context.Context) [][]byte {
	p.begin()
	t := time.NewTimer(pollTime)
	defer t.Stop()
	select {
	case <-p.whole:
	case <-t.C:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	positions := p.positions
	p.positions, p.missing = nil, nil // what comes late is forgotten
	return positions
}

func (p *polls) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.query++
	p.positions = make([][]byte, len(p.present))
	p.positions[0] = p.w.place.get()
	p.missing = make(map[int]bool)
	p.whole = make(chan struct{})
	for r, is := range p.present {
		if is {
			p.missing[r] = true
			p.w.lines[r].post(frame{kind: kindAsk, query: p.query})
		}
	}
	if len(p.missing) == 0 {
		close(p.whole)
	}
}

// answer takes a rank's position.
func (p *polls) answer(rank int, f frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.query != p.query || !p.missing[rank] {
		return
	}
	if len(f.position) > 0 {
		p.positions[rank] = f.position
	}
	p.settled(rank)
}

// gone says that a rank cannot be asked any more.
func (p *polls) gone(rank int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.present[rank] = false
	if p.missing[rank] {
		p.settled(rank)
	}
}

// settled notes that nothing more will come of a rank in this round; p.mu is held.
func (p *polls) settled(rank int) {
	if delete(p.missing, rank); len(p.missing) == 0 {
		close(p.whole)
	}
}
