package shm

import "time"

// How long one waits for the peer in which way. The peer answers within these times or does something else first.
const (
	spinFor   = 4 * time.Microsecond
	yieldFor  = 50 * time.Microsecond
	busyYield = time.Microsecond // a yield that takes longer has let another thread run
	spinBatch = 32               // looks between two readings of the clock
	holdFor   = 700 * time.Microsecond
	minCrowd  = 64
	maxCrowd  = 1 << 13
)

// patience says how to pass the time while nothing moves: look again at once while CPUs are free, then give the CPU to others
// between two looks, then stop looking. Whether CPUs are free is seen by how long a yield takes.
//
// Two threads that yield to each other stay on one CPU, though another may be free, since Linux does not move a thread that ran within the last
// half millisecond. So after a long yield the next wait holds the CPU for longer than that, once. If the peer answers meanwhile it has a CPU
// of its own. If not there is a crowd: a number of waits begin with yielding, and twice as many each time that this is found.
//
// One goroutine uses it at a time.
type patience struct {
	looks    int // since something moved
	since    time.Time
	yielding bool
	hold     bool // the next wait holds the CPU
	holding  bool // this one does
	crowded  int  // waits to come that do not spin
	crowd    int  // the last number of such waits
}

// moved begins a new wait.
func (p *patience) moved() {
	if p.holding {
		p.holding, p.crowd = false, 0
	}
	p.looks = 0
}

// pause passes some time. It says false when it is time to sleep.
func (p *patience) pause() bool {
	if p.looks++; p.looks == 1 {
		p.begin()
	}
	if !p.yielding && p.looks%spinBatch != 0 {
		return true
	}
	now := time.Now()
	if p.since.IsZero() {
		p.since = now
	}
	waited := now.Sub(p.since)
	switch {
	case p.holding && waited < holdFor, !p.holding && !p.yielding && waited < spinFor:
		return true
	case p.holding:
		p.holding = false
		p.crowd = min(max(2*p.crowd, minCrowd), maxCrowd)
		p.crowded = p.crowd
		p.since, waited = now, 0
	}
	p.yielding = true
	if waited > yieldFor {
		return false
	}
	yield()
	if p.crowded == 0 && time.Since(now) > busyYield {
		p.hold = true
	}
	return true
}

func (p *patience) begin() {
	p.since, p.yielding = time.Time{}, p.crowded > 0
	p.holding, p.hold = p.hold, false
	if p.holding {
		p.yielding = false
	}
	p.crowded = max(0, p.crowded-1)
}
