package shm

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// bell is the word by which a rank asks its peer for a byte on the connection: 1 while it wants one. The byte wakes the rank's Run, which
// waits for it where all of Go's connections are waited for, so that no thread sleeps in it.
type bell struct {
	word *atomic.Uint32
}

func (b bell) wanted() bool { return b.word.Load() != 0 }

// want asks for a byte, and mute takes that back. Only the rank itself calls them.
func (b bell) want() {
	if !b.wanted() {
		b.word.Store(1)
	}
}

func (b bell) mute() {
	if b.wanted() {
		b.word.Store(0)
	}
}

// ringer rings the peer's bell. It belongs to the engine.
type ringer struct {
	bell  bell
	conn  net.Conn
	raw   syscall.RawConn // nil if the kernel does not know conn
	write func(fd uintptr) bool
}

// ringByte is all that is ever sent on the connection after the negotiation.
const ringByte = 1

// ringLooks take less time than a ring.
const ringLooks = 400

// ringTime bounds the writing of a byte, which a peer that breaks the protocol may hold up.
const ringTime = time.Second

func newRinger(b bell, conn net.Conn) *ringer {
	r := &ringer{bell: b, conn: conn}
	var socket syscall.Conn
	switch c := conn.(type) { // not any syscall.Conn: what wraps a socket may have its own way to write
	case *net.UnixConn:
		socket = c
	case *net.TCPConn:
		socket = c
	default:
		return r
	}
	if raw, err := socket.SyscallConn(); err == nil {
		r.raw = raw
		one := []byte{ringByte}
		r.write = func(fd uintptr) bool {
			_, _ = syscall.Write(int(fd), one) // full: then there are bytes to wake it; broken: Run reads of that
			return true
		}
	}
	return r
}

// ring is called after every change that the peer may wait for. A rank wants a ring for a moment whenever it has posted something and does not
// wait yet, so some hundred nanoseconds of patience spare most of the bytes.
func (r *ringer) ring() {
	for range ringLooks {
		if !r.bell.wanted() {
			return
		}
	}
	if !r.bell.word.CompareAndSwap(1, 0) {
		return // it is awake
	}
	if r.raw != nil {
		_ = r.raw.Write(r.write) // fails when the connection is closed: then nobody waits
		return
	}
	if r.conn.SetWriteDeadline(time.Now().Add(ringTime)) == nil {
		_, _ = r.conn.Write([]byte{ringByte})
	}
}
