package world

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"hcclps/p2p"
)

const (
	maxHalfOpen = 64 // connections whose hello is not read yet; others wait in the listener
	acceptRest  = 50 * time.Millisecond
)

// door is the listener of a center. It is held while the center does not run, between Open and Run: nobody else shall get the address.
type door struct {
	ln     net.Listener
	conns  chan net.Conn
	closed chan struct{}
	loop   sync.WaitGroup
}

func openDoor(cfg *Config, ln net.Listener) *door {
	d := &door{ln: ln, conns: make(chan net.Conn), closed: make(chan struct{})}
	d.loop.Go(func() { d.accept(cfg.Logger) })
	return d
}

func (d *door) accept(log *slog.Logger) {
	for {
		conn, err := d.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			log.Warn("accept failed", "addr", d.ln.Addr().String(), "err", err)
			select {
			case <-time.After(acceptRest):
				continue
			case <-d.closed:
				return
			}
		}
		select {
		case d.conns <- conn:
		case <-d.closed:
			_ = conn.Close()
			return
		}
	}
}

func (d *door) close() {
	close(d.closed)
	_ = d.ln.Close()
	d.loop.Wait()
}

// run serves the center's connections until ctx ends. What was posted is written then. It may run again.
func (c *center) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, s := range c.lines() {
		all.Go(func() { c.attend(ctx, s) })
	}
	all.Go(func() { c.pulse.run(ctx, c.cfg.Heartbeat) })
	all.Go(func() { c.clock(ctx) })
	all.Go(func() { c.poll.serve(ctx) })
	all.Go(func() { c.write(ctx) })
	halfOpen := make(chan struct{}, maxHalfOpen)
	for {
		select {
		case halfOpen <- struct{}{}:
		case <-ctx.Done():
			return
		}
		select {
		case conn := <-c.door.conns:
			all.Go(func() { c.receive(ctx, conn, halfOpen) })
		case <-ctx.Done():
			return
		}
	}
}

// lines are the seats that are reached by one.
func (c *center) lines() []*seat {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*seat
	for _, s := range c.seats {
		if s.line != nil {
			all = append(all, s)
		}
	}
	return all
}

// receive admits a dialler, and keeps its line until that ends.
func (c *center) receive(ctx context.Context, conn net.Conn, halfOpen <-chan struct{}) {
	h, err := readHello(ctx, conn)
	<-halfOpen
	var refusal string
	var s *seat
	switch {
	case errors.Is(err, errVersion):
		refusal = fmt.Sprintf("the rendezvous (%s) speaks version %d, the caller %d: run the same release on both", c.cfg.Info, version, h.version)
	case errors.Is(err, p2p.ErrMalformed):
		refusal = err.Error()
	case err != nil:
		c.cfg.Logger.Debug("close connection", "addr", conn.RemoteAddr().String(), "err", err)
		_ = conn.Close()
		return
	default:
		s, refusal = c.admit(h, newLine(conn, &c.cfg))
	}
	if s == nil && refusal == "" { // the rendezvous has moved: it will find that
		_ = conn.Close()
		return
	}
	if refusal != "" {
		c.mu.Lock()
		c.note(fmt.Sprintf("refused the caller at %s: %s", conn.RemoteAddr(), refusal))
		c.mu.Unlock()
		refuse(ctx, conn, refusal)
		return
	}
	// It may have been the last one, which ends ctx: it is answered all the same, and told who is in the world.
	if err = sendAnswer(context.WithoutCancel(ctx), conn, ""); err != nil {
		c.lost(s, err)
		return
	}
	c.cfg.Logger.Debug("joined", "rank", h.from, "info", h.info, "addr", h.address)
	c.attend(ctx, s)
}

// attend runs the line of a seat.
func (c *center) attend(ctx context.Context, s *seat) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c.mu.Lock()
	s.stop = stop
	if s.evicted {
		stop()
	}
	c.mu.Unlock()
	err := s.line.run(ctx, func(f frame) error { return c.heard(s, f) })
	c.mu.Lock()
	s.stop = nil
	evicted := s.evicted
	c.mu.Unlock()
	switch {
	case err != nil:
		c.lost(s, err)
	case evicted:
		closeLine(s)
	}
}

// lost notes that the line to a process has ended.
func (c *center) lost(s *seat, err error) {
	why := plain(err)
	c.mu.Lock()
	rank := s.rank
	alive := rank >= 0 && !s.left && c.seats[s.process] == s
	c.remove(s, why, !errors.Is(err, errSilent))
	c.consider()
	c.mu.Unlock()
	if alive { // perhaps it was only silent: then it shall know
		s.line.last(frame{kind: kindFailed, rank: rank, text: why})
	}
	closeLine(s)
}

// close ends all connections; run has ended.
func (c *center) close() {
	c.door.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.seats {
		closeLine(s)
	}
	clear(c.seats)
}
