package world

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"hcclps/p2p"
)

const maxNotes = 8 // refusals that are told when the world does not form

// center is where a world meets. It decides who is in each epoch, hears who lives, and tells all. It is in the process of a rank, or of a Host, and
// works while its run does.
type center struct {
	cfg   Config // of the process
	door  *door
	claim *claim // nil: the address is fixed
	poll  *polls
	kick  chan struct{} // one token: a time may have changed
	pulse pulse

	mu       sync.Mutex
	seats    map[uint64]*seat // who has a connection, by process
	arrivals int
	terms    *hello // of who has come first, since when somebody was here
	notes    []string
	waiting  int // newcomers that members know of

	// The epoch that is under way, or was last.
	id        uint64
	epoch     uint32
	own       int             // the rank in the center's own process; negative: none
	processes []uint64        // by rank; nil if another center made the epoch
	size      int             // its ranks
	awaited   map[int]bool    // ranks that are not known to be dead and have not come for the next epoch
	gone      map[int]string  // ranks that have left in good order, for people
	failed    bool            // there is a verdict
	scopes    map[string]bool // that have one of their own

	since time.Time // when the first survivor came for the next epoch; zero: none is there
}

// seat is a process that has a connection to the center.
type seat struct {
	member
	process uint64
	born    uint32 // epoch in which it came in; 0: it is new
	number  int    // its rank then: with born the order of processes, for ever
	claim   int    // the rank that it says it has
	name    string
	order   int       // of arrival
	rank    int       // in the epoch under way; negative: not in it
	come    bool      // it waits for the next epoch
	left    bool      // in good order
	rival   uint64    // a member of the same name, which is to be dead before this one may wait; 0: none
	until   time.Time // by then
	evicted bool      // what is posted still goes out

	sink sink
	line *line              // nil of the member in the center's own process
	stop context.CancelFunc // ends the run of the line, when all is written; nil: it does not run
}

// sink takes frames to a member. It does not wait.
type sink interface{ post(f frame) }

func newCenter(cfg *Config, d *door) *center {
	c := &center{cfg: *cfg, door: d, kick: make(chan struct{}, 1), seats: make(map[uint64]*seat), awaited: make(map[int]bool), gone: make(map[int]string), scopes: make(map[string]bool), own: -1}
	c.poll, c.pulse = newPolls(), pulse{began: time.Now(), bound: cfg.Suspect}
	return c
}

// admit gives a process its seat, or says why it is not welcome; neither if there is no rendezvous here any more. One
// that comes again, since its connection broke, gets a new one.
func (c *center) admit(h hello, to sink) (*seat, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.claim != nil && c.claim.moved {
		return nil, ""
	}
	why := c.misfit(h)
	if why == "" && h.epoch > 0 {
		why = c.stranger(h)
	} else if why == "" {
		why = c.unfit(h)
	}
	if why != "" {
		return nil, why
	}
	c.cfg.Job = h.job // of a Host that was not told: that of whoever comes first
	if len(c.seats) == 0 || c.terms == nil {
		c.terms = &h
	}
	if old := c.seats[h.id]; old != nil {
		c.remove(old, "its connection broke", true)
		closeLine(old)
	}
	c.arrivals++
	s := &seat{
		member: member{address: h.address, host: h.host, info: h.info}, process: h.id, born: h.born, number: int(h.number),
		claim: h.from, name: h.name, order: c.arrivals, rank: -1, come: true, sink: to,
	}
	s.line, _ = to.(*line)
	c.meetRival(s)
	c.seats[h.id] = s
	if h.epoch > 0 {
		c.returns(h)
	}
	c.consider()
	return s, ""
}

// misfit says why a caller is nobody for this center, whoever else is there.
func (c *center) misfit(h hello) string {
	switch {
	case h.purpose != joining:
		return fmt.Sprintf("this is the rendezvous (%s), the caller (%s) takes it for a rank", c.cfg.Info, h.info)
	case h.job != c.cfg.Job && c.cfg.Job != "":
		return fmt.Sprintf("the rendezvous (%s) is for job %q, rank %d (%s) is of %q", c.cfg.Info, c.cfg.Job, h.from, h.info, h.job)
	case len(c.seats) > 0 && c.terms != nil && h.terms != c.terms.terms:
		return c.otherTerms(&h)
	case len(c.seats) >= MaxSize && c.seats[h.id] == nil:
		return fmt.Sprintf("the rendezvous (%s) has %d processes already", c.cfg.Info, len(c.seats))
	}
	return ""
}

// unfit says why a new process does not belong to the world that forms. It may wait for one that is under way.
func (c *center) unfit(h hello) string {
	size := c.cfg.Size
	switch {
	case !c.forming():
		return ""
	case h.size != size:
		return fmt.Sprintf("the rendezvous (%s) makes a world of %d, rank %d (%s) of %d", c.cfg.Info, size, h.from, h.info, h.size)
	case h.from < 0 || h.from >= size:
		return fmt.Sprintf("rank %d (%s) is not in the world of %d of the rendezvous (%s)", h.from, h.info, size, c.cfg.Info)
	}
	for _, s := range c.seats {
		if s.claim == h.from && s.process != h.id && s.come {
			return fmt.Sprintf("rank %d is %s already, and the caller (%s) says that it is rank %d too", h.from, s.info, h.info, h.from)
		}
	}
	return ""
}

// stranger says why one that comes back is not of this world.
func (c *center) stranger(h hello) string {
	known := h.epoch == c.epoch && h.last == c.id || slices.Contains(c.processes, h.id)
	switch {
	case known:
		return ""
	case h.epoch == c.epoch:
		return fmt.Sprintf("rank %d (%s) was in another world of epoch %d than the one that meets here: start it anew", h.from, h.info, h.epoch)
	case c.living() == 0: // this center has made no world that lives
		return ""
	case h.epoch < c.epoch:
		return c.straggler(h.from, h.info, h.epoch)
	}
	return fmt.Sprintf("rank %d (%s) comes from epoch %d, the world that meets here is at %d: start it anew", h.from, h.info, h.epoch, c.epoch)
}

func (c *center) straggler(rank int, info string, epoch uint32) string {
	return fmt.Sprintf("epoch %d of job %q is under way with %d ranks: rank %d (%s) of epoch %d did not come in time, and the others went on without it",
		c.epoch, c.cfg.Job, c.size, rank, info, epoch)
}

// returns notes what a survivor knows of its last epoch.
func (c *center) returns(h hello) {
	if c.living() == 0 && h.epoch > c.epoch { // that was made by a center that is gone
		c.id, c.epoch, c.size, c.processes, c.failed = h.last, h.epoch, h.size, nil, true
		clear(c.awaited)
		for r := range h.size {
			c.awaited[r] = true
		}
	}
	if i := slices.Index(c.processes, h.id); i >= 0 {
		delete(c.awaited, i)
	} else if h.epoch == c.epoch {
		delete(c.awaited, h.from)
	}
	if c.processes == nil && h.epoch == c.epoch {
		delete(c.awaited, int(h.dead)-1)
		delete(c.awaited, int(h.lost)-1)
	}
}

// living counts the members of the epoch under way that have a connection.
func (c *center) living() int {
	n := 0
	for _, s := range c.seats {
		if s.rank >= 0 && !s.left {
			n++
		}
	}
	return n
}

// post tells the members of the epoch under way something, that in this process last: it may stop the center as soon as it knows.
func (c *center) post(f frame, but *seat) {
	var own *seat
	for _, s := range c.seats {
		switch {
		case s.rank < 0 || s == but:
		case s.line == nil:
			own = s
		default:
			s.sink.post(f)
		}
	}
	if own != nil {
		own.sink.post(f)
	}
}

// heard acts on a frame of a process.
func (c *center) heard(s *seat, f frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.rank < 0 && !s.evicted:
		return fmt.Errorf("%w: frame of kind %d from a rank that joins", p2p.ErrMalformed, f.kind)
	case c.claim != nil && c.claim.moved && f.kind == kindRebuild:
		s.sink.post(frame{kind: kindMoved})
		return nil
	case s.rank < 0 && f.kind == kindRebuild:
		s.sink.post(frame{kind: kindAbandon, text: c.straggler(s.claim, s.info, c.epoch-1)})
		return nil
	case s.rank < 0:
		return nil // it does not know yet
	}
	switch f.kind {
	case kindFailed:
		c.judge(c.blamed(s, f.text), f.scope, f.text)
	case kindLeft:
		s.left = true
		c.gone[s.rank] = s.info
		delete(c.awaited, s.rank)
		c.poll.gone(s)
		c.post(frame{kind: kindLeft, rank: s.rank, text: f.text}, s)
		c.consider()
	case kindAsk:
		c.poll.ask(s, f.query, f.scope)
	case kindPosition:
		c.poll.answer(s, f)
	case kindRebuild:
		s.come, s.address = true, f.address
		delete(c.awaited, s.rank)
		c.consider()
	default:
		return fmt.Errorf("%w: frame of kind %d from rank %d", p2p.ErrMalformed, f.kind, s.rank)
	}
	return nil
}

// judge gives the verdict of the epoch under way, or of a scope in it: the first counts.
func (c *center) judge(rank int, scope, reason string) {
	if c.failed || scope != "" && (c.scopes[scope] || len(c.scopes) >= maxScopes) {
		return
	}
	if scope == "" {
		c.failed = true
	} else {
		c.scopes[scope] = true
	}
	c.post(frame{kind: kindFailed, rank: rank, scope: scope, text: reason}, nil)
}

// remove takes a seat away whose connection is no more. A process that is not sure to be dead is waited for where it
// could find another rendezvous, as long as its cut-off side might, and where this process has stood still, so that
// others have given it up: else this one, if all others are out of its reach, would go on alone, and they without it.
func (c *center) remove(s *seat, why string, dead bool) {
	if c.seats[s.process] != s {
		return
	}
	delete(c.seats, s.process)
	c.poll.gone(s)
	if s.rank >= 0 && !s.left {
		if (dead || c.claim == nil) && !c.pulse.justWoke() {
			delete(c.awaited, s.rank)
		}
		c.judge(s.rank, "", why)
	}
	if s.rank < 0 && s.born == 0 {
		c.note(fmt.Sprintf("rank %d (%s) joined and left: %s", s.claim, s.info, why))
	}
}

func closeLine(s *seat) {
	if s.line != nil {
		_ = s.line.conn.Close()
	}
}

// note keeps what people should know if the world does not form.
func (c *center) note(text string) {
	c.cfg.Logger.Warn("a process is not in the world", "reason", text)
	if len(c.notes) < maxNotes {
		c.notes = append(c.notes, text)
	}
}
