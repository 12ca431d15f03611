package shm

import "hcclps/p2p"

// transfer is a message that this side sends or receives: from or into buf, or piece by piece through a function.
type transfer struct {
	buf   []byte // what is left of it
	n     int
	piece func([]byte) error
	end   uint64 // of a send: where the message ends in the stream of its ring
	done  p2p.Completion
}

// move passes one piece of shared memory to or from the transfer's own memory, of which it is the next.
func (t *transfer) next(n int) []byte {
	b := t.buf[:n]
	t.buf = t.buf[n:]
	return b
}

// queue is a first-in, first-out list that reuses its memory.
type queue struct {
	items []transfer
	head  int
}

func (q *queue) len() int { return len(q.items) - q.head }

// front is the oldest; it may be changed in place.
func (q *queue) front() *transfer { return &q.items[q.head] }

func (q *queue) push(t transfer) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, t)
}

func (q *queue) pop() transfer {
	t := q.items[q.head]
	q.items[q.head] = transfer{}
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return t
}

// take moves all of from to the end of q.
func (q *queue) take(from *queue) {
	for from.len() > 0 {
		q.push(from.pop())
	}
}

// fail ends all with err.
func (q *queue) fail(err error) {
	for q.len() > 0 {
		q.pop().done.Complete(err)
	}
}
