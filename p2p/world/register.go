package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"hcclps/p2p"
)

// Register is a note that all processes of a job can read and replace, of at most 1 KiB, kept by something that outlives them. By it they find a rendezvous
// that has no fixed address. Its methods may be called concurrently.
type Register interface {
	// Swap replaces the note if its number is instead, 0 if there is none, and returns the one that counts then. Each has the next number. ReadNote as
	// instead replaces nothing.
	Swap(ctx context.Context, instead uint64, text string) (number uint64, now string, err error)
}

// ReadNote is the number that no note has.
const ReadNote = 1<<64 - 1

// errMoved ends what goes by a center that is the rendezvous no more.
var errMoved = fmt.Errorf("%w: the rendezvous has moved", p2p.ErrPeer)

// note is what a center writes: the number of the world that it has decided last, and where it listens.
type note struct {
	world   uint64
	process uint64 // so that no two are alike
	address string
}

func (n note) String() string { return fmt.Sprintf("1 %016x %016x %s", n.world, n.process, n.address) }

func parseNote(text string) (n note, err error) {
	if _, err := fmt.Sscanf(text, "1 %16x %16x %s", &n.world, &n.process, &n.address); err != nil || n.String() != text {
		return note{}, fmt.Errorf("%w: the note of the job is %.100q: it is another program's, or another version's", p2p.ErrRefused, text)
	}
	return n, nil
}

// claim is a center's place in the register. It says before each epoch that it makes it, and makes it only if it is the rendezvous still: of two
// centers that do not reach each other one alone goes on.
type claim struct {
	Register
	note
	number uint64
	found  uint64 // the world that was decided last when this center took the place

	next    uint64 // number of a world that is to be decided; 0: none
	granted bool   // it is written down
	moved   bool   // another center has the place
	sign    chan struct{}
}

// decide makes the next epoch, as soon as that is written down.
func (c *center) decide() {
	cl := c.claim
	switch {
	case cl == nil:
		c.seal(rand.Uint64())
	case cl.granted:
		id := cl.next
		cl.next, cl.granted = 0, false
		c.seal(id)
	case cl.next == 0:
		cl.next = rand.Uint64()
		c.ask()
	}
}

// behind says whether an epoch was decided, by a center that is gone, of which those that have come do not know: then others went on in it, unless all that
// could be in it are here.
func (c *center) behind() bool {
	cl := c.claim
	return cl != nil && c.processes == nil && c.epoch > 0 && cl.found != 0 && cl.found != c.id && len(c.awaited) > 0
}

// leave tells those that have come too late.
func (c *center) leave() {
	for _, s := range c.ordered() {
		if s.born > 0 {
			s.sink.post(frame{kind: kindAbandon, text: fmt.Sprintf("an epoch after %d was decided without rank %d (%s), and nobody of it comes: start anew", c.epoch, s.claim, s.info)})
			c.evict(s)
		}
	}
}

// ask has the next world written down.
func (c *center) ask() {
	select {
	case c.claim.sign <- struct{}{}:
	default:
	}
}

// write keeps the register, until ctx ends.
func (c *center) write(ctx context.Context) {
	if c.claim == nil {
		return
	}
	c.ask()
	for ctx.Err() == nil {
		select {
		case <-c.claim.sign:
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
		mine, number := c.claim.note, c.claim.number
		mine.world = c.claim.next
		idle := mine.world == 0 || c.claim.granted || c.claim.moved
		c.mu.Unlock()
		if idle {
			continue
		}
		number, now, err := c.claim.Swap(ctx, number, mine.String())
		if err != nil {
			c.cfg.Logger.Warn("the register of the job does not answer", "err", err)
			rest(ctx, maxRest)
			c.ask()
			continue
		}
		c.mu.Lock()
		if now == mine.String() {
			c.claim.number, c.claim.note, c.claim.granted = number, mine, true
			c.consider()
		} else {
			c.dissolve(now)
		}
		c.mu.Unlock()
	}
}

// dissolve sends all to the center that has the place now.
func (c *center) dissolve(now string) {
	c.cfg.Logger.Warn("the rendezvous has moved", "to", now)
	c.claim.moved = true
	for _, s := range c.seats {
		s.sink.post(frame{kind: kindMoved})
		c.evict(s)
	}
}

// find reads where the rendezvous is and dials it, or takes its place if there is none or it was not reached before.
func (j *joiner) find(ctx context.Context) error {
	number, text, err := j.cfg.Register.Swap(ctx, ReadNote, "")
	if err != nil {
		return fmt.Errorf("read where the world meets: %w", err)
	}
	var at note
	if number > 0 {
		if at, err = parseNote(text); err != nil {
			return err
		}
	}
	if number > 0 && number != j.unreached {
		if err = j.dial(ctx, at.address); err != nil {
			j.unreached = number
		}
		return err
	}
	d, err := j.cfg.door(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", p2p.ErrRefused, err)
	}
	mine := note{world: at.world, process: j.self.process, address: j.cfg.published(d.ln.Addr().String())}
	now, text, err := j.cfg.Register.Swap(ctx, number, mine.String())
	if err == nil && text != mine.String() {
		err = errors.New("another process is the rendezvous")
	}
	if err != nil {
		d.close()
		return err
	}
	return j.host(ctx, d, &claim{Register: j.cfg.Register, note: mine, number: now, found: at.world, sign: make(chan struct{}, 1)})
}

// published is the address of a rendezvous for others.
func (c *Config) published(listener string) string {
	host := hostOf(c.Listen)
	if c.Advertise != "" {
		host = hostOf(c.Advertise)
	}
	return reachable(listener, host)
}

// dissolved lets go of a rendezvous that has moved.
func (j *joiner) dissolved() {
	if j.link != nil {
		j.link.close()
	}
	if j.center != nil {
		j.center.close()
	}
	j.center, j.link = nil, nil
}
