package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"hcclps/p2p"
)

// parting is how long the other side may take to say why it has gone, when something could not be written to it.
const parting = 100 * time.Millisecond

// line is a connection between a rank and the rendezvous, on which both say that they live. It can be run, stopped between two frames and run again.
type line struct {
	conn      net.Conn
	in        *frameReader
	heartbeat time.Duration
	suspect   time.Duration
	wake      chan struct{} // one token: there is something to write
	heard     atomic.Int64  // when the last frame came, in nanoseconds of time.Time.UnixNano

	mu    sync.Mutex
	out   []byte
	spare []byte
	until time.Time // reading ends then; zero: when nothing is heard
	fault error     // why it is dead; no run undoes that
}

func newLine(conn net.Conn, cfg *Config) *line {
	return &line{conn: conn, in: newFrameReader(conn), heartbeat: cfg.Heartbeat, suspect: cfg.Suspect, wake: make(chan struct{}, 1)}
}

// post adds a frame to what is to be written. It does not wait: how many there can be is bounded by who calls it, and a peer that takes
// nothing ends the line.
func (l *line) post(f frame) {
	l.mu.Lock()
	l.out = appendFrame(l.out, f)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// errEnough, from the function that handles frames, stops a line behind the frame.
var errEnough = errors.New("enough")

// run reads frames for handle, which must not wait, and writes what is posted, until ctx ends or handle has enough: then it returns nil when all
// that was posted is written. Everything else is a fault for good.
func (l *line) run(ctx context.Context, handle func(frame) error) error {
	if fault := l.begin(); fault != nil {
		return fault
	}
	struck := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(struck)
		l.limit(0)
	})
	defer func() {
		if !stop() {
			<-struck // it does not come later, into the next run
		}
	}()
	stopped := make(chan struct{}) // the end of what is read
	var writer sync.WaitGroup
	var writeErr error
	writer.Go(func() {
		if writeErr = l.write(stopped); writeErr != nil {
			l.limit(parting)
		}
	})
	err := l.read(ctx, handle)
	l.settle(err) // before the writer's last look
	close(stopped)
	writer.Wait()
	if errors.Is(err, os.ErrDeadlineExceeded) && writeErr != nil {
		err = writeErr
	}
	switch {
	case err != nil:
		err = l.because(err)
		l.settle(err)
	case writeErr != nil:
		l.settle(l.because(writeErr)) // this side has stopped: it matters to the next run only
	}
	return err
}

// begin makes ready for a run, or says why there can be none.
func (l *line) begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = time.Time{}
	return l.fault
}

func (l *line) settle(fault error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = fault
}

// errSilent is that nothing was heard: the other side may be dead, or out of reach.
var errSilent = fmt.Errorf("%w: silent", p2p.ErrPeer)

// because puts the fault into words.
func (l *line) because(err error) error {
	switch {
	case errors.Is(err, p2p.ErrPeer), errors.Is(err, p2p.ErrMalformed), errors.Is(err, p2p.ErrRefused):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w for %v", errSilent, l.suspect)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: connection closed", p2p.ErrPeer)
	default:
		return fmt.Errorf("%w: %w", p2p.ErrPeer, err)
	}
}

func (l *line) read(ctx context.Context, handle func(frame) error) error {
	for {
		err := l.extend()
		var f frame
		if err == nil {
			f, err = l.in.next()
		}
		if err == nil {
			l.heard.Store(time.Now().UnixNano())
		}
		if err == nil && f.kind != kindHeartbeat {
			err = handle(f)
		}
		switch {
		case errors.Is(err, errEnough):
			return nil
		case err != nil && ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return err
		}
	}
}

// extend lets the next frame come until the peer is suspect.
func (l *line) extend() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := time.Now().Add(l.suspect)
	if !l.until.IsZero() && l.until.Before(at) {
		at = l.until
	}
	return l.conn.SetReadDeadline(at)
}

// limit ends reading after d.
func (l *line) limit(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = time.Now().Add(d)
	_ = l.conn.SetReadDeadline(l.until) // fails only on a connection that is closed
}

// write writes what is posted, and heartbeats, until reading has stopped and nothing is left.
func (l *line) write(stopped <-chan struct{}) error {
	beat := time.NewTicker(l.heartbeat)
	defer beat.Stop()
	for last := false; !last; {
		select {
		case <-l.wake:
		case <-beat.C:
			l.post(frame{kind: kindHeartbeat})
		case <-stopped:
			if last = true; l.dead() {
				return nil
			}
		}
		err := l.conn.SetWriteDeadline(time.Now().Add(l.suspect))
		if b := l.take(); err == nil && len(b) > 0 {
			_, err = l.conn.Write(b)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("%w: took nothing for %v", p2p.ErrPeer, l.suspect)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *line) dead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault != nil
}

// take gives the writer all that waits. The memory is the writer's until its next take.
func (l *line) take() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.out
	l.out, l.spare = l.spare[:0], b
	return b
}

// last tells the other side of a line that is dead something, if it takes it at once.
func (l *line) last(f frame) {
	if l.conn.SetWriteDeadline(time.Now().Add(parting)) == nil {
		_, _ = l.conn.Write(appendFrame(nil, f)) // it is dead, most likely
	}
}
