package ps

import (
	"context"
	"errors"
	"sync/atomic"

	"hcclps/ps/raftgroup"
)

// ErrCrashed is what Run returns after Crash.
var ErrCrashed = errors.New("server crashed on purpose")

// crash plays a kill -9 for tests. Run arms it while there is something to kill.
type crash struct {
	begun atomic.Bool   // the plane goes down because of it, not of a fault
	turn  chan struct{} // held while kill changes or runs
	kill  func()        // nil when nothing runs
}

func newCrash() *crash { return &crash{turn: make(chan struct{}, 1)} }

// Crash makes Run end as a kill -9 would: connections drop, nothing is handed
// over, nothing is written any more. A knob for tests: a new Server on the same
// directories goes on from there. It returns when Run has.
func (s *Server) Crash() {
	c := s.crash
	c.turn <- struct{}{}
	kill := c.kill
	if kill != nil {
		c.begun.Store(true)
		kill()
	}
	<-c.turn
	if kill != nil {
		<-s.over
	}
}

// crashes lets Crash end what runs: the plane first, since nothing may be
// acknowledged after the store stands still. sink ends the plane, sunk is closed
// when it has ended, stop ends the groups. The function it returns takes the
// power away again; it waits for a crash under way.
func (s *Server) crashes(sink func(), sunk <-chan struct{}, stop context.CancelCauseFunc) (disarm func()) {
	s.crash.arm(func() {
		sink()
		<-sunk
		s.store.Freeze()
		stop(raftgroup.ErrCrash)
	})
	return func() { s.crash.arm(nil) }
}

func (c *crash) arm(kill func()) {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	c.kill = kill
}

// crashed says whether a crash was why ctx ended.
func crashed(ctx context.Context) bool { return errors.Is(context.Cause(ctx), raftgroup.ErrCrash) }
