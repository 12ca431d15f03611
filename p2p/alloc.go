package p2p

// Allocator is a Comm that has memory of its own for messages: what is sent from it, or received into it, is copied less
// often than other memory. Find it by type assertion:
//
//	if a, ok := comm.(p2p.Allocator); ok {
//		buf, err = a.Alloc(n)
//	}
type Allocator interface {
	// Alloc returns n bytes, aligned to 64, zero at first. They live as long as the Comm: after Close, or when Run has returned,
	// the memory is gone and must not be touched. So keep such a buffer beside its Comm and use it again and again; there
	// is no way to give one back. Any number of goroutines may call Alloc at the same time.
	Alloc(n int) (Buffer, error)
}
