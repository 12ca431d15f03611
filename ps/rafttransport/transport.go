package rafttransport

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Transport is the raft.Transport of one group, with raft.WithPreVote and raft.WithClose. raft calls its methods concurrently.
type Transport struct {
	mux       *Mux
	group     uint32
	log       Log
	rpcs      chan raft.RPC
	heartbeat atomic.Pointer[func(raft.RPC)]
	done      chan struct{}
	once      sync.Once
}

var (
	_ raft.Transport   = (*Transport)(nil)
	_ raft.WithPreVote = (*Transport)(nil)
	_ raft.WithClose   = (*Transport)(nil)
)

// Consumer implements raft.Transport.
func (t *Transport) Consumer() <-chan raft.RPC { return t.rpcs }

// LocalAddr is this server's id.
func (t *Transport) LocalAddr() raft.ServerAddress { return raft.ServerAddress(t.mux.cfg.Self) }

// EncodePeer implements raft.Transport: an address is an id, and stands for itself.
func (t *Transport) EncodePeer(_ raft.ServerID, addr raft.ServerAddress) []byte { return []byte(addr) }

// DecodePeer implements raft.Transport.
func (t *Transport) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

// SetHeartbeatHandler implements raft.Transport; the handler is called from many goroutines.
func (t *Transport) SetHeartbeatHandler(handler func(raft.RPC)) {
	if handler == nil {
		t.heartbeat.Store(nil)
		return
	}
	t.heartbeat.Store(&handler)
}

// Close ends what waits, in both directions, with ErrClosed. Call it before raft.Shutdown so that raft need not wait for dead peers;
// raft calls it again.
func (t *Transport) Close() error {
	t.once.Do(func() {
		t.mux.forget(t)
		close(t.done)
	})
	return nil
}

// AppendEntries implements raft.Transport. Heartbeats go by the control connection, everything else by the bulk connection, in parts
// when it is too much for one message.
func (t *Transport) AppendEntries(_ raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	p := t.mux.peer(target)
	if isHeartbeat(args) {
		return t.ask(&p.control, kindAppend, args, resp, t.mux.cfg.Timeout)
	}
	for _, part := range split(args, sendBatch) {
		if err := t.ask(&p.bulk, kindAppend, part, resp, bulkFactor*t.mux.cfg.Timeout); err != nil {
			return err
		}
		if !resp.Success {
			break
		}
	}
	return nil
}

// RequestVote implements raft.Transport.
func (t *Transport) RequestVote(_ raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return t.ask(&t.mux.peer(target).control, kindVote, args, resp, t.mux.cfg.Timeout)
}

// RequestPreVote implements raft.WithPreVote.
func (t *Transport) RequestPreVote(_ raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return t.ask(&t.mux.peer(target).control, kindPreVote, args, resp, t.mux.cfg.Timeout)
}

// TimeoutNow implements raft.Transport.
func (t *Transport) TimeoutNow(_ raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return t.ask(&t.mux.peer(target).control, kindTimeoutNow, args, resp, t.mux.cfg.Timeout)
}

// InstallSnapshot implements raft.Transport, on a connection of its own. It takes as long as bytes move or the receiver says that it
// is at work.
func (t *Transport) InstallSnapshot(_ raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	r, err := t.sendSnapshot(target, args, data)
	if err != nil {
		return err
	}
	return r.fill(target, resp)
}

// ask sends a request and waits for its answer. All of Raft's requests may be repeated: one that meets a connection which turns out to
// be dead (the peer was restarted) goes out again on a new one.
func (t *Transport) ask(l *lane, k kind, cmd, resp any, limit time.Duration) error {
	c, fresh, err := l.get(t.done)
	if err != nil {
		return err
	}
	r, err := t.roundTrip(c, k, cmd, limit)
	if !fresh && errors.Is(err, errLost) {
		if c, _, err = l.get(t.done); err != nil {
			return err
		}
		r, err = t.roundTrip(c, k, cmd, limit)
	}
	if err != nil {
		return err
	}
	return r.fill(l.id, resp)
}

func (t *Transport) roundTrip(c *conn, k kind, cmd any, limit time.Duration) (reply, error) {
	call, err := c.begin(t, k, cmd, limit)
	if err != nil {
		return reply{}, err
	}
	return c.wait(call, limit, t.done, nil)
}
