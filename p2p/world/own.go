package world

import (
	"context"
	"errors"
	"sync"
)

// uplink is a member's way to the center.
type uplink interface {
	// post sends a frame. It does not wait.
	post(f frame)
	// run handles what comes, as the run of a line does.
	run(ctx context.Context, handle func(frame) error) error
	// close ends it for good.
	close()
}

// close makes a line an uplink.
func (l *line) close() { _ = l.conn.Close() }

// own is the uplink of the member in the process of the center.
type own struct {
	center *center
	seat   *seat
	down   *queue
}

func (o *own) post(f frame) { _ = o.center.heard(o.seat, f) } // its faults would be ours

func (o *own) run(ctx context.Context, handle func(frame) error) error {
	return o.down.run(ctx, handle)
}

func (o *own) close() {}

// queue is the sink to the member in the process of the center.
type queue struct {
	wake chan struct{} // one token: there is something

	mu     sync.Mutex
	frames []frame
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

func (q *queue) post(f frame) {
	q.mu.Lock()
	q.frames = append(q.frames, f)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// next takes the oldest frame.
func (q *queue) next() (f frame, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.frames) == 0 {
		return f, false
	}
	f = q.frames[0]
	if q.frames = q.frames[1:]; len(q.frames) == 0 {
		q.frames = nil
	}
	return f, true
}

func (q *queue) run(ctx context.Context, handle func(frame) error) error {
	for ctx.Err() == nil {
		f, ok := q.next()
		if !ok {
			select {
			case <-q.wake:
			case <-ctx.Done():
			}
			continue
		}
		if err := handle(f); errors.Is(err, errEnough) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}
