package hccl

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"hcclps/p2p/hccl/acl"
)

const (
	spinFor     = 30 * time.Microsecond // looks without a pause before the waiter sleeps in the runtime
	sleepMillis = 1                     // how long it sleeps there for one event before it looks at the others
	asyncEvery  = time.Second           // between two looks at the asynchronous errors of communicators
)

// lane is the events of one stream that somebody waits for, in the stream's order.
type lane struct {
	waits  queue[wait] // under the waiter's lock
	listed bool        // among the lanes of the waiter, or in the hands of sweep
	gone   bool
}

// wait is an event and what to do when it has happened, or cannot.
type wait struct {
	event acl.Event
	done  func(error)
}

// watched is a communicator whose asynchronous errors are polled.
type watched struct {
	comm acl.Comm
	fail func(error)
}

// waiter looks at events on an OS thread of its own, which has set the device and issues nothing.
type waiter struct {
	lib  *acl.Lib
	wake chan struct{}

	mu      sync.Mutex
	idle    sync.Cond // signalled when the waiter leaves a lane or a communicator
	lanes   []*lane
	comms   []*watched
	inLane  *lane // whose event the waiter looks at without the lock
	inComm  *watched
	nextOne int
}

func newWaiter(lib *acl.Lib) *waiter {
	w := &waiter{lib: lib, wake: make(chan struct{}, 1)}
	w.idle.L = &w.mu
	return w
}

// await calls done, on the waiter's thread, when the event has happened. It was recorded on the lane's stream.
func (w *waiter) await(l *lane, e acl.Event, done func(error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.gone {
		return
	}
	if !l.listed {
		l.listed = true
		w.lanes = append(w.lanes, l)
	}
	l.waits.push(wait{e, done})
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// watch polls a communicator.
func (w *waiter) watch(c *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.comms = append(w.comms, c)
}

// drop forgets lanes and a communicator: when it returns the waiter does not look at them, and calls nothing of them.
// It must not be called by what await calls.
func (w *waiter) drop(c *watched, lanes ...*lane) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range lanes {
		l.gone = true
		l.waits = queue[wait]{}
	}
	w.comms = slices.DeleteFunc(w.comms, func(x *watched) bool { return x == c })
	for w.inComm != nil && w.inComm == c || w.inLane != nil && w.inLane.gone {
		w.idle.Wait()
	}
}

// run looks at events until stop is closed. Its thread has set the device.
func (w *waiter) run(stop <-chan struct{}) {
	ticker := time.NewTicker(asyncEvery)
	defer ticker.Stop()
	var quietSince time.Time
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			w.pollComms()
		default:
		}
		switch pending, progress := w.sweep(); {
		case pending == 0:
			select {
			case <-stop:
				return
			case <-ticker.C:
				w.pollComms()
			case <-w.wake:
			}
			quietSince = time.Time{}
		case progress:
			quietSince = time.Time{}
		case quietSince.IsZero():
			quietSince = time.Now()
		case time.Since(quietSince) < spinFor:
			runtime.Gosched()
		default:
			w.sleep()
		}
	}
}

// sweep completes what has happened at the front of every lane, and counts the lanes with more to come.
func (w *waiter) sweep() (pending int, progress bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lanes := w.lanes
	w.lanes = nil
	for _, l := range lanes {
		for !l.gone && l.waits.len() > 0 {
			next := *l.waits.front()
			ok, err := w.look(l, next.event)
			if !ok && err == nil || l.gone {
				break
			}
			l.waits.pop()
			w.inLane = l // done may run while drop waits
			w.mu.Unlock()
			next.done(err)
			w.mu.Lock()
			w.inLane = nil
			w.idle.Broadcast()
			progress = true
		}
		if l.listed = !l.gone && l.waits.len() > 0; l.listed {
			w.lanes = append(w.lanes, l)
		}
	}
	return len(w.lanes), progress
}

// look asks for one event without the lock, which it holds before and after.
func (w *waiter) look(l *lane, e acl.Event) (bool, error) {
	w.inLane = l
	w.mu.Unlock()
	ok, err := w.lib.EventDone(e)
	w.mu.Lock()
	w.inLane = nil
	w.idle.Broadcast()
	return ok, err
}

// sleep lets the runtime wait for the next event of one lane, each in turn.
func (w *waiter) sleep() {
	w.mu.Lock()
	if len(w.lanes) == 0 {
		w.mu.Unlock()
		return
	}
	w.nextOne = (w.nextOne + 1) % len(w.lanes)
	l := w.lanes[w.nextOne]
	if l.gone || l.waits.len() == 0 {
		w.mu.Unlock()
		return
	}
	e := l.waits.front().event
	w.inLane = l
	w.mu.Unlock()
	if err := w.lib.SynchronizeEvent(e, sleepMillis); errors.Is(err, acl.ErrNoSymbol) {
		<-time.After(sleepMillis * time.Millisecond)
	} // what else it says the next look tells too
	w.mu.Lock()
	w.inLane = nil
	w.idle.Broadcast()
	w.mu.Unlock()
}

// pollComms asks every communicator for an error that its links had meanwhile.
func (w *waiter) pollComms() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range slices.Clone(w.comms) {
		w.inComm = c
		w.mu.Unlock()
		err := w.lib.AsyncError(c.comm)
		if err != nil {
			c.fail(err)
		}
		w.mu.Lock()
		w.inComm = nil
		w.idle.Broadcast()
	}
}
