package tcp

import "hcclps/p2p"

// sending is a send that the peer has not taken.
type sending struct {
	load
	done   p2p.Completion
	eager  bool // it goes before its ready, which need not come
	agreed bool // its ready has come
}

// refusal is the end of a Comm whose sides differ about the length of a message.
type refusal struct {
	seq, sent, posted uint64
}

// match issues sends, in order: those of which the receive is known to be posted, and those that may go before; c.mu is held.
func (c *Comm) match() {
	for c.issued < c.sends.len() && c.refusal == nil {
		seq, s := c.firstSend+uint64(c.issued), c.sends.ref(c.issued)
		switch {
		case c.ready.len() > 0:
			if !c.agree(seq, s, c.ready.pop()) {
				return
			}
		case !c.hurry(seq, s):
			return
		}
		c.issued++
	}
}

// agree notes the length of the receive of a send, and issues what has not gone yet. It reports false if the lengths differ. c.mu is held.
func (c *Comm) agree(seq uint64, s *sending, posted uint64) bool {
	c.settle(s)
	if posted != uint64(s.size) {
		c.refusal = &refusal{seq, uint64(s.size), posted}
		c.poke(0)
		return false
	}
	if !s.eager {
		c.issue(outgoing{seq: seq, load: s.load, piece: s.size})
	}
	return true
}

// issue lets the writers have a message; c.mu is held.
func (c *Comm) issue(o outgoing) {
	if o.piece <= maxWhole {
		c.whole.push(o)
		c.poke(0)
		return
	}
	o.piece = pieceSize(o.size, len(c.conns), c.sums, c.striped.len() > 0)
	c.striped.push(o)
	for k := range c.conns {
		c.poke(k)
	}
}

// onReady notes that the peer has posted a receive. It says nothing of those for which it has the message already.
func (c *Comm) onReady(h header) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.seq < c.nextReady || h.seq-c.firstSend >= maxPosted {
		return broken(h, "want number %d, below %d", c.nextReady, c.firstSend+maxPosted)
	}
	issued := c.firstSend + uint64(c.issued)
	if h.seq > max(c.nextReady, issued) { // what is issued and has no ready went early
		return broken(h, "want number %d at most", max(c.nextReady, issued))
	}
	c.nextReady = h.seq + 1
	if h.seq < issued {
		c.agree(h.seq, c.sends.ref(int(h.seq-c.firstSend)), h.at)
	} else {
		c.ready.push(h.at)
	}
	c.match()
	return nil
}

// onDone completes the sends that the peer has taken.
func (c *Comm) onDone(h header) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.at != 0 || h.seq < c.firstSend || h.seq >= c.firstSend+uint64(c.issued) {
		return broken(h, "%d messages are under way from number %d", c.issued, c.firstSend)
	}
	// A writer has read these messages for their sums before it wrote them, and the peer has them: an order that goes over the network, of
	// which the memory model learns nothing by writev.
	c.summed.Load()
	for c.firstSend <= h.seq {
		c.settle(c.sends.ref(0))
		c.firstSend++
		c.issued--
		c.sends.pop().done.Complete(nil)
	}
	c.nextReady = max(c.nextReady, c.firstSend)
	c.match()
	return nil
}
