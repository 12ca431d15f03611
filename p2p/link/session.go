package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"hcclps/p2p"
)

// partingTime is how long a connection that ends may take to say what is still to be said.
const partingTime = 100 * time.Millisecond

// session is one control connection with its bulk Comms: what both sides have in common. Two loops read and write frames, a Transfer moves large
// bodies. A fault of the control connection ends them all, one of a bulk connection does not.
type session struct {
	options
	conn net.Conn
	in   *eager // of conn
	rank int    // in the bulk Comm
	peer Hello  // who is on the other side
	addr string // of the peer, for logs

	out   *outbox
	moves *p2p.Transfer

	// handle acts on a frame. It is called by the read loop alone and must not wait.
	handle func(ctx context.Context, f frame) error
	// openBulk returns the bulk connections of an epoch: it dials them, or waits for them.
	openBulk func(ctx context.Context, epoch uint32) ([]net.Conn, error)
	// improve makes better Comms in the background; nil if there is no such thing.
	improve func(ctx context.Context)

	done chan struct{} // closed by the first fault
	once sync.Once
	err  error // the first fault, read after done
}

func newSession(opt options, conn net.Conn, rank int, peer Hello, addr string) (*session, error) {
	s := &session{
		options: opt, conn: conn, in: newEager(conn), rank: rank, peer: peer, addr: addr,
		out: newOutbox(), done: make(chan struct{}),
	}
	var err error
	s.moves, err = p2p.NewTransfer(p2p.TransferConfig{
		Rank: rank, Peer: peer.From, Open: s.openComm, Policy: opt.policy(), Pool: opt.pool, Logger: opt.logger,
		Trace: opt.trace, Pair: peer.Pair,
		Post: func(sig p2p.Signal) {
			if !s.dead() { // else the other side shall learn the reason, and not what follows from it
				s.out.post(frame{kind: kindSignal, signal: sig})
			}
		},
	})
	return s, err
}

// run owns the connection until it ends, and returns the reason.
func (s *session) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { s.fail(ErrStopped) })
	defer stop()
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx)) // ends after done, for the reason of done
	var loops sync.WaitGroup
	loops.Go(func() { s.read(ctx) })
	loops.Go(s.write)
	loops.Go(func() { s.failBulk(s.moves.Run(ctx)) })
	if s.improve != nil {
		loops.Go(func() { s.improve(ctx) })
	}
	<-s.done
	cancel(s.err)
	loops.Wait()
	return s.err
}

// fail ends the session with its first fault.
func (s *session) fail(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.done)
		_ = s.conn.SetWriteDeadline(time.Now().Add(partingTime)) // on error the write loop finds out itself
	})
}

// failLater is fail for faults that may be only the echo of what the other side is about to tell on the control connection.
func (s *session) failLater(err error) {
	t := time.NewTimer(partingTime)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.done:
	}
	s.fail(err)
}

// lost makes a fault of the other side, so that errors.Is says ErrPeer.
func lost(err error) error {
	if errors.Is(err, ErrPeer) || errors.Is(err, ErrUnusable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrPeer, err)
}

func (s *session) read(ctx context.Context) {
	fr := newFrameReader(s.in)
	for {
		err := s.conn.SetReadDeadline(time.Now().Add(s.suspect))
		var f frame
		if err == nil {
			f, err = fr.next()
		}
		if err == nil {
			err = s.common(ctx, f)
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = fmt.Errorf("%w: silent for %v", ErrPeer, s.suspect)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			err = fmt.Errorf("%w: connection closed", ErrPeer)
		case errors.Is(err, ErrMalformed):
			s.logger.Warn("close connection: malformed frame", "peer", s.peer.From, "addr", s.addr, "offset", fr.off, "err", err)
		}
		s.fail(lost(err))
		return
	}
}

// common acts on the frames that mean the same on both sides.
func (s *session) common(ctx context.Context, f frame) error {
	switch f.kind {
	case kindHeartbeat:
		return nil
	case kindGoodbye:
		if why, ok := strings.CutPrefix(string(f.head), ErrUnusable.Error()); ok {
			return fmt.Errorf("%w: the other side says %q", ErrUnusable, strings.TrimPrefix(why, ": "))
		}
		return fmt.Errorf("%w: it said %q", ErrPeer, f.head)
	case kindSignal:
		if err := s.moves.Signalled(f.signal); err != nil {
			return fmt.Errorf("body of call %d: %w", f.signal.ID, err)
		}
	case kindCall, kindReply, kindCancel, kindWelcome:
	}
	if err := s.handle(ctx, f); err != nil {
		return fmt.Errorf("call %d: %w", f.id, err)
	}
	return nil
}

// write sends what the outbox holds and heartbeats, at last a goodbye, and closes the connection.
func (s *session) write() {
	defer func() { _ = s.conn.Close() }()
	beat := time.NewTicker(s.heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-s.out.wake:
		case <-beat.C:
			s.out.post(frame{kind: kindHeartbeat})
		case <-s.done:
			s.goodbye()
			return
		}
		err := s.conn.SetWriteDeadline(time.Now().Add(s.suspect))
		if s.dead() {
			continue // the deadline just set may have replaced that of fail
		}
		if err == nil {
			_, err = s.conn.Write(s.out.take())
			s.in.touch()
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("%w: took nothing for %v", ErrPeer, s.suspect)
		}
		if err != nil {
			s.failLater(lost(err))
			return
		}
	}
}

// goodbye sends what is left and the reason of the end, if the other side still takes it.
func (s *session) goodbye() {
	s.out.post(frame{kind: kindGoodbye, head: []byte(clip(s.err.Error()))})
	if err := s.conn.SetWriteDeadline(time.Now().Add(partingTime)); err == nil {
		_, _ = s.conn.Write(s.out.take()) // the peer may be gone: then nobody misses it
	}
}

func (s *session) dead() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// openComm makes the bulk Comm of an epoch.
func (s *session) openComm(ctx context.Context, epoch uint32) (Comm, error) {
	conns, err := s.openBulk(ctx, epoch)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, pairTimeout, fmt.Errorf("no comm within %v", pairTimeout))
	defer cancel()
	comm, err := s.pair(ctx, conns, s.rank)
	p, ok := comm.(p2p.Patient)
	s.in.calm.Store(!ok || !p.Patient()) // while one looks the runtime is late to notice bytes at the sockets of a Comm
	s.giveUp(err)
	return comm, err
}

// giveUp ends the session if its pair cannot be used.
func (s *session) giveUp(err error) {
	if errors.Is(err, ErrUnusable) {
		s.fail(err)
	}
}

// failBulk ends the session because large bodies cannot be moved; if the session ended first, nothing happens.
func (s *session) failBulk(err error) { s.fail(lost(fmt.Errorf("bulk connection: %w", err))) }

// receive waits until in is complete. If ctx, gone or the session ends first, it is given up and drained; why tells the cause of gone.
func (s *session) receive(ctx context.Context, in *p2p.Incoming, gone <-chan struct{}, why error) error {
	var cause error
	select {
	case <-in.Done():
		return s.outcome(in.Err())
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-gone:
		cause = why
	case <-s.done:
		cause = s.err
	}
	in.Cancel(cause)
	<-in.Done()
	if in.Err() == nil {
		return nil // it was complete at that moment
	}
	return because(cause, in.Err())
}

// outcome is the error of a body that has ended by itself: of its source or sink, because bodies cannot be moved, or
// with the session, which then says why.
func (s *session) outcome(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, p2p.ErrCancelled) {
		return ErrCancelled
	}
	var fault *p2p.TransferError
	if !errors.As(err, &fault) && !errors.Is(err, p2p.ErrClosed) {
		return err
	}
	<-s.done
	return because(s.err, err)
}

// because is the cause that a body was given up for, unless it had failed of itself, which says more.
func because(cause, own error) error {
	var fault *p2p.TransferError
	if errors.As(own, &fault) && fault.Tries > 0 && !errors.Is(cause, ErrUnusable) {
		return lost(fmt.Errorf("bulk connection: %w", own))
	}
	return cause
}
