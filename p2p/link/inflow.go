package link

import (
	"context"
	"sync"

	"hcclps/p2p"
)

// receiving is one large body on its way in. All but the constant fields belong to the inflow's mutex.
type receiving struct {
	id   uint64
	pri  Priority
	buf  []byte
	done chan struct{} // closed when buf is full, or the receiving has ended otherwise; the Comm has let go of buf then

	posted  int    // bytes granted
	chunk   uint32 // number of the next chunk
	flying  int    // chunks granted and not yet received
	aborted bool
	ended   bool
	err     error // read after done
}

func newReceiving(id uint64, pri Priority, buf []byte) *receiving {
	return &receiving{id: id, pri: pri, buf: buf, done: make(chan struct{})}
}

// inflow is the receiving half of a bulk Comm: it decides which chunk comes next, posts its receive and grants it to the sender. So both
// sides agree on the order, and nothing comes that was not asked for. Its loop alone posts receives.
type inflow struct {
	window int           // chunks in flight
	size   int           // bytes of a chunk
	grant  func(frame)   // posts a frame on the control connection
	wake   chan struct{} // one token: the queues or the aborts have changed

	mu     sync.Mutex
	queues [priorities][]*receiving // first come, first served within a class
}

func newInflow(window, size int, grant func(frame)) *inflow {
	return &inflow{window: window, size: size, grant: grant, wake: make(chan struct{}, 1)}
}

// add queues r.
func (in *inflow) add(r *receiving) {
	in.mu.Lock()
	in.queues[r.pri] = append(in.queues[r.pri], r)
	in.mu.Unlock()
	in.signal()
}

// abort ends r. No chunk of it is granted when abort has returned; those on their way are drained before r.done is closed.
func (in *inflow) abort(r *receiving, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if r.aborted || r.ended {
		return
	}
	r.aborted, r.err = true, err
	q := in.queues[r.pri]
	for i := range q {
		if q[i] == r {
			in.queues[r.pri] = append(q[:i:i], q[i+1:]...)
			break
		}
	}
	r.finish()
}

// finish closes done if nothing is on its way any more. The mutex is held.
func (r *receiving) finish() {
	if !r.ended && r.flying == 0 && (r.aborted || r.posted == len(r.buf)) {
		r.ended = true
		close(r.done)
	}
}

func (in *inflow) signal() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// arriving is a chunk whose receive is posted.
type arriving struct {
	of  *receiving
	req *p2p.Request
}

// next picks the chunk to ask for next, of the most urgent class.
func (in *inflow) next() (r *receiving, buf []byte, chunk uint32) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for pri, q := range in.queues {
		if len(q) == 0 {
			continue
		}
		r = q[0]
		buf = r.buf[r.posted:min(r.posted+in.size, len(r.buf))]
		chunk = r.chunk
		r.posted += len(buf)
		r.chunk++
		r.flying++
		if r.posted == len(r.buf) {
			q[0] = nil
			in.queues[pri] = q[1:]
		}
		return r, buf, chunk
	}
	return nil, nil, 0
}

// landed notes that a chunk has arrived, or failed with err.
func (in *inflow) landed(r *receiving, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	r.flying--
	if err != nil && !r.aborted {
		r.aborted, r.err = true, err
	}
	r.finish()
}

// run moves chunks from peer until the Comm fails or ctx ends, then closes the Comm, which ends what is in flight. It returns the Comm's
// error or nil.
func (in *inflow) run(ctx context.Context, comm Comm, peer int) error {
	var flying []arriving
	for {
		for len(flying) < in.window {
			r, buf, chunk := in.next()
			if r == nil {
				break
			}
			flying = append(flying, arriving{of: r, req: comm.Irecv(peer, p2p.Bytes(buf))})
			in.grant(frame{kind: kindGrant, id: r.id, chunk: chunk, bytes: uint32(len(buf))})
		}
		var first <-chan struct{}
		if len(flying) > 0 {
			first = flying[0].req.Done()
		}
		select {
		case <-in.wake:
		case <-first:
			err := result(ctx, flying[0].req)
			in.landed(flying[0].of, err)
			flying = flying[1:]
			if err != nil {
				in.drain(ctx, comm, flying)
				return err
			}
		case <-ctx.Done():
			in.drain(ctx, comm, flying)
			return nil
		}
	}
}

func (in *inflow) drain(ctx context.Context, comm Comm, flying []arriving) {
	_ = comm.Close() // what it could tell is told by the requests
	for _, a := range flying {
		in.landed(a.of, result(ctx, a.req))
	}
}
