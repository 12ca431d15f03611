package collective

import (
	"context"
	"errors"
	"fmt"
)

// Control is what the ranks of a group tell each other beside its Comm. It is implemented by who knows how ranks are reached; all methods may
// be called concurrently.
type Control interface {
	// Report makes position, of at most 256 bytes, what others learn of this rank. It does not wait.
	Report(position []byte)
	// Positions returns what every rank has reported last, by the number that Config.Ranks has for it; nil for one that has not.
	Positions(ctx context.Context) ([][]byte, error)
	// Fail tells all ranks that this one has failed. The first reason becomes the verdict of all. It does not wait.
	Fail(reason string)
	// Failed is closed when there is a verdict: a rank is dead, or has failed.
	Failed() <-chan struct{}
	// Verdict is the rank that it is about, negative for none, and the reason. It is called when Failed is closed.
	Verdict() (rank int, reason string)
}

// A position is a fingerprint and a byte: 0 before the first call, 1 in it, 2 after it.
const positionSize = printSize + 1

const (
	positionNone = iota
	positionIn
	positionAfter
	positionUnknown // on no wire
)

// position is where a rank is in the order of operations.
type position struct {
	call  Call
	state byte
}

func (p position) encode() []byte {
	b := make([]byte, positionSize)
	fingerprint{call: p.call}.encode(b)
	b[printSize] = p.state
	return b
}

func decodePosition(b []byte) (position, error) {
	if len(b) != positionSize || b[printSize] > positionAfter {
		return position{}, errors.New("no position of a rank")
	}
	if b[printSize] == positionNone {
		return position{}, nil
	}
	f, err := decode(b)
	return position{f.call, b[printSize]}, err
}

func (p position) String() string {
	switch p.state {
	case positionNone:
		return "has called nothing"
	case positionIn:
		return fmt.Sprintf("is in %v", p.call)
	default:
		return fmt.Sprintf("has called nothing after %v", p.call)
	}
}

// position is where this rank is.
func (g *Group) position() position {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.current != nil:
		return position{g.current.call, positionIn}
	case g.last.Seq != 0:
		return position{g.last, positionAfter}
	default:
		return position{state: positionNone}
	}
}
