package world

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// meetRival finds a member that has the name of one that is new. A dead one is not always known to be dead when its successor comes: so it has some time to
// show that it lives.
func (c *center) meetRival(s *seat) {
	if s.born > 0 || s.name == "" || c.forming() {
		return
	}
	for _, old := range c.seats {
		if old.name == s.name && old.process != s.process && !old.left && (old.rank >= 0 || old.come) {
			s.rival, s.come = old.process, false
			s.until = time.Now().Add(c.cfg.Suspect + c.cfg.Heartbeat)
			s.sink.post(frame{kind: kindMissing, text: fmt.Sprintf("%s is %s already: it is waited whether that is dead", s.name, old.info)})
			return
		}
	}
}

// endRivalries lets those wait whose rival is gone, and refuses those whose rival lives.
func (c *center) endRivalries() {
	for _, s := range c.seats {
		if s.rival == 0 {
			continue
		}
		old := c.seats[s.rival]
		switch {
		case old == nil || old.left:
			s.rival, s.come = 0, true
		case !time.Now().Before(s.until):
			s.sink.post(frame{kind: kindAbandon, text: fmt.Sprintf("%s is %s already, which lives, and the caller (%s) says that it is that too", s.name, old.info, s.info)})
			c.note(fmt.Sprintf("a second %s: %s lives, %s is refused", s.name, old.info, s.info))
			s.rival = 0
			c.evict(s)
		}
	}
}

// otherTerms says in what a caller differs from who is here.
func (c *center) otherTerms(h *hello) string {
	theirs, ours := strings.Split(h.terms, "\n"), strings.Split(c.terms.terms, "\n")
	only := func(a, b []string) string {
		i := slices.IndexFunc(a, func(t string) bool { return !slices.Contains(b, t) })
		if i < 0 {
			return "nothing of that"
		}
		return strings.Replace(a[i], "=", " ", 1)
	}
	return fmt.Sprintf("rank %d (%s) has %s, rank %d (%s) has %s: give all ranks the same", h.from, h.info, only(theirs, ours), c.terms.from, c.terms.info, only(ours, theirs))
}

// blamed is the rank of a verdict for which a member says a reason: one that has left and that the reason names, or else the member.
func (c *center) blamed(s *seat, why string) int {
	for rank, info := range c.gone {
		if strings.Contains(why, fmt.Sprintf("rank %d has left", rank)) || strings.Contains(why, fmt.Sprintf("rank %d (%s) has left", rank, info)) {
			return rank
		}
	}
	return s.rank
}
