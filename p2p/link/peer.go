package link

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// After a failed dial an address rests, so that calls to a dead server fail at once instead of waiting for a time-out each.
const (
	minRest = 20 * time.Millisecond
	maxRest = 500 * time.Millisecond

	unusableRest = 5 * time.Second // after ErrUnusable
)

// peer is one address of a Client. Its loop connects when a call wants it and keeps the connection until it fails.
type peer struct {
	client *Client
	addr   string
	want   chan struct{} // one token: a call waits for a connection

	mu      sync.Mutex
	live    *caller       // nil while there is no connection
	fails   int           // dials that failed, ever
	err     error         // of the last one
	rest    time.Duration // how long that one is remembered
	until   time.Time
	changed chan struct{} // closed and replaced when any of these change
}

func newPeer(c *Client, addr string) *peer {
	return &peer{client: c, addr: addr, want: make(chan struct{}, 1), changed: make(chan struct{})}
}

// run connects on demand until ctx ends. A connection that has failed may still be letting go of its memory while the next one is made.
func (p *peer) run(ctx context.Context) {
	var sessions sync.WaitGroup
	defer sessions.Wait()
	for {
		select {
		case <-p.want:
		case <-ctx.Done():
			return
		}
		s, err := p.connect(ctx)
		if ctx.Err() != nil && err != nil {
			return // calls see that the client stopped
		}
		if err != nil {
			p.failed(err)
			p.client.opt.logger.Debug("connect failed", "addr", p.addr, "err", err)
			continue
		}
		p.client.opt.logger.Debug("connected", "addr", p.addr, "peer", s.peer.From, "info", s.peer.Info)
		p.set(s)
		sessions.Go(func() { _ = s.run(ctx) })
		<-s.done
		p.set(nil)
		if errors.Is(s.err, ErrUnusable) {
			p.refused(s.err)
		}
		p.client.remember(s.moves.Stats())
		p.client.opt.logger.Debug("connection closed", "addr", p.addr, "peer", s.peer.From, "reason", s.err)
	}
}

// connect dials the control connection.
func (p *peer) connect(ctx context.Context) (*caller, error) {
	pair := rand.Uint64()
	conn, hello, err := p.dial(ctx, Hello{Purpose: Control, Pair: pair})
	if err != nil {
		return nil, err
	}
	return newCaller(p.client.opt, conn, hello, p.addr, func(ctx context.Context, h Hello) (net.Conn, error) {
		h.Pair, h.To = pair, hello.From
		conn, _, err := p.dial(ctx, h)
		return conn, err
	})
}

// dial opens a connection and introduces us: h says for what.
func (p *peer) dial(ctx context.Context, h Hello) (net.Conn, Hello, error) {
	cfg := p.client.cfg
	dctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, fmt.Errorf("no connection within %v", dialTimeout))
	defer cancel()
	conn, err := cfg.Network.Dial(dctx, p.addr)
	if err != nil {
		return nil, Hello{}, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	h.Cluster, h.From, h.Info = cfg.Cluster, cfg.ID, cfg.Info
	hello, err := SendHello(ctx, conn, h)
	if err != nil {
		_ = conn.Close()
		return nil, Hello{}, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return conn, hello, nil
}

// set tells the waiting calls that the connection is there or gone. A stale wish for one is forgotten.
func (p *peer) set(s *caller) {
	select {
	case <-p.want:
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live, p.err, p.rest = s, nil, 0
	p.notify()
}

// failed remembers a failed dial for a while that doubles each time.
func (p *peer) failed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fails++
	p.err = err
	p.rest = min(max(2*p.rest, minRest), maxRest)
	p.until = time.Now().Add(p.rest/2 + rand.N(p.rest/2))
	p.notify()
}

// refused keeps calls from trying a pair again that cannot be used.
func (p *peer) refused(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	p.until = time.Now().Add(unusableRest)
	p.notify()
}

func (p *peer) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// session returns the live connection, making one if need be.
func (p *peer) session(ctx context.Context) (*caller, error) {
	asked := -1 // fails when this call began to wait
	for {
		if p.client.hasStopped() {
			return nil, ErrStopped
		}
		p.mu.Lock()
		s, err, changed := p.live, p.err, p.changed
		resting := err != nil && time.Now().Before(p.until)
		fresh := asked >= 0 && p.fails > asked
		if asked < 0 {
			asked = p.fails
		}
		p.mu.Unlock()
		switch {
		case s != nil && !s.dead():
			return s, nil
		case err != nil && (resting || fresh):
			return nil, err
		}
		if s == nil {
			select {
			case p.want <- struct{}{}:
			default:
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, context.Cause(ctx))
		case <-p.client.stopped:
			return nil, ErrStopped
		}
	}
}
