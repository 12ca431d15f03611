package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"hcclps/internal/trace"
	"hcclps/p2p"
)

// Handler answers requests. Serve runs in a goroutine of its own for each request and must call Reply once before it
// returns. ctx ends when the caller cancels (cause ErrCancelled), its connection dies (ErrPeer), the server stops
// (ErrStopped) or its time is over (context.DeadlineExceeded). r is not used after Serve returns.
type Handler interface {
	Serve(ctx context.Context, r *Request)
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, r *Request)

// Serve calls f.
func (f HandlerFunc) Serve(ctx context.Context, r *Request) { f(ctx, r) }

// ServerConfig describes a Server. Handler and Pair are needed, all else has a good default.
type ServerConfig struct {
	Handler   Handler
	Pair      PairFunc
	Upgrade   UpgradeFunc     // nil = what Pair makes is good enough
	Heartbeat time.Duration   // default 500 ms
	Suspect   time.Duration   // default 2 s: nothing heard for so long, and the caller is taken for dead
	Timeout   time.Duration   // bound of a handler, its reply included; default 2 min
	Logger    *slog.Logger    // nil = discard
	Trace     *trace.Recorder // gets the transfers of large bodies; nil = nobody
	Limits
}

// Server answers calls on connections that a Gate let pass.
type Server struct {
	cfg  ServerConfig
	opt  options
	wake chan struct{} // one token: fresh has changed

	mu      sync.Mutex
	past    p2p.Stats    // of connections that are over
	fresh   []*responder // accepted, not yet running
	pairs   map[pairKey]*responder
	started bool
	stopped bool
}

// pairKey names a control connection, for the bulk connection that belongs to it.
type pairKey struct {
	from string
	pair uint64
}

// NewServer checks the configuration. It starts nothing.
func NewServer(cfg ServerConfig) (*Server, error) {
	opt := options{pair: cfg.Pair, upgrade: cfg.Upgrade, heartbeat: cfg.Heartbeat, suspect: cfg.Suspect, Limits: cfg.Limits, logger: cfg.Logger, trace: cfg.Trace}
	err := opt.setDefaults()
	if cfg.Timeout == 0 {
		cfg.Timeout = 2 * time.Minute
	}
	if cfg.Timeout < 0 {
		err = errors.Join(err, fmt.Errorf("timeout %v is below zero", cfg.Timeout))
	}
	if cfg.Handler == nil {
		err = errors.Join(err, errors.New("handler is nil"))
	}
	if err != nil {
		return nil, fmt.Errorf("configure link server: %w", err)
	}
	return &Server{cfg: cfg, opt: opt, wake: make(chan struct{}, 1), pairs: make(map[pairKey]*responder)}, nil
}

// Run owns all goroutines and connections of the server. It returns when ctx has ended, handlers have returned and everything is closed; nil.
func (s *Server) Run(ctx context.Context) error {
	s.mu.Lock()
	again := s.started
	s.started = true
	s.mu.Unlock()
	if again {
		return errors.New("run link server: it ran already")
	}
	var conns sync.WaitGroup
	for ctx.Err() == nil {
		for _, r := range s.takeFresh() {
			conns.Go(func() { s.serve(ctx, r) })
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	for _, r := range s.takeFresh() {
		_ = r.conn.Close()
		r.drop()
	}
	conns.Wait()
	return nil
}

func (s *Server) takeFresh() []*responder {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := s.fresh
	s.fresh = nil
	return fresh
}

func (s *Server) serve(ctx context.Context, r *responder) {
	s.opt.logger.Debug("connection opened", "peer", r.peer.From, "addr", r.addr, "info", r.peer.Info)
	err := r.serve(ctx)
	s.mu.Lock()
	delete(s.pairs, pairKey{r.peer.From, r.peer.Pair})
	s.past = s.past.Plus(r.moves.Stats())
	s.mu.Unlock()
	r.drop() // no other can come now
	if errors.Is(err, ErrUnusable) {
		s.opt.logger.Warn("connection closed", "peer", r.peer.From, "addr", r.addr, "reason", err)
		return
	}
	s.opt.logger.Debug("connection closed", "peer", r.peer.From, "addr", r.addr, "reason", err)
}

// Stats sums up what all connections moved in large bodies.
func (s *Server) Stats() p2p.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := s.past
	for _, r := range s.pairs {
		sum = sum.Plus(r.moves.Stats())
	}
	return sum
}

// Accept hands over a connection whose hello was for Control, Bulk or Upgrade; the Server closes it, at once when it cannot use it.
func (s *Server) Accept(conn net.Conn, h Hello) {
	if err := s.accept(conn, h); err != nil {
		s.opt.logger.Warn("close connection", "peer", h.From, "addr", conn.RemoteAddr().String(), "purpose", h.Purpose.String(), "err", err)
		_ = conn.Close()
	}
}

func (s *Server) accept(conn net.Conn, h Hello) error {
	key := pairKey{h.From, h.Pair}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped:
		return ErrStopped
	case h.Purpose == Control:
		if s.pairs[key] != nil {
			return fmt.Errorf("%w: pair %x is connected already", ErrMalformed, h.Pair)
		}
		r, err := newResponder(s.opt, s.cfg, conn, h)
		if err != nil {
			return err
		}
		s.pairs[key] = r
		s.fresh = append(s.fresh, r)
		select {
		case s.wake <- struct{}{}:
		default:
		}
		return nil
	case h.Purpose != Bulk && h.Purpose != Upgrade:
		return fmt.Errorf("%w: not a purpose of this server", ErrMalformed)
	}
	r := s.pairs[key]
	if r == nil {
		return fmt.Errorf("%w: no control connection of pair %x", ErrMalformed, h.Pair)
	}
	if h.Purpose == Upgrade {
		return r.offerUpgrade(conn, h.Epoch)
	}
	return r.stripes.add(conn, h)
}
