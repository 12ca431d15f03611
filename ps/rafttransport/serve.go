package rafttransport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/p2p/link"
)

const (
	// maxServed bounds the control requests of one peer that are served at once; the rest wait unread.
	maxServed = 256
	// maxQueued bounds the appends of one group and peer that wait for raft. A follower that keeps to pipelineDepth never meets it.
	maxQueued = 8
)

// inbound is a connection that a peer dialled: requests come in, answers go out.
type inbound struct {
	mux  *Mux
	nc   net.Conn
	in   *frameReader
	turn chan struct{} // held by who writes
	work sync.WaitGroup
}

// serve is the life of a connection that was accepted.
func (m *Mux) serve(ctx context.Context, nc net.Conn, h link.Hello, requests func(context.Context, *inbound) error) {
	most := maxHead
	if h.Purpose == link.RaftControl {
		most = maxControlHead
	}
	c := &inbound{mux: m, nc: nc, in: newFrameReader(nc, most), turn: make(chan struct{}, 1)}
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	err := requests(ctx, c)
	stop()
	_ = nc.Close()
	c.work.Wait()
	if errors.Is(err, errMalformed) {
		m.log.Warn("close raft connection", "from", h.From, "purpose", h.Purpose.String(), "err", err)
	}
}

// answer sends a reply. A peer that does not take it loses the connection.
func (c *inbound) answer(q *request, r reply) {
	b, err := appendReply(make([]byte, 0, 64), q, r)
	if err == nil {
		err = c.write(b)
	}
	if err != nil {
		_ = c.nc.Close()
	}
}

func (c *inbound) write(b []byte) error {
	c.turn <- struct{}{} // held for Timeout at most
	defer func() { <-c.turn }()
	if err := c.nc.SetWriteDeadline(time.Now().Add(c.mux.cfg.Timeout)); err != nil {
		return err
	}
	_, err := c.nc.Write(b)
	return err
}

// next reads a request and finds its group; no group means a refusal.
func (c *inbound) next() (q *request, t *Transport, refused reply, err error) {
	f, err := c.in.next()
	if err != nil {
		return nil, nil, reply{}, err
	}
	if q, err = decodeRequest(f); err != nil {
		return nil, nil, reply{}, err
	}
	if q.to != c.mux.cfg.Self {
		return q, nil, reply{status: statusRecipient, text: fmt.Sprintf("the message is for server %s, this is %s", q.to, c.mux.cfg.Self)}, nil
	}
	if t = c.mux.group(q.group); t == nil {
		return q, nil, refusal("group %d is not running here", q.group), nil
	}
	return q, t, reply{}, nil
}

// serveControl serves each request in a goroutine of its own: one that waits for raft holds up nobody's heartbeats.
func (m *Mux) serveControl(ctx context.Context, c *inbound) error {
	slots := make(chan struct{}, maxServed)
	for {
		q, t, refused, err := c.next()
		if err != nil {
			return err
		}
		if q.size > 0 || q.kind == kindInstall {
			return fmt.Errorf("%w: %d bytes of payload on a control connection", errMalformed, q.size)
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		c.work.Go(func() {
			defer func() { <-slots }()
			if t != nil {
				refused = t.deliver(ctx, q.cmd, nil)
			}
			c.answer(q, refused)
		})
	}
}

// job is an append that waits for raft, its payloads in the log's space.
type job struct {
	q       *request
	t       *Transport
	release func()
}

// queue holds the jobs of one group. A goroutine works on it while there are any.
type queue struct {
	jobs chan job

	mu      sync.Mutex
	working bool
}

// serveBulk reads appends and lets each group take its own in order.
func (m *Mux) serveBulk(ctx context.Context, c *inbound) error {
	queues := map[uint32]*queue{}
	trusted := m.cfg.SameHost(c.nc.RemoteAddr().String())
	for {
		q, t, refused, err := c.next()
		if err != nil {
			return err
		}
		if q.kind != kindAppend {
			return fmt.Errorf("%w: kind %d on a bulk connection", errMalformed, q.kind)
		}
		line := queues[q.group]
		if t != nil && line == nil {
			line = &queue{jobs: make(chan job, maxQueued)}
			queues[q.group] = line
		}
		if t != nil && len(line.jobs) == maxQueued {
			t, refused = nil, refusal("busy: %d messages of group %d are waiting for raft", maxQueued, q.group)
		}
		release, full, err := c.payloads(q, t, trusted)
		switch {
		case err != nil:
			return err
		case full != nil:
			t, refused = nil, refusal("%v", full)
		}
		if t == nil {
			c.answer(q, refused)
			continue
		}
		line.add(ctx, c, job{q, t, release})
	}
}

// payloads reads what follows the head of an append, into the log of t, or away if t is nil or its log is full.
func (c *inbound) payloads(q *request, t *Transport, trusted bool) (release func(), full *allocError, err error) {
	release = func() {}
	if q.size == 0 {
		return release, nil, nil
	}
	if err := c.nc.SetReadDeadline(time.Now().Add(bulkFactor * c.mux.cfg.Timeout)); err != nil {
		return nil, nil, err
	}
	if t != nil {
		release, err = receive(c.in.r, q, t.log, trusted)
	} else {
		_, err = io.CopyN(io.Discard, c.in.r, q.size)
	}
	if err != nil && !errors.As(err, &full) {
		return nil, nil, err
	}
	if err := c.nc.SetReadDeadline(time.Time{}); err != nil {
		if full == nil {
			release()
		}
		return nil, nil, err
	}
	return release, full, nil
}

// add is called by one goroutine, which has seen that there is room.
func (l *queue) add(ctx context.Context, c *inbound, j job) {
	l.jobs <- j
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.working {
		l.working = true
		c.work.Go(func() { l.run(ctx, c) })
	}
}

func (l *queue) run(ctx context.Context, c *inbound) {
	for {
		select {
		case j := <-l.jobs:
			r := j.t.deliver(ctx, j.q.cmd, nil)
			j.release()
			c.answer(j.q, r)
			continue
		default:
		}
		l.mu.Lock()
		if len(l.jobs) == 0 {
			l.working = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
	}
}

// deliver gives a request to raft and returns raft's answer. What raft has taken it answers, and nothing else may use the payloads
// until then; what it does not take within the bulk time-out, or before the group is closed, is refused.
func (t *Transport) deliver(ctx context.Context, cmd any, data io.Reader) reply {
	answer := make(chan raft.RPCResponse, 1)
	rpc := raft.RPC{Command: cmd, Reader: data, RespChan: answer}
	if a, ok := cmd.(*raft.AppendEntriesRequest); ok && isHeartbeat(a) {
		if handler := t.heartbeat.Load(); handler != nil {
			(*handler)(rpc)
			select {
			case r := <-answer:
				return replyOf(r)
			default: // it has been shut down
				return refusal("group %d is shutting down", t.group)
			}
		}
	}
	timer := time.NewTimer(bulkFactor * t.mux.cfg.Timeout)
	defer timer.Stop()
	select {
	case t.rpcs <- rpc:
		return replyOf(<-answer)
	case <-t.done:
		return refusal("group %d is closed", t.group)
	case <-ctx.Done():
		return refusal("the server is stopping")
	case <-timer.C:
		return refusal("busy: raft of group %d takes nothing", t.group)
	}
}
