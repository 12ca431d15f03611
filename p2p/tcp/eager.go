package tcp

const (
	// maxEager is the longest message that goes before its receive is known to be posted. A longer one would rather be read straight into
	// its receive than be copied there.
	maxEager = 32 << 10
	// How much may be on its way so in one direction, which bounds what its receiver has to keep.
	maxEagerBytes    = 256 << 10
	maxEagerMessages = 256
)

// credit counts messages that went, or came, before their receives were posted.
type credit struct {
	messages int
	bytes    int
}

// take counts a message of n bytes. It reports false if that would be too much.
func (c *credit) take(n int) bool {
	if n > maxEager || c.messages == maxEagerMessages || c.bytes+n > maxEagerBytes {
		return false
	}
	c.messages++
	c.bytes += n
	return true
}

func (c *credit) put(n int) {
	c.messages--
	c.bytes -= n
}

// aside is a message that came before its receive was posted.
type aside struct {
	buf     []byte
	full    bool // it has come
	adopted bool // the receive is posted, and waits for it
}

// hurry issues a send of which it is not known that its receive is posted, and reports false if it may not go before that. c.mu is held.
func (c *Comm) hurry(seq uint64, s *sending) bool {
	if !c.lent.take(s.size) {
		return false
	}
	s.eager = true
	c.whole.push(outgoing{seq: seq, load: s.load, piece: s.size, eager: true})
	c.poke(0)
	return true
}

// settle notes that the peer keeps nothing of a send any more; c.mu is held.
func (c *Comm) settle(s *sending) {
	if s.eager && !s.agreed {
		c.lent.put(s.size)
	}
	s.agreed = true
}

// onEager reads a message into its receive if that is posted, else aside.
func (c *Comm) onEager(r *source, h header) error {
	b, a, err := c.place(h)
	if err != nil {
		return err
	}
	if err := take(r, h, b); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case a == nil:
		c.arrive(h.seq, len(b))
	case a.adopted:
		copy(c.recvs.ref(int(h.seq-c.firstRecv)).buf, b)
		c.arrive(h.seq, len(b))
	default:
		a.full = true
	}
	return nil
}

// place finds memory for a message. What it returns as aside is not its receive's.
func (c *Comm) place(h header) ([]byte, *aside, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	posted := c.firstRecv + uint64(c.recvs.len())
	next := posted + uint64(c.asides.len())
	if h.seq < c.firstRecv || h.seq > next {
		return nil, nil, broken(h, "want number %d, or %d at most", next, c.firstRecv)
	}
	if h.seq < posted {
		return c.placePosted(h)
	}
	if h.seq < next {
		return nil, nil, broken(h, "it was sent before")
	}
	if !c.kept.take(int(h.size)) {
		return nil, nil, broken(h, "%d messages of %d bytes wait for their receives", c.kept.messages, c.kept.bytes)
	}
	a := &aside{buf: make([]byte, h.size)}
	c.asides.push(a)
	return a.buf, a, nil
}

// placePosted is place for a message whose receive is posted; c.mu is held.
func (c *Comm) placePosted(h header) ([]byte, *aside, error) {
	r := c.recvs.ref(int(h.seq - c.firstRecv))
	if r.begun || r.odd || h.size > maxEager {
		return nil, nil, broken(h, "a part of it was sent before")
	}
	if uint64(len(r.buf)) != uint64(h.size) {
		r.odd = true
		a := &aside{buf: make([]byte, h.size)}
		return a.buf, a, nil
	}
	r.eager, r.begun = true, true
	return r.buf, nil, nil
}

// adopt gives the receive posted last the message that came for it; c.mu is held.
func (c *Comm) adopt() {
	if c.asides.len() == 0 {
		return
	}
	a := c.asides.pop()
	c.kept.put(len(a.buf))
	last := c.recvs.len() - 1
	r := c.recvs.ref(last)
	if len(r.buf) != len(a.buf) {
		r.odd = true
		return
	}
	r.eager, r.begun = true, true
	if !a.full {
		a.adopted = true
		return
	}
	copy(r.buf, a.buf)
	c.arrive(c.firstRecv+uint64(last), len(a.buf))
}
