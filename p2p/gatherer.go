package p2p

// Gatherer is a Comm that sends a message from several places in memory, so that it need not be copied into one before. It is found by type assertion.
type Gatherer interface {
	// Gathers says whether it does.
	Gathers() bool
	// IsendGathered is Isend of the bytes in places, one after another. The list belongs to the Comm from now on, too.
	IsendGathered(peer int, places [][]byte) *Request
}

// Located is a Source whose bytes are in memory, where nobody changes them until the transfer is done. Over a Gatherer they are sent from there.
type Located interface {
	Source
	// Locate is where n bytes from offset off on are, in order, in a new list; nil if they are in more than most places. It is called as Fill is.
	Locate(off, n, most int) [][]byte
}

// A message is gathered from no more places than one in so many bytes, and a few: from smaller ones a copy is as fast, or faster.
const (
	smallPlace = 64 << 10
	fewPlaces  = 8
)

// gather begins to send a chunk from where its source has it. It returns nil if that cannot be done, or is not worth while.
func (f *flow) gather(src Source, off, n int) *Request {
	comm, ok := f.comm.(Gatherer)
	if !ok || !comm.Gathers() {
		return nil
	}
	l, ok := src.(Located)
	if !ok {
		return nil
	}
	places := l.Locate(off, n, n/smallPlace+fewPlaces)
	if places == nil {
		return nil
	}
	return comm.IsendGathered(f.peer, places)
}
