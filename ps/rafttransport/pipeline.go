package rafttransport

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// pipelineDepth is the number of messages in flight to one follower of one group. More was no gain (hashicorp/raft#541 and our own
// measurements), and it bounds the space in the follower's log that is waiting.
const pipelineDepth = 2

// pipeline is a raft.AppendPipeline on the bulk connection that all groups share.
type pipeline struct {
	t     *Transport
	conn  *conn
	slots chan struct{} // taken by messages in flight
	sent  chan sent
	out   chan raft.AppendFuture

	closed chan struct{}
	once   sync.Once
	failed chan struct{} // by run, after err
	err    error
}

// sent is a message in flight.
type sent struct {
	call *call
	f    *future
	last bool // of the parts of its request
}

// future is a raft.AppendFuture.
type future struct {
	p     *pipeline
	start time.Time
	args  *raft.AppendEntriesRequest
	resp  *raft.AppendEntriesResponse
	done  chan struct{}
	err   error
}

func (f *future) Start() time.Time                      { return f.start }
func (f *future) Request() *raft.AppendEntriesRequest   { return f.args }
func (f *future) Response() *raft.AppendEntriesResponse { return f.resp }

// Error waits for the answer.
func (f *future) Error() error {
	select {
	case <-f.done:
		return f.err
	case <-f.p.failed:
		if f.settled() {
			return f.err
		}
		return f.p.err
	}
}

func (f *future) settled() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// AppendEntriesPipeline implements raft.Transport.
func (t *Transport) AppendEntriesPipeline(_ raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	c, _, err := t.mux.peer(target).bulk.get(t.done)
	if err != nil {
		return nil, err
	}
	p := &pipeline{
		t: t, conn: c,
		slots: make(chan struct{}, pipelineDepth), sent: make(chan sent, pipelineDepth), out: make(chan raft.AppendFuture, pipelineDepth),
		closed: make(chan struct{}), failed: make(chan struct{}),
	}
	if err := t.mux.start(p.run); err != nil {
		return nil, err
	}
	return p, nil
}

// Consumer implements raft.AppendPipeline. A request that failed comes out once, its response without success, as from raft's own
// transport: it makes raft leave the pipeline at once.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.out }

// Close implements raft.AppendPipeline; the connection stays for the other groups.
func (p *pipeline) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// AppendEntries implements raft.AppendPipeline. It waits while too much is in flight.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	f := &future{p: p, start: time.Now(), args: args, resp: resp, done: make(chan struct{})}
	parts := split(args, sendBatch)
	for i, part := range parts {
		select {
		case <-p.closed:
			return nil, raft.ErrPipelineShutdown
		case <-p.failed:
			return nil, p.err
		default:
		}
		select {
		case p.slots <- struct{}{}:
		case <-f.done: // a part was refused: the rest would be too
			return f, nil
		case <-p.closed:
			return nil, raft.ErrPipelineShutdown
		case <-p.failed:
			return nil, p.err
		case <-p.t.done:
			return nil, ErrClosed
		}
		call, err := p.conn.begin(p.t, kindAppend, part, bulkFactor*p.t.mux.cfg.Timeout)
		if err != nil {
			<-p.slots
			return nil, err
		}
		p.sent <- sent{call: call, f: f, last: i == len(parts)-1} // there is room for all that have slots
	}
	return f, nil
}

// run takes the answers in the order of the requests.
func (p *pipeline) run(ctx context.Context) {
	defer close(p.failed)
	p.err = raft.ErrPipelineShutdown
	for {
		var s sent
		select {
		case s = <-p.sent:
		case <-p.closed:
			return
		case <-p.t.done:
			p.err = ErrClosed
			return
		case <-ctx.Done():
			p.err = ErrClosed
			return
		}
		r, err := p.conn.wait(s.call, bulkFactor*p.t.mux.cfg.Timeout, p.t.done, p.closed)
		<-p.slots
		if s.f.settled() {
			continue
		}
		if err == nil {
			err = r.fill(p.conn.id, s.f.resp)
		}
		if err == nil && s.f.resp.Success && !s.last {
			continue
		}
		if err != nil {
			p.err = err
		}
		s.f.err = err
		close(s.f.done)
		select {
		case p.out <- s.f:
		case <-p.closed:
			return
		case <-p.t.done:
		}
		if err != nil {
			return
		}
	}
}
