package shm

// Asleep says whether this rank has asked its peer for a ring.
func (c *Comm) Asleep() bool {
	e := &c.engine
	e.Lock()
	defer c.work(true)
	defer e.Unlock()
	return e.mem != nil && e.own.wanted()
}
