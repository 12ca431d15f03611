package world

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hcclps/p2p"
)

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
// within a second. The caller's own is there too. It is an error if the rendezvous cannot be asked. It waits for Run to be running.
func (w *World) Positions(ctx context.Context) ([][]byte, error) {
	all, err := w.ask(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("ask for positions: %w", err)
	}
	return positionsOf(all), nil
}

func positionsOf(all []answered) [][]byte {
	positions := make([][]byte, len(all))
	for r, a := range all {
		positions[r] = a.position
	}
	return positions
}

func (w *World) ask(ctx context.Context, scope string) ([]answered, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if w.link == nil {
		return []answered{{position: w.positionIn(scope)}}, nil
	}
	return w.questions.ask(ctx, w.Size(), scope, w.link, w.stopped)
}

// errStopped is what waits meet when Run has ended.
var errStopped = fmt.Errorf("the world has stopped: %w", p2p.ErrClosed)

// questions are what this rank has asked the rendezvous.
type questions struct {
	ended chan struct{} // closed when it can be asked no more

	mu   sync.Mutex
	last uint64
	open map[uint64]*question
}

// answered is what one rank has answered.
type answered struct {
	position []byte
	age      time.Duration // since something was heard of it; negative: it has gone
}

type question struct {
	answers []answered // by rank
	whole   chan struct{}
}

func newQuestions() *questions {
	return &questions{ended: make(chan struct{}), open: make(map[uint64]*question)}
}

func (q *questions) ask(ctx context.Context, size int, scope string, l uplink, stopped <-chan struct{}) ([]answered, error) {
	one := &question{answers: make([]answered, size), whole: make(chan struct{})}
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
	l.post(frame{kind: kindAsk, query: id, scope: scope})
	select {
	case <-one.whole:
		return one.answers, nil
	case <-q.ended:
		return nil, errors.New("the rendezvous has gone")
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
		close(one.whole)
		delete(q.open, f.query)
	default:
		a := answered{age: time.Duration(f.age) * time.Millisecond}
		if f.age == gone {
			a.age = -1
		}
		if len(f.position) > 0 {
			a.position = f.position
		}
		one.answers[f.rank] = a
	}
}

func (q *questions) end() { close(q.ended) }
