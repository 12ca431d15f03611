package shm

import (
	"time"

	"golang.org/x/sys/unix"
)

// How long one waits for the peer in which way. The peer answers within these times or does something else first.
const (
	spinFor   = 4 * time.Microsecond
	yieldFor  = 50 * time.Microsecond
	busyYield = time.Microsecond // a yield that takes longer has let another thread run
	spinBatch = 32               // looks between two readings of the clock
	crowdFor  = 256              // waits that begin with yielding after the last long yield
)

// A wait in vain costs about four times what one with success spares, so they are worth while when four of five have success.
const (
	fullHope = 8  // at first
	vainCost = 4  // of hope, for a wait in vain; one with success brings 1
	tryEvery = 32 // a wait among so many is tried without hope
)

// patience says how to pass the time while nothing moves: look again at once while CPUs are free, then give the CPU to others
// between two looks, then stop looking. Whether CPUs are free is seen by how long a yield takes. Of two threads that yield to each
// other the kernel moves one away when another CPU is free; to hold the CPU or to sleep for that end was tried and is slower. When
// waits have mostly been in vain it does not look at all. One goroutine uses it at a time.
type patience struct {
	looks    int // since something moved
	since    time.Time
	yielding bool
	crowded  int // waits to come that do not spin
	vain     int // hope lost
	hopeless int // waits without hope
}

// begin begins the first wait.
func (p *patience) begin() { p.looks = 0 }

// moved ends a wait and begins the next.
func (p *patience) moved() {
	if p.looks > 0 {
		p.looks, p.vain = 0, max(0, p.vain-1)
	}
}

// pause passes some time. It says false when it is time to sleep.
func (p *patience) pause() bool {
	if p.looks++; p.looks == 1 {
		if p.vain >= fullHope {
			if p.hopeless++; p.hopeless%tryEvery != 0 {
				return false
			}
		}
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
		p.vain = min(fullHope, p.vain+vainCost)
		return false
	}
	yield()
	if time.Since(now) > busyYield {
		p.crowded = crowdFor
	}
	return true
}

// yield lets another thread have this CPU.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
