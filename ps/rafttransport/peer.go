package rafttransport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/p2p/link"
)

const (
	backoffMin = 20 * time.Millisecond
	backoffMax = 500 * time.Millisecond
)

// peer is a server that requests are sent to.
type peer struct {
	control, bulk lane
}

// lane is the one connection to a peer for one purpose, made when it is needed.
type lane struct {
	mux     *Mux
	id      raft.ServerAddress
	purpose link.Purpose
	other   *lane // goes down with this one, so that a dead peer is noticed once

	mu       sync.Mutex // never held over I/O or a wait
	conn     *conn
	dialling *dialling
	failures int
	retryAt  time.Time
	lastErr  error
}

// dialling is one attempt that several requests may wait for.
type dialling struct {
	done chan struct{}
	conn *conn
	err  error
}

// get gives the connection; fresh says that it was made for this call.
func (l *lane) get(give <-chan struct{}) (c *conn, fresh bool, err error) {
	l.mu.Lock()
	if l.conn != nil && l.conn.alive() {
		defer l.mu.Unlock()
		return l.conn, false, nil
	}
	d := l.dialling
	if d == nil {
		if time.Now().Before(l.retryAt) {
			defer l.mu.Unlock()
			return nil, false, l.lastErr
		}
		d = &dialling{done: make(chan struct{})}
		l.dialling = d
		l.mu.Unlock()
		if err := l.mux.start(func(ctx context.Context) { l.live(ctx, d) }); err != nil {
			l.settle(d, nil, err)
		}
	} else {
		l.mu.Unlock()
	}
	select {
	case <-d.done:
		return d.conn, true, d.err
	case <-give:
		return nil, false, ErrClosed
	}
}

// settle ends an attempt.
func (l *lane) settle(d *dialling, c *conn, err error) {
	l.mu.Lock()
	l.conn, l.dialling = c, nil
	if err != nil {
		l.failed(err)
	}
	l.mu.Unlock()
	d.conn, d.err = c, err
	close(d.done)
}

// failed sets the back-off. The caller holds mu.
func (l *lane) failed(err error) {
	wait := min(backoffMin<<min(l.failures, 10), backoffMax)
	l.failures++
	l.lastErr = err
	l.retryAt = time.Now().Add(wait/2 + rand.N(wait/2+1))
}

// live is the life of a connection: dial, read answers until it fails.
func (l *lane) live(ctx context.Context, d *dialling) {
	nc, err := l.mux.dial(ctx, l.id, l.purpose)
	if err != nil {
		l.settle(d, nil, err)
		l.mux.log.Debug("cannot reach server", "server", string(l.id), "purpose", l.purpose.String(), "err", err)
		return
	}
	c := newConn(l.mux, l.id, nc)
	stop := context.AfterFunc(ctx, func() { c.fail(ErrClosed) })
	defer stop()
	l.settle(d, c, nil)
	c.fail(c.read())

	l.mu.Lock()
	if l.conn == c {
		l.conn = nil
	}
	if c.heard.Load() == 0 {
		l.failed(c.lost())
	} else {
		l.failures = 0
	}
	l.mu.Unlock()
	if l.other != nil {
		l.other.reset(fmt.Errorf("the control connection failed: %w", c.cause()))
	}
	if !errors.Is(c.cause(), ErrClosed) {
		l.mux.log.Info("lost connection to server", "peer", string(l.id), "purpose", l.purpose.String(), "err", c.cause())
	}
}

// reset closes the connection, if there is one.
func (l *lane) reset(err error) {
	l.mu.Lock()
	c := l.conn
	l.mu.Unlock()
	if c != nil {
		c.fail(err)
	}
}
