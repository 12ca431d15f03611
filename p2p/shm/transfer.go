package shm

import "hcclps/p2p"

// transfer is a message that this side sends or receives: from or into buf, or piece by piece through a function.
type transfer struct {
	buf   []byte // what is left of it
	n     int
	piece func([]byte) error
	done  p2p.Completion
}

// move passes one piece of shared memory to or from the transfer's own memory, of which it is the next.
func (t *transfer) next(n int) []byte {
	b := t.buf[:n]
	t.buf = t.buf[n:]
	return b
}

// leaving is a send that is in the ring to its end.
type leaving struct {
	end  uint64 // where it ends in the stream of its ring
	done p2p.Completion
}

// queue is a first-in, first-out list that reuses its memory.
type queue[T any] struct {
	items []T
	head  int
}

func (q *queue[T]) len() int { return len(q.items) - q.head }

// front is the oldest; it may be changed in place.
func (q *queue[T]) front() *T { return &q.items[q.head] }

func (q *queue[T]) push(t T) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, t)
}

// drop removes the oldest.
func (q *queue[T]) drop() {
	var none T
	q.items[q.head] = none
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
}

// take moves all of from to the end of q.
func (q *queue[T]) take(from *queue[T]) {
	for ; from.len() > 0; from.drop() {
		q.push(*from.front())
	}
}

// fail ends all of q with err.
func fail(q *queue[transfer], err error) {
	for q.len() > 0 {
		done := q.front().done
		q.drop()
		done.Complete(err)
	}
}
