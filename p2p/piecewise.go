package p2p

// Piecewise is a Comm that lets a codec work straight in its memory, so that encoding or decoding replaces a copy. It is found by
// type assertion. Messages of the four kinds (Isend, IsendFunc, Irecv, IrecvFunc) keep one order, and the two sides need not
// choose the same kind.
//
// The functions are called one piece after the other, in order, by a goroutine of the Comm or by one that waits for any of its
// Requests, but never from within Isend, Irecv, IsendFunc or IrecvFunc. A piece is valid during the call. How a message is cut is the
// Comm's choice, and each side's own: every piece but the last is a multiple of 64 bytes long, and every piece begins at a
// multiple of 16 bytes in memory. A function must not wait for the Comm. If it returns an error the Comm is dead of it.
type Piecewise interface {
	// IsendFunc begins to send n bytes to peer. fill must write the whole of each piece.
	IsendFunc(peer, n int, fill func(piece []byte) error) *Request
	// IrecvFunc begins to receive n bytes from peer. take must not keep or change a piece.
	IrecvFunc(peer, n int, take func(piece []byte) error) *Request
}
