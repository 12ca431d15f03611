package link

import (
	"context"
	"errors"
	"fmt"
	"net"

	"hcclps/p2p"
)

// Network makes connections. p2p/sockets and p2p/inproc have one each.
type Network interface {
	// Listen opens addr for peers until the listener is closed.
	Listen(ctx context.Context, addr string) (net.Listener, error)
	// Dial connects to a listener. It gives up when ctx ends.
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// Comm is a p2p.Comm whose goroutines are owned by Run. Run blocks until ctx ends, the Comm is closed or its peer is lost.
type Comm = p2p.RunningComm

// PairFunc makes the bulk Comm of one epoch of a pair from fresh stream connections between the two processes: one or
// more stripes, the first of one side being the first of the other. The dialler is rank 0, the acceptor rank 1. It may
// exchange bytes over them before it returns, bounded by ctx. The Comm owns the connections from then on and keeps them
// open for its life: their end tells at once that the other process died. On error they are closed.
type PairFunc func(ctx context.Context, conns []net.Conn, rank int) (Comm, error)

// UpgradeFunc makes a better Comm of a pair over a fresh connection while another one is in use. It may take as long as
// ctx allows, which is a minute. The dialler is rank 0. The Comm owns conn from then on; on error conn is closed.
type UpgradeFunc func(ctx context.Context, conn net.Conn, rank int) (Comm, error)

// Priority orders the bodies that wait for the bulk Comm of a pair: a body is granted before every body of a later class.
type Priority = p2p.Priority

// The classes, the most urgent first.
const (
	Pull       = p2p.Pull
	Push       = p2p.Push
	Background = p2p.Background
)

// The causes a caller may branch on with errors.Is. Calls return them inside an *Error.
var (
	// ErrPeer means that the connection was lost while the call was under way: whether it took effect is unknown.
	ErrPeer = p2p.ErrPeer
	// ErrUnreachable means that no connection could be made: the call was not sent.
	ErrUnreachable = errors.New("unreachable")
	// ErrRefused means, with ErrUnreachable, that trying again cannot help: certificate, token, or an address that is none.
	ErrRefused = p2p.ErrRefused
	// ErrUnusable means, from a PairFunc or an UpgradeFunc, that a side insists on what this pair cannot have. It ends the connection on both
	// sides and their calls with it; trying again cannot help.
	ErrUnusable = errors.New("transport cannot be had")
	// ErrStopped means that this side's Run has ended.
	ErrStopped = errors.New("link stopped")
	// ErrNoReply means that the handler returned without an answer.
	ErrNoReply = errors.New("handler gave no reply")
	// ErrCancelled means, on the server, that the caller has given the call up.
	ErrCancelled = errors.New("call cancelled by the caller")
	// ErrTooLarge means that a head or a body is over the limit of one side.
	ErrTooLarge = errors.New("too large")
	// ErrMalformed means that bytes from the peer are not what the protocol says.
	ErrMalformed = p2p.ErrMalformed
	// ErrVersion means that the two sides speak different versions.
	ErrVersion = errors.New("wrong version")
	// ErrWrongCluster means that the other side belongs to another cluster.
	ErrWrongCluster = errors.New("wrong cluster")
	// ErrNoUpgrade means, from an UpgradeFunc, that this pair will never have a better Comm: it is not asked for again.
	ErrNoUpgrade = errors.New("no better comm")
	// ErrWrongRecipient means that another server than the one meant answers at this address.
	ErrWrongRecipient = errors.New("wrong recipient")
)

// Error says what failed, with whom and why.
type Error struct {
	Op   string // "connect to" or "call"
	Addr string // address of the peer
	Peer string // its id, "" when not known
	Err  error
}

// Error is "op addr (id): cause".
func (e *Error) Error() string {
	if e.Peer == "" {
		return fmt.Sprintf("%s %s: %v", e.Op, e.Addr, e.Err)
	}
	return fmt.Sprintf("%s %s (%s): %v", e.Op, e.Addr, e.Peer, e.Err)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }
