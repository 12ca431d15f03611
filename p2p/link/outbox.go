package link

import "sync"

// outboxRoom is how many bytes of calls and replies wait for the writer before their senders wait too.
const outboxRoom = 256 << 10

// outbox collects the frames of a connection for its writer, which takes all that is there at once: many small calls become
// one write. Frames are copied in, so a sender's memory is free when post or send returns.
type outbox struct {
	wake chan struct{} // one token: there is something to write

	mu    sync.Mutex
	buf   []byte
	spare []byte
	room  chan struct{} // closed when buf is taken; nil while nobody waits
}

func newOutbox() *outbox {
	return &outbox{wake: make(chan struct{}, 1)}
}

// post adds a frame at once. It is for frames whose number is bounded by others: grants, cancels, heartbeats.
func (o *outbox) post(f frame) {
	o.mu.Lock()
	o.buf = appendFrame(o.buf, f)
	o.mu.Unlock()
	o.signal()
}

// send adds a call or reply as soon as there is room. It reports false if one of the two channels was closed first. A peer that takes
// nothing ends the connection, and one of them with it.
func (o *outbox) send(f frame, body [][]byte, done, gone <-chan struct{}) bool {
	for {
		o.mu.Lock()
		if len(o.buf) < outboxRoom {
			o.buf = appendFrame(o.buf, f, body...)
			o.mu.Unlock()
			o.signal()
			return true
		}
		if o.room == nil {
			o.room = make(chan struct{})
		}
		room := o.room
		o.mu.Unlock()
		select {
		case <-room:
		case <-done:
			return false
		case <-gone:
			return false
		}
	}
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take gives the writer all that waits. The memory is the writer's until its next take.
func (o *outbox) take() []byte {
	o.mu.Lock()
	b := o.buf
	o.buf, o.spare = o.spare[:0], b
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
	o.mu.Unlock()
	return b
}
