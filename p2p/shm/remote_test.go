package shm_test

import (
	"context"
	"encoding/gob"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/p2ptest"
	"hcclps/p2p/shm"
)

// remote is the Comm of the peer process, for the suite, which wants both ranks in its own process. It gives orders over a second
// connection and gets one result for each.
type remote struct {
	mu      sync.Mutex
	enc     *gob.Encoder
	orders  int
	pending map[int]waiting
}

type waiting struct {
	buf  []byte // nil for a send
	done p2p.Completion
}

type order struct {
	ID    int
	Op    string // send, recv or close
	Peer  int
	Bytes []byte
	N     int
}

type result struct {
	ID    int
	Bytes []byte
	Err   string
	Is    []int // of sentinels
}

func sentinels() []error {
	return []error{p2p.ErrClosed, p2p.ErrPeer, p2p.ErrLength, p2p.ErrRank, p2p.ErrCorrupt}
}

// remoteError is an error of the other process.
type remoteError struct{ result }

func (e remoteError) Error() string { return "remote: " + e.Err }

func (e remoteError) Is(target error) bool {
	for _, i := range e.result.Is {
		if sentinels()[i] == target {
			return true
		}
	}
	return false
}

func (r *remote) Rank() int { return 1 }
func (r *remote) Size() int { return 2 }

func (r *remote) Isend(peer int, b p2p.Buffer) *p2p.Request {
	return r.give(order{Op: "send", Peer: peer, Bytes: b.Host()}, nil)
}

func (r *remote) Irecv(peer int, b p2p.Buffer) *p2p.Request {
	return r.give(order{Op: "recv", Peer: peer, N: b.Len()}, b.Host())
}

func (r *remote) Close() error { return r.give(order{Op: "close"}, nil).Wait(context.Background()) }

func (r *remote) give(o order, buf []byte) *p2p.Request {
	req, done := p2p.NewRequest()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.orders++
	o.ID = r.orders
	r.pending[o.ID] = waiting{buf, done}
	if err := r.enc.Encode(o); err != nil {
		return p2p.Failed(err)
	}
	return req
}

func (r *remote) listen(conn net.Conn) {
	dec := gob.NewDecoder(conn)
	for {
		var res result
		if dec.Decode(&res) != nil {
			return // the test is over
		}
		r.mu.Lock()
		w := r.pending[res.ID]
		delete(r.pending, res.ID)
		r.mu.Unlock()
		if res.Err != "" {
			w.done.Complete(remoteError{res})
			continue
		}
		copy(w.buf, res.Bytes)
		w.done.Complete(nil)
	}
}

// playRemote does what the orders say.
func playRemote(ctx context.Context, c *shm.Comm, conn net.Conn) error {
	var mu sync.Mutex
	enc, dec := gob.NewEncoder(conn), gob.NewDecoder(conn)
	answer := func(id int, err error, b []byte) {
		mu.Lock()
		defer mu.Unlock()
		res := result{ID: id, Bytes: b}
		if err != nil {
			res.Err = err.Error()
			for i, s := range sentinels() {
				if errors.Is(err, s) {
					res.Is = append(res.Is, i)
				}
			}
		}
		_ = enc.Encode(res) // fails when the test is over
	}
	for {
		var o order
		if err := dec.Decode(&o); errors.Is(err, io.EOF) {
			return nil // the test is over
		} else if err != nil {
			return err
		}
		switch o.Op {
		case "send":
			r := c.Isend(o.Peer, p2p.Bytes(o.Bytes))
			go func() { answer(o.ID, r.Wait(ctx), nil) }()
		case "recv":
			b := make([]byte, o.N)
			r := c.Irecv(o.Peer, p2p.Bytes(b))
			go func() { answer(o.ID, r.Wait(ctx), b) }()
		default:
			answer(o.ID, c.Close(), nil)
		}
	}
}

func TestProcesses(t *testing.T) {
	for _, network := range []string{"unix", "tcp"} {
		t.Run(network, func(t *testing.T) {
			p2ptest.TestComm(t, func(t *testing.T, n int) []p2p.Comm {
				t.Helper()
				if n != 2 {
					t.Skip("a pair has two ranks")
				}
				p := startPeer(t, network, "remote")
				t.Cleanup(func() { _ = p.control.Close() })
				r := &remote{enc: gob.NewEncoder(p.control), pending: make(map[int]waiting)}
				go r.listen(p.control)
				return []p2p.Comm{p.join(t, shm.Config{}), r}
			})
		})
	}
}

// network and address of the other process in one variable.
func dialPeer(ctx context.Context, where string) (net.Conn, error) {
	network, addr, _ := strings.Cut(where, " ")
	return (&net.Dialer{}).DialContext(ctx, network, addr)
}
