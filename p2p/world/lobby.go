package world

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"hcclps/p2p"
)

// maxWaiting is how many pairs of comms that this rank has not opened yet may wait, for each rank.
const maxWaiting = 64

// guestKey names a pair that wants to be made.
type guestKey struct {
	comm string
	from int
}

// guest is a lower rank that waits for this one to open the comm too.
type guest struct {
	hello  hello      // of the newest connection
	conns  []net.Conn // by stripe
	whole  chan struct{}
	isDone bool // whole is closed
}

// lobby is where connections of pairs wait until this rank opens their comm. They have no answer until then.
type lobby struct {
	mu     sync.Mutex
	closed bool
	guests map[guestKey]*guest
	barred map[string]string // comms that this rank could not open, and why
}

func newLobby() *lobby {
	return &lobby{guests: make(map[guestKey]*guest), barred: make(map[string]string)}
}

// serve accepts until ctx ends, and closes the listener.
func (b *lobby) serve(ctx context.Context, w *World) {
	stop := context.AfterFunc(ctx, func() { _ = w.ln.Close() })
	defer stop()
	var opening sync.WaitGroup
	defer opening.Wait()
	halfOpen := make(chan struct{}, maxHalfOpen)
	for {
		select {
		case halfOpen <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := w.ln.Accept()
		switch {
		case err == nil:
			opening.Go(func() { b.receive(ctx, w, conn, halfOpen) })
			continue
		case ctx.Err() != nil:
			return
		case errors.Is(err, net.ErrClosed):
			w.cfg.Logger.Error("no rank can reach this one any more", "addr", w.ln.Addr().String(), "err", err)
			return
		}
		<-halfOpen
		w.cfg.Logger.Warn("accept failed", "addr", w.ln.Addr().String(), "err", err)
		rest(ctx, acceptRest)
	}
}

// receive lets a dialler wait, or tells it why not.
func (b *lobby) receive(ctx context.Context, w *World, conn net.Conn, halfOpen <-chan struct{}) {
	h, err := readHello(ctx, conn)
	<-halfOpen
	var refusal string
	switch {
	case errors.Is(err, errVersion):
		refusal = fmt.Sprintf("rank %d (%s) speaks version %d, the caller %d: run the same release on both", w.rank, w.cfg.Info, version, h.version)
	case errors.Is(err, p2p.ErrMalformed):
		refusal = err.Error()
	case err != nil:
		w.cfg.Logger.Debug("close connection", "addr", conn.RemoteAddr().String(), "err", err)
		_ = conn.Close()
		return
	default:
		refusal = w.misfit(h)
	}
	if refusal == "" {
		refusal = b.add(h, conn)
	}
	if refusal != "" {
		w.cfg.Logger.Warn("refuse connection", "addr", conn.RemoteAddr().String(), "reason", refusal)
		refuse(ctx, conn, refusal)
	}
}

// misfit says why a connection is not one of a pair of this rank.
func (w *World) misfit(h hello) string {
	self := fmt.Sprintf("rank %d (%s) of %d of epoch %d of job %q", w.rank, w.cfg.Info, w.Size(), w.table.epoch, w.cfg.Job)
	switch {
	case h.purpose != pairing:
		return fmt.Sprintf("%s is in its world already, the caller (%s) wants to join one: is this the address of the rendezvous?", self, h.info)
	case h.job != w.cfg.Job || h.id != w.table.id || h.epoch != w.table.epoch:
		return fmt.Sprintf("%s is not in the world of the caller (%s), epoch %d of job %q", self, h.info, h.epoch, h.job)
	case h.to != w.rank || h.from < 0 || h.from >= h.to || h.size != w.Size():
		return fmt.Sprintf("%s is not who rank %d (%s) of %d looks for, rank %d", self, h.from, h.info, h.size, h.to)
	}
	return ""
}

// add keeps a connection.
func (b *lobby) add(h hello, conn net.Conn) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := guestKey{h.comm, h.from}
	g := b.guests[key]
	switch {
	case b.closed:
		return "this rank has stopped"
	case b.barred[h.comm] != "":
		return b.barred[h.comm]
	}
	if g == nil || h.attempt > g.hello.attempt || g.conns == nil {
		if g == nil && b.waiting(h.from) >= maxWaiting {
			return fmt.Sprintf("%d pairs of rank %d wait here already: open their comms", maxWaiting, h.from)
		}
		g = b.renew(g, h)
		b.guests[key] = g
	}
	if h.attempt != g.hello.attempt || int(h.stripes) != len(g.conns) || g.conns[h.stripe] != nil {
		return fmt.Sprintf("connection %d of %d of try %d of this pair is not wanted", h.stripe, h.stripes, h.attempt)
	}
	g.conns[h.stripe] = conn
	if !slices.Contains(g.conns, nil) {
		close(g.whole)
		g.isDone = true
	}
	return ""
}

// renew makes room for the connections of a try; who waits for those of an earlier one waits for these.
func (b *lobby) renew(old *guest, h hello) *guest {
	g := &guest{hello: h, conns: make([]net.Conn, h.stripes), whole: make(chan struct{})}
	if old != nil {
		closeAll(old.conns)
		if !old.isDone {
			g.whole = old.whole
		}
	}
	return g
}

// waiting counts what waits of a rank; b.mu is held.
func (b *lobby) waiting(from int) int {
	n := 0
	for key := range b.guests {
		if key.from == from {
			n++
		}
	}
	return n
}

// take waits for all connections of a pair.
func (b *lobby) take(ctx context.Context, comm string, from int) (hello, []net.Conn, error) {
	key := guestKey{comm, from}
	for {
		b.mu.Lock()
		g := b.guests[key]
		if g == nil {
			g = &guest{whole: make(chan struct{})}
			b.guests[key] = g
		}
		if g.isDone {
			delete(b.guests, key)
			b.mu.Unlock()
			return g.hello, g.conns, nil
		}
		whole := g.whole
		b.mu.Unlock()
		select {
		case <-whole:
		case <-ctx.Done():
			return hello{}, nil, context.Cause(ctx)
		}
	}
}

// bar refuses what waits for a comm that is not to be, and what comes for it later.
func (b *lobby) bar(comm, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.barred[comm] = why
	for key, g := range b.guests {
		if key.comm == comm {
			closeAll(g.conns) // their diallers come again, and are told
			delete(b.guests, key)
		}
	}
}

// close lets go of all that waits and of what comes.
func (b *lobby) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, g := range b.guests {
		closeAll(g.conns)
	}
	clear(b.guests)
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		if c != nil {
			_ = c.Close() // nothing that somebody waits for is on it
		}
	}
}
