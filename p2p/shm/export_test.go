package shm

// SleepFor is when Run parks.
const SleepFor = sleepFor

// Asleep says whether this rank sleeps on its bell with a transfer pending, or Run does without.
func (c *Comm) Asleep() bool {
	e := &c.engine
	e.Lock()
	defer e.Unlock()
	return e.mem != nil && (e.sleeper != nil || e.runner == runnerAsleep)
}
