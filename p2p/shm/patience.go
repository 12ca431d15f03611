package shm

import "time"

// How long one waits for the peer in which way. The peer answers within these times or does something else first.
const (
	spinFor   = 4 * time.Microsecond
	yieldFor  = 50 * time.Microsecond
	busyYield = time.Microsecond // a yield that takes longer has let another thread run
	spinBatch = 32               // looks between two readings of the clock
	crowdFor  = 64               // waits that do not spin after one that met a crowd
)

// patience says how to pass the time while nothing moves: look again at once while CPUs are free, then give the CPU to others
// between two looks, then stop looking. Whether CPUs are free is seen by how long a yield takes. The first time that one is long,
// it is better to sleep: two threads that yield to each other stay on one CPU, but a sleeper is woken on a free one. If that does not
// help there is a crowd, and some of the next waits begin with yielding. One goroutine uses it at a time.
type patience struct {
	looks    int // since something moved
	since    time.Time
	yielding bool
	crowded  int // waits to come that do not spin
}

// moved begins a new wait.
func (p *patience) moved() { p.looks = 0 }

// pause passes some time. It says false when it is time to sleep.
func (p *patience) pause() bool {
	if p.looks++; p.looks == 1 {
		p.since, p.yielding = time.Time{}, p.crowded > 0
		p.crowded = max(0, p.crowded-1)
	}
	if !p.yielding && p.looks%spinBatch != 0 {
		return true
	}
	now := time.Now()
	if p.since.IsZero() {
		p.since = now
	}
	waited := now.Sub(p.since)
	if !p.yielding && waited < spinFor {
		return true
	}
	p.yielding = true
	if waited > yieldFor {
		return false
	}
	yield()
	if p.crowded > 0 || time.Since(now) < busyYield {
		return true
	}
	p.crowded = crowdFor
	return false
}
