package p2p

import "fmt"

// Mode is how a message of some size is moved.
type Mode uint8

// The modes, by rising size.
const (
	// OneShot is a single chunk whose sender waits for it: least latency, no overlap.
	OneShot Mode = iota
	// OneShotAsync is a single chunk that nobody waits for at once, so that many peers are served side by side.
	OneShotAsync
	// Pipelined is a window of chunks in flight.
	Pipelined
	// Wide is Pipelined with the largest window.
	Wide
)

// String is the name in logs.
func (m Mode) String() string {
	switch m {
	case OneShot:
		return "one-shot"
	case OneShotAsync:
		return "one-shot async"
	case Pipelined:
		return "pipelined"
	case Wide:
		return "wide"
	default:
		return fmt.Sprintf("mode(%d)", uint8(m))
	}
}

// ModePolicy chooses the mode of a message. The zero value has the defaults. A Transfer, which waits for nothing and may
// have to cut even a small message, has the window of the mode and no more of it.
type ModePolicy struct {
	Pipelined int // bytes from which a message is pipelined, default 1 MiB
	Wide      int // bytes above which the window is the largest, default 100 MiB
	Blocking  int // peers up to which a one-shot message blocks, default 4
}

// Mode is the mode of a message of so many bytes in a world where each rank has so many peers.
func (p ModePolicy) Mode(bytes, peers int) Mode {
	switch {
	case bytes > orDefault(p.Wide, 100<<20):
		return Wide
	case bytes >= orDefault(p.Pipelined, 1<<20):
		return Pipelined
	case peers > orDefault(p.Blocking, 4):
		return OneShotAsync
	default:
		return OneShot
	}
}

// orDefault is v, or def when v is zero.
func orDefault[T int | float64](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}
