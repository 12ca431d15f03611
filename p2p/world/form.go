package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"hcclps/p2p"
)

const (
	maxHalfOpen = 64 // connections whose hello is not read yet; others wait in the listener
	maxNotes    = 8  // refusals that are told when the world does not form
	acceptRest  = 50 * time.Millisecond
)

// member is what all ranks know of one.
type member struct {
	address string // where it listens for pairs
	host    string
	info    string
}

// roster is a world that is formed: its number, and who is in it by rank.
type roster struct {
	id      uint64
	epoch   uint32
	members []member
}

// seat is the place of a rank in a world that forms.
type seat struct {
	member
	process uint64
	line    *line // nil: nobody has it
}

// forming is rank 0 while the others join.
type forming struct {
	cfg *Config

	mu    sync.Mutex
	seats []seat
	notes []string
	whole chan struct{} // closed when every seat is taken
	table roster        // from then on
}

// form is what rank 0 does in Open: it lets the others join until the world is whole, and tells them all who is in it. It returns the lines to
// them by rank.
func form(ctx context.Context, cfg *Config, ln net.Listener) (roster, []*line, error) {
	f := &forming{cfg: cfg, seats: make([]seat, cfg.Size), whole: make(chan struct{})}
	f.seats[0].member = member{address: ln.Addr().String(), host: cfg.Host, info: cfg.Info}
	inner, stop := context.WithCancel(context.WithoutCancel(ctx)) // the others are told before it ends
	defer stop()
	var all sync.WaitGroup
	all.Go(func() { f.accept(inner, &all, ln) })
	var err error
	select {
	case <-f.whole:
	case <-ctx.Done():
		err = f.abandon(context.Cause(ctx))
	}
	stop()
	_ = ln.Close()
	all.Wait()
	lines := make([]*line, cfg.Size)
	for r, s := range f.seats {
		if lines[r] = s.line; err != nil && s.line != nil {
			_ = s.line.conn.Close()
		}
	}
	return f.table, lines, err
}

func (f *forming) accept(ctx context.Context, all *sync.WaitGroup, ln net.Listener) {
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	halfOpen := make(chan struct{}, maxHalfOpen)
	for {
		select {
		case halfOpen <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := ln.Accept()
		switch {
		case err == nil:
			all.Go(func() { f.receive(ctx, conn, halfOpen) })
			continue
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		}
		<-halfOpen
		f.cfg.Logger.Warn("accept failed", "addr", ln.Addr().String(), "err", err)
		rest(ctx, acceptRest)
	}
}

// receive lets one dialler join, and keeps its line until the world has formed or the line ends.
func (f *forming) receive(ctx context.Context, conn net.Conn, halfOpen <-chan struct{}) {
	h, err := readHello(ctx, conn)
	<-halfOpen
	var refusal string
	switch {
	case errors.Is(err, errVersion):
		refusal = fmt.Sprintf("rank 0 (%s) speaks version %d, the caller %d: run the same release on both", f.cfg.Info, version, h.version)
	case errors.Is(err, p2p.ErrMalformed):
		refusal = err.Error()
	case err != nil:
		f.cfg.Logger.Debug("close connection", "addr", conn.RemoteAddr().String(), "err", err)
		_ = conn.Close()
		return
	default:
		refusal = f.misfit(h)
	}
	l := newLine(conn, f.cfg)
	if refusal == "" {
		refusal = f.take(h, l)
	}
	if refusal != "" {
		f.note(fmt.Sprintf("refused the caller at %s: %s", conn.RemoteAddr(), refusal))
		refuse(ctx, conn, refusal)
		return
	}
	// It may have been the last one, which ends ctx: it is answered all the same, and told who is in the world.
	if err = sendAnswer(context.WithoutCancel(ctx), conn, ""); err == nil {
		f.cfg.Logger.Debug("joined", "rank", h.from, "info", h.info, "addr", h.address)
		err = l.run(ctx, func(fr frame) error {
			return fmt.Errorf("%w: frame of kind %d from a rank that joins", p2p.ErrMalformed, fr.kind)
		})
	}
	if err != nil {
		f.leave(h, l, err)
	}
}

// misfit says why a caller does not belong to this world, whoever else is in it.
func (f *forming) misfit(h hello) string {
	c := f.cfg
	switch {
	case h.purpose != joining:
		return fmt.Sprintf("rank 0 (%s) forms a world here, the caller (%s) takes it for a rank of one that exists", c.Info, h.info)
	case h.job != c.Job:
		return fmt.Sprintf("rank 0 (%s) works at job %q, rank %d (%s) at %q", c.Info, c.Job, h.from, h.info, h.job)
	case h.size != c.Size:
		return fmt.Sprintf("rank 0 (%s) makes a world of %d, rank %d (%s) of %d", c.Info, c.Size, h.from, h.info, h.size)
	case h.from < 0 || h.from >= c.Size:
		return fmt.Sprintf("rank %d (%s) is not in the world of %d of rank 0 (%s)", h.from, h.info, c.Size, c.Info)
	case h.from == 0:
		return fmt.Sprintf("rank 0 is %s already, and the caller (%s) says that it is rank 0 too", c.Info, h.info)
	}
	return ""
}

// take gives a caller its seat, or says who has it. A process that comes again, since its connection broke, gets its seat back.
func (f *forming) take(h hello, l *line) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.table.members != nil {
		return fmt.Sprintf("the world of %d is whole: rank %d is %s, and the caller (%s) says that it is rank %d too", f.cfg.Size, h.from, f.seats[h.from].info, h.info, h.from)
	}
	s := &f.seats[h.from]
	if s.line != nil && s.process != h.id {
		return fmt.Sprintf("rank %d is %s already, and the caller (%s) says that it is rank %d too", h.from, s.info, h.info, h.from)
	}
	if s.line != nil {
		_ = s.line.conn.Close()
	}
	*s = seat{member: member{address: h.address, host: h.host, info: h.info}, process: h.id, line: l}
	f.tell()
	return ""
}

// leave frees the seat of a caller whose line has ended before the world was whole.
func (f *forming) leave(h hello, l *line, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seats[h.from].line != l || f.table.members != nil {
		return // it came again, or it is a matter of the world
	}
	_ = l.conn.Close()
	f.seats[h.from] = seat{}
	f.addNote(fmt.Sprintf("rank %d (%s) joined and left: %v", h.from, h.info, err))
	f.tell()
}

// tell says to all that have joined who is missing, or that nobody is and who they are; f.mu is held.
func (f *forming) tell() {
	missing := f.missing()
	if len(missing) > 0 {
		text := fmt.Sprintf("%s of %d missing", noun(missing), f.cfg.Size)
		f.post(frame{kind: kindMissing, text: text})
		return
	}
	f.table = roster{id: rand.Uint64(), epoch: 1}
	for r, s := range f.seats {
		f.table.members = append(f.table.members, s.member)
		f.post(frame{kind: kindMember, rank: r, address: s.address, host: s.host, text: s.info})
	}
	f.post(frame{kind: kindReady, query: f.table.id, epoch: f.table.epoch})
	close(f.whole)
}

func (f *forming) missing() []int {
	var missing []int
	for r, s := range f.seats {
		if r > 0 && s.line == nil {
			missing = append(missing, r)
		}
	}
	return missing
}

func (f *forming) post(fr frame) {
	for _, s := range f.seats {
		if s.line != nil {
			s.line.post(fr)
		}
	}
}

// abandon tells all that have joined that the world will not form.
func (f *forming) abandon(cause error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.table.members != nil {
		return nil // it has, at that moment
	}
	text := fmt.Sprintf("%s of %d missing", noun(f.missing()), f.cfg.Size)
	if len(f.notes) > 0 {
		text += " (" + strings.Join(f.notes, "; ") + ")"
	}
	f.post(frame{kind: kindAbandon, text: text})
	return fmt.Errorf("%w: %s", cause, text)
}

func (f *forming) note(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addNote(text)
}

// addNote keeps what people should know if the world does not form; f.mu is held.
func (f *forming) addNote(text string) {
	f.cfg.Logger.Warn("world does not form yet", "reason", text)
	if len(f.notes) < maxNotes {
		f.notes = append(f.notes, text)
	}
}
