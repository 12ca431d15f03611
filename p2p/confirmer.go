package p2p

// Confirmer is a Comm that keeps a promise some cannot: when a send has completed well, its receive has completed well, or will, whatever happens to
// the Comm after. A Transfer over another Comm lets its receiver say what it has. It is found by type assertion.
type Confirmer interface {
	// Confirms says whether the promise holds.
	Confirms() bool
}
