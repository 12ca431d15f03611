package link

import (
	"net"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How long the reader of a control connection looks for bytes before it sleeps. To be woken takes longer than most of what a peer does for
// a call, and to wake it takes time of who writes.
const (
	lookFor   = 250 * time.Microsecond // since a frame went or came
	longYield = 50 * time.Microsecond  // a yield that takes longer has let other processes run, which need the CPUs
	crowdFor  = 64                     // reads that do not look, after that
)

// A look in vain costs about four times what one with success spares, so reads look while four of five have success.
const (
	fullHope = 8  // at first
	vainCost = 4  // of hope, for a look in vain; one with success brings 1
	tryEvery = 32 // a read among so many looks without hope
)

// While goroutines look the runtime may have no time to notice what else has come to the process. So nobody looks in one slot of eight,
// by the clock.
const (
	slotBits = 17 // of nanoseconds: 131 us
	slots    = 8
)

// eager reads a connection: it looks for bytes for a while before it sleeps for them. One goroutine reads.
type eager struct {
	net.Conn
	raw   syscall.RawConn // nil: it does not look
	calm  atomic.Bool     // it does not look for now
	began time.Time
	moved atomic.Int64 // when a frame went or came, since began

	b   []byte // what is read into
	n   int
	try func(fd uintptr) bool

	hope
}

// newEager is of a Unix socket from which the first bytes were read already, or of another connection, at which it does not look: over TCP
// it gains nothing.
func newEager(conn net.Conn) *eager {
	e := &eager{Conn: conn, began: time.Now()}
	if c, ok := conn.(syscall.Conn); ok && conn.RemoteAddr().Network() == "unix" {
		e.raw, _ = c.SyscallConn() // without it, it does not look
	}
	e.try = func(fd uintptr) bool {
		e.n, _ = syscall.Read(int(fd), e.b) // what goes wrong is told by the Read that sleeps
		return true
	}
	return e
}

// touch says that a frame went or came: another may come soon.
func (e *eager) touch() { e.moved.Store(int64(time.Since(e.began))) }

// Read implements io.Reader.
func (e *eager) Read(b []byte) (n int, err error) {
	if e.raw != nil && !e.calm.Load() && len(b) > 0 && e.looks() {
		n = e.look(b)
	}
	if n <= 0 {
		n, err = e.Conn.Read(b)
	}
	e.touch()
	return n, err
}

// look reads what comes soon. Without anything it returns 0 or less.
func (e *eager) look(b []byte) int {
	e.b, e.n = b, 0
	defer func() { e.b = nil }()
	for {
		now := time.Now()
		if now.Sub(e.began)-time.Duration(e.moved.Load()) > lookFor {
			e.failed()
			return 0
		}
		if now.UnixNano()>>slotBits%slots == 0 || e.raw.Read(e.try) != nil {
			return 0
		}
		if e.n > 0 {
			e.succeeded()
			return e.n
		}
		runtime.Gosched() // others of this process first
		now = time.Now()
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		if time.Since(now) > longYield {
			e.crowded = crowdFor
			return 0
		}
	}
}

// hope says whether looking is worth while.
type hope struct {
	vain     int // hope lost
	hopeless int // reads without hope
	crowded  int // reads to come that do not look
}

func (h *hope) looks() bool {
	if h.crowded > 0 {
		h.crowded--
		return false
	}
	if h.vain < fullHope {
		return true
	}
	h.hopeless++
	return h.hopeless%tryEvery == 0
}

func (h *hope) succeeded() { h.vain = max(0, h.vain-1) }

func (h *hope) failed() { h.vain = min(fullHope, h.vain+vainCost) }
