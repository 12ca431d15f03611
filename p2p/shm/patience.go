package shm

import "time"

// How long one waits for the peer in which way. The peer answers within these times or does something else first.
const (
	spinFor   = 4 * time.Microsecond
	yieldFor  = 50 * time.Microsecond
	busyYield = time.Microsecond // a yield that takes longer has let another thread run
	spinBatch = 32               // looks between two readings of the clock
	crowdFor  = 256              // waits that begin with yielding after the last long yield
)

// patience says how to pass the time while nothing moves: look again at once while CPUs are free, then give the CPU to others
// between two looks, then stop looking. Whether CPUs are free is seen by how long a yield takes. Of two threads that yield to each
// other the kernel moves one away when another CPU is free; to hold the CPU or to sleep for that end was tried and is slower. One
// goroutine uses it at a time.
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
	if time.Since(now) > busyYield {
		p.crowded = crowdFor
	}
	return true
}
