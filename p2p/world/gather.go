package world

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// forming says whether there is no world yet, or nothing is left of it: the next is made of new processes, by the ranks they were started as.
func (c *center) forming() bool {
	for _, s := range c.seats {
		if !s.left && (s.rank >= 0 || s.come && s.born > 0) {
			return false
		}
	}
	return true
}

// consider makes the next epoch if all are there whom it waits for. It is called after every change.
func (c *center) consider() {
	c.endRivalries()
	survivors, newcomers, busy := c.count()
	if survivors == 0 {
		c.since = time.Time{}
	} else if c.since.IsZero() {
		c.since = time.Now()
	}
	switch {
	case survivors == 0 && busy > 0:
		c.announce(newcomers)
	case survivors == 0:
		c.dismiss()
		if missing := c.missing(); len(missing) == 0 {
			c.decide()
		} else {
			c.tell(fmt.Sprintf("%s of %d missing", noun(missing), c.cfg.Size))
		}
	case survivors+newcomers < c.cfg.Least:
		c.tell(fmt.Sprintf("there are %d ranks, and less than %d do not go on", survivors+newcomers, c.cfg.Least))
	case c.behind() && time.Since(c.since) >= c.cfg.Gather:
		c.leave()
	case len(c.awaited) == 0 || time.Since(c.since) >= c.cfg.Gather:
		c.decide()
	default:
		c.tell(fmt.Sprintf("%s of epoch %d missing, waited for until %v have passed", noun(slices.Sorted(maps.Keys(c.awaited))), c.epoch, c.cfg.Gather))
	}
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// count sorts who is there: survivors and newcomers wait for the next epoch, busy ones are in that under way.
func (c *center) count() (survivors, newcomers, busy int) {
	for _, s := range c.seats {
		switch {
		case s.left:
		case s.come && s.born > 0:
			survivors++
		case s.come:
			newcomers++
		case s.rank >= 0:
			busy++
		}
	}
	return survivors, newcomers, busy
}

// announce tells the members how many newcomers wait, and those for what.
func (c *center) announce(newcomers int) {
	if newcomers != c.waiting {
		c.waiting = newcomers
		c.post(frame{kind: kindWaiting, count: newcomers}, nil)
	}
	c.tell(fmt.Sprintf("epoch %d is under way with %d ranks and has not let this process in yet", c.epoch, c.size))
}

// tell says to all that wait for whom or what.
func (c *center) tell(text string) {
	for _, s := range c.seats {
		if s.come && !s.left {
			s.sink.post(frame{kind: kindMissing, text: text})
		}
	}
}

// missing are the ranks of a world that forms which nobody has claimed.
func (c *center) missing() []int {
	here := make(map[int]bool)
	for _, s := range c.seats {
		if s.come && !s.left {
			here[s.claim] = true
		}
	}
	var missing []int
	for r := range c.cfg.Size {
		if !here[r] {
			missing = append(missing, r)
		}
	}
	return missing
}

// dismiss sends those away that have waited for a world that is gone and do not fit the one that forms.
func (c *center) dismiss() {
	taken := make(map[int]string)
	for _, s := range c.ordered() {
		info, doubled := taken[s.claim]
		switch {
		case doubled:
			s.sink.post(frame{kind: kindAbandon, text: fmt.Sprintf("rank %d is %s already", s.claim, info)})
			c.evict(s)
		case s.claim >= c.cfg.Size:
			s.sink.post(frame{kind: kindAbandon, text: fmt.Sprintf("rank %d is not in the world of %d that forms anew", s.claim, c.cfg.Size)})
			c.evict(s)
		}
		taken[s.claim] = s.info
	}
}

// ordered are all that wait, in the order in which they get ranks: those that came in earlier first, new ones by the ranks they were started as.
func (c *center) ordered() []*seat {
	var all []*seat
	for _, s := range c.seats {
		if s.come && !s.left {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *seat) int {
		if a.born == 0 || b.born == 0 {
			return cmp.Or(cmp.Compare(b.born, a.born), cmp.Compare(a.claim, b.claim), cmp.Compare(a.order, b.order))
		}
		return cmp.Or(cmp.Compare(a.born, b.born), cmp.Compare(a.number, b.number))
	})
	return all
}

// seal makes the next epoch of all that wait. Who is in the last one and has not come is told so.
func (c *center) seal(id uint64) {
	all := c.ordered()
	for _, s := range c.seats {
		if s.rival != 0 {
			continue
		}
		if !s.come && !s.left {
			s.sink.post(frame{kind: kindFailed, rank: max(s.rank, 0), text: fmt.Sprintf("it did not come for epoch %d within %v: %d ranks went on without it", c.epoch+1, c.cfg.Gather, len(all))})
		}
		if !s.come {
			c.evict(s)
		}
	}
	c.epoch++
	c.id, c.size, c.own = id, len(all), -1
	c.failed, c.since, c.waiting, c.notes = false, time.Time{}, 0, nil
	c.processes = nil
	clear(c.scopes)
	clear(c.awaited)
	clear(c.gone)
	for r, s := range all {
		s.come, s.rank, c.awaited[r] = false, r, true
		if s.born == 0 {
			s.born, s.number = c.epoch, r
		}
		if s.line == nil {
			c.own = r
		}
		c.processes = append(c.processes, s.process)
	}
	c.poll.reset(all)
	c.cfg.Logger.Info("epoch decided", "epoch", c.epoch, "size", c.size)
	for r, s := range all {
		if r != c.own {
			c.inform(s, all)
		}
	}
	if c.own >= 0 { // last: it may stop the center as soon as it knows
		c.inform(all[c.own], all)
	}
}

// inform tells a member who is in the epoch.
func (c *center) inform(s *seat, all []*seat) {
	for r, m := range all {
		s.sink.post(frame{kind: kindMember, rank: r, address: m.address, host: m.host, text: m.info})
	}
	s.sink.post(frame{kind: kindReady, query: c.id, epoch: c.epoch, rank: s.rank, center: c.own + 1, host: c.cfg.Host, text: c.cfg.Info})
}

// evict ends the connection of a process when it has read what was posted.
func (c *center) evict(s *seat) {
	delete(c.seats, s.process)
	s.evicted, s.rank = true, -1
	if s.stop != nil {
		s.stop()
	}
}

// abandon tells all that wait that the world will not form, and returns the reason; unless it has formed at that moment.
func (c *center) abandon(cause error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.forming() {
		return nil
	}
	text := fmt.Sprintf("%s of %d missing", noun(c.missing()), c.cfg.Size)
	if len(c.notes) > 0 {
		text += " (" + strings.Join(c.notes, "; ") + ")"
	}
	for _, s := range c.seats {
		s.sink.post(frame{kind: kindAbandon, text: "the rendezvous (" + c.cfg.Info + ") gave up: " + text})
	}
	return fmt.Errorf("%w: %s", cause, text)
}

// clock acts when a time is over, until ctx ends.
func (c *center) clock(ctx context.Context) {
	for ctx.Err() == nil {
		var due <-chan time.Time
		if at := c.due(); !at.IsZero() {
			due = time.After(time.Until(at))
		}
		select {
		case <-due:
			c.tick()
		case <-c.kick:
		case <-ctx.Done():
		}
	}
}

// due is when the next time is over, zero if none runs.
func (c *center) due() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.gathered()
	for _, s := range c.seats {
		if s.rival != 0 && (at.IsZero() || s.until.Before(at)) {
			at = s.until
		}
	}
	return at
}

// gathered is when who has come for the next epoch has waited long enough for something.
func (c *center) gathered() time.Time {
	if c.since.IsZero() {
		return time.Time{}
	}
	past := time.Since(c.since)
	switch {
	case past < c.cfg.Suspect && !c.failed:
		return c.since.Add(min(c.cfg.Suspect, c.cfg.Gather))
	case past < c.cfg.Gather:
		return c.since.Add(c.cfg.Gather)
	}
	return time.Time{}
}

// tick goes on without those who have not come in time. Before that it ends what they do: perhaps they wait for one that has come.
func (c *center) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.failed && !c.since.IsZero() && time.Since(c.since) >= c.cfg.Suspect {
		for r, p := range c.processes {
			if s := c.seats[p]; s != nil && s.come {
				c.judge(r, "", "it waits for the next epoch")
			}
		}
	}
	c.consider()
}
