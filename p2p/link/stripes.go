package link

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
)

// stripes are the bulk connections that the other side has opened and nobody has taken yet, all of one epoch.
type stripes struct {
	wake chan struct{} // one token: a connection was added

	mu     sync.Mutex
	closed bool
	epoch  uint32
	set    []net.Conn // of that epoch
}

func newStripes() *stripes {
	return &stripes{wake: make(chan struct{}, 1)}
}

// add keeps a connection for its epoch, the newest there is: the other side begins one only when the last is over on both sides.
func (s *stripes) add(conn net.Conn, h Hello) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrStopped
	case h.Epoch < s.epoch:
		return fmt.Errorf("%w: bulk connection of pair %x for epoch %d, this is %d", ErrMalformed, h.Pair, h.Epoch, s.epoch)
	}
	s.begin(h.Epoch)
	if s.set == nil {
		s.set = make([]net.Conn, h.Stripes)
	}
	set := s.set
	if len(set) != int(h.Stripes) || set[h.Stripe] != nil {
		return fmt.Errorf("%w: second bulk connection %d of %d of pair %x", ErrMalformed, h.Stripe, h.Stripes, h.Pair)
	}
	set[h.Stripe] = conn
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// take waits for all connections of an epoch. Those of earlier ones are closed.
func (s *stripes) take(ctx context.Context, epoch uint32) ([]net.Conn, error) {
	for {
		s.mu.Lock()
		s.begin(epoch)
		set := s.set
		whole := s.epoch == epoch && len(set) > 0 && !slices.Contains(set, nil)
		if whole {
			s.epoch, s.set = epoch+1, nil
		}
		s.mu.Unlock()
		if whole {
			return set, nil
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// begin closes what there is of earlier epochs; s.mu is held.
func (s *stripes) begin(epoch uint32) {
	if epoch > s.epoch {
		closeAll(s.set)
		s.epoch, s.set = epoch, nil
	}
}

// close closes what there is and what comes.
func (s *stripes) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	closeAll(s.set)
	s.set = nil
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		if c != nil {
			_ = c.Close()
		}
	}
}
