package p2p

import (
	"context"
	"errors"
	"fmt"
)

// The errors a caller may branch on. Every backend wraps them, so test with [errors.Is].
var (
	// ErrClosed means that this side closed the Comm, or that it was dead already.
	ErrClosed = errors.New("p2p: comm closed")
	// ErrPeer means that the other side is lost: it closed, died, or broke the protocol.
	ErrPeer = errors.New("p2p: peer lost")
	// ErrRefused means that one side does not admit the other, or that an address is none: trying again cannot help.
	ErrRefused = errors.New("refused for good")
	// ErrLength means that the two sides named different lengths for one message.
	ErrLength = errors.New("p2p: lengths differ")
	// ErrRank means that the peer is not another rank of this Comm. Nothing was transferred and the Comm lives on.
	ErrRank = errors.New("p2p: no such peer")
	// ErrCorrupt means that bytes did not arrive as they were sent.
	ErrCorrupt = errors.New("p2p: bytes corrupted")
)

// Comm moves bytes between a fixed set of ranks. It promises what HCCL promises and no more:
//
//   - Messages from one rank to another are matched with that rank's receives by order alone, each direction for
//     itself: there are no tags and no wildcards. Both sides know the length, and it may be zero.
//   - A send completes when its receive has taken the bytes. A backend may buffer or may wait for the receive;
//     a caller must not rely on either.
//   - Isend and Irecv return at once. From the call until the Request completes the buffer belongs to the Comm: a send
//     buffer must not be written, a receive buffer neither read nor written. After completion, also by an error, the
//     Comm does not touch it again.
//   - After an error other than ErrRank the Comm is dead: all that is pending fails with it, and all that follows with an
//     error that wraps ErrClosed and the first cause. Close it and make a new one.
//   - A rank may close as soon as its own Requests are complete.
//
// All methods may be called by any number of goroutines at the same time; who wants an order between two calls
// to the same peer makes them from one goroutine.
type Comm interface {
	// Rank is this side's number, 0 <= Rank < Size.
	Rank() int
	// Size is the number of ranks.
	Size() int
	// Isend begins to send all of b to peer.
	Isend(peer int, b Buffer) *Request
	// Irecv begins to fill all of b from peer.
	Irecv(peer int, b Buffer) *Request
	// Close ends the Comm and may be called more than once. Every pending Request fails with ErrClosed, on this
	// side at once or as soon as the backend has let go of its buffer, on the peers with ErrPeer.
	Close() error
}

// Send sends all of b to peer and waits until the peer has taken it. If ctx ends first the Comm must be closed.
func Send(ctx context.Context, c Comm, peer int, b Buffer) error {
	return c.Isend(peer, b).Wait(ctx)
}

// Recv fills all of b from peer. If ctx ends first the Comm must be closed.
func Recv(ctx context.Context, c Comm, peer int, b Buffer) error {
	return c.Irecv(peer, b).Wait(ctx)
}

// CheckPeer returns an error that wraps ErrRank unless peer is another rank of c. Backends call it first.
func CheckPeer(c Comm, peer int) error {
	if peer < 0 || peer >= c.Size() || peer == c.Rank() {
		return fmt.Errorf("reach peer %d from rank %d of %d: %w", peer, c.Rank(), c.Size(), ErrRank)
	}
	return nil
}

// Dead is the error of a call to the Comm of a rank that died of cause: it wraps ErrClosed and cause.
func Dead(rank int, cause error) error {
	if errors.Is(cause, ErrClosed) {
		return fmt.Errorf("use comm of rank %d: %w", rank, cause)
	}
	return fmt.Errorf("use dead comm of rank %d: %w: %w", rank, ErrClosed, cause)
}
