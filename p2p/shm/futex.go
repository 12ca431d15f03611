package shm

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The futex operations of linux/futex.h, without the flag for private memory: the word is shared.
const (
	futexWait = 0
	futexWake = 1
)

// bell is the word on which the sleeper of a rank sleeps. Bit 0 is set while the rank wants to be woken by its peer; the rest
// counts how often the rank woke itself, so that a wake between the look and the sleep is not lost.
type bell struct {
	word *atomic.Uint32
}

const bellWanted = 1

// ring wakes the other rank's sleeper if it wants to be. It is called after every change that rank may wait for.
func (b bell) ring() {
	if v := b.word.Load(); v&bellWanted != 0 && b.word.CompareAndSwap(v, v&^bellWanted) {
		b.wakeOne()
	}
}

// want asks the peer for a ring, and mute takes that back. Only the rank itself calls them.
func (b bell) want() {
	if b.word.Load()&bellWanted == 0 {
		b.word.Or(bellWanted)
	}
}

func (b bell) mute() {
	if b.word.Load()&bellWanted != 0 {
		b.word.And(^uint32(bellWanted))
	}
}

// stir wakes the rank's own sleeper.
func (b bell) stir() {
	b.word.Add(bellWanted + 1)
	b.wakeOne()
}

func (b bell) wakeOne() {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(b.word)), futexWake, 1, 0, 0, 0) // fails on bad arguments only
}

// sleep returns when the word is not old, when somebody rings or stirs, after d, or for no reason.
func (b bell) sleep(old uint32, d time.Duration) {
	ts := unix.NsecToTimespec(d.Nanoseconds())
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(b.word)), futexWait, uintptr(old), uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// yield lets another thread have this CPU.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
