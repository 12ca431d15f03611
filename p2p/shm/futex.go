package shm

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The futex operations of linux/futex.h, without the flag for private memory: the word is shared.
const (
	futexWaitBitset = 9
	futexWakeBitset = 10
)

// bell is the word on which a rank sleeps: one goroutine that waits for a transfer (the driver) and Run. The low bits say whom of
// them the peer shall wake; the rest counts how often the rank woke one of its own, so that a wake between the last look and the
// sleep is not lost.
type bell struct {
	word *atomic.Uint32
}

// sleeper is a bit of the bell.
type sleeper uint32

const (
	runSleeps    sleeper = 1
	driverSleeps sleeper = 2
	bellCount            = 4
)

// ring wakes the other rank's sleeper if it wants to be, the driver rather than Run. It is called after every change that rank may wait
// for. A rank wants it for a moment whenever it has posted something and does not wait yet, so some hundred nanoseconds of
// patience spare most of the wakes.
func (b bell) ring() {
	for range ringLooks {
		if b.wanted() == 0 {
			return
		}
	}
	v := b.word.Load()
	wanted := sleeper(v) & (runSleeps | driverSleeps)
	if wanted == 0 || !b.word.CompareAndSwap(v, v&^uint32(runSleeps|driverSleeps)) {
		return // a change means that it is awake
	}
	if wanted&driverSleeps != 0 {
		wanted = driverSleeps
	}
	b.wake(wanted)
}

// ringLooks take less time than a wake.
const ringLooks = 400

func (b bell) wanted() sleeper { return sleeper(b.word.Load()) & (runSleeps | driverSleeps) }

// want asks the peer for a ring, and mute takes that back. Only the rank itself calls them.
func (b bell) want(s sleeper) {
	if b.wanted() != s {
		b.mute()
		b.word.Or(uint32(s))
	}
}

func (b bell) mute() {
	if b.wanted() != 0 {
		b.word.And(^uint32(runSleeps | driverSleeps))
	}
}

// stir wakes one of the rank's own.
func (b bell) stir(s sleeper) {
	b.word.Add(bellCount)
	b.wake(s)
}

func (b bell) wake(s sleeper) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(b.word)), futexWakeBitset, 1, 0, 0, uintptr(s)) // fails on bad arguments only
}

// sleep returns when the word is not old, when s is woken, after d (then it says true), or for no reason.
func (b bell) sleep(s sleeper, old uint32, d time.Duration) bool {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return false // it does not fail
	}
	until := unix.NsecToTimespec(now.Nano() + d.Nanoseconds())
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(b.word)), futexWaitBitset, uintptr(old), uintptr(unsafe.Pointer(&until)), 0, uintptr(s))
	return errno == unix.ETIMEDOUT
}

// yield lets another thread have this CPU.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
