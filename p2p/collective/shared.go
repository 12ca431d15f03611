package collective

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"hcclps/p2p"
)

// Shared is memory that the ranks of one host have mapped, by which they reduce straight from each other's. It numbers the ranks of the host among
// the group's, in ascending order. The Regions of p2p/shm/region implement it. A Group uses it from one goroutine at a time, but Leave and those of
// SharedMemory, which any may call.
type Shared interface {
	SharedMemory
	// Post raises the word of 8 bytes at word x 8 of this rank's memory, after all that this rank has written, and wakes who waits for it.
	Post(word int, value uint64)
	// Look waits until a rank's word is at least least, while it is worth while to hold the CPU for it. It returns the value seen last. With least 0 it does not wait.
	Look(rank, word int, least uint64) uint64
	// Await waits until a rank's word is at least least, or ctx ends, or that rank is gone, which is p2p.ErrPeer.
	Await(ctx context.Context, rank, word int, least uint64) error
	// Leave says that this rank will post no more.
	Leave()
}

// SharedMemory is the memory itself.
type SharedMemory interface {
	// Memory is that of a rank.
	Memory(rank int) []byte
	// Alloc returns n bytes of this rank's memory, aligned to 64. The first that are allocated are at its beginning.
	Alloc(n int) ([]byte, error)
	// Offset is where b lies in this rank's memory, if it does.
	Offset(b []byte) (int, bool)
}

// The workspace of a group is what it allocates first of each rank's memory:
//
//	0     4 lines of 64 bytes: u64 number of a call, u64 digest of its fingerprint, 48 bytes that belong to it
//	256   u64 pieces shown and taken in stage A, and in stage B
//	512   4 fingerprints
//	4096  4 messages of tiny bytes
//	...   depth pieces of stage A, then of stage B
//
// A call uses the line, the fingerprint and the message of its number modulo 4. They are overwritten when every rank has begun the call after.
const (
	lanes        = 4
	lineSize     = 64
	inlineOffset = 16
	inlineRoom   = lineSize - inlineOffset
	stagesWord   = 256 / 8
	printsOffset = 512
	tinyOffset   = 4096
	tiny         = 16 << 10  // bytes of a message that is shown whole
	sharedPiece  = 256 << 10 // bytes of a piece
	depth        = 2
	stageOffset  = tinyOffset + lanes*tiny
	workspace    = stageOffset + 2*depth*sharedPiece
)

// The words of a stage, counted from stagesWord.
const (
	shownA = iota
	takenA
	shownB
	takenB
)

// errLater means that an operation waits longer than the goroutine that carries it out has time for; it can be taken up again.
var errLater = errors.New("not yet")

// sharing is what an exchange does with shared memory.
type sharing struct {
	Shared
	members []int // ranks of the Comm, by rank of the memory
	me      int
	own     []byte // this rank's memory

	hasty  bool      // errLater rather than sleep
	rounds [2]uint64 // pieces of the stages, over all operations that have ended

	// Of the current operation:
	said  bool
	met   bool
	done  bool     // own part of a zero-copy form
	at    [3]int   // pieces shown, reduced and taken
	views [][]byte // of parts
	block []byte   // to fold in
	parts [][]byte
	waits struct {
		rank, word int
		least      uint64
	}
}

// newSharing takes the workspace. It is nil where this rank shares memory with nobody.
func newSharing(s Shared, members []int, me int) (*sharing, error) {
	if s == nil || len(members) < 2 {
		return nil, nil //nolint:nilnil // nothing is wrong
	}
	b, err := s.Alloc(workspace)
	if err != nil {
		return nil, fmt.Errorf("take memory to work in: %w", err)
	}
	if at, ok := s.Offset(b); !ok || at != 0 {
		return nil, errors.New("shared memory is in use already: a group needs one of its own")
	}
	return &sharing{Shared: s, members: members, me: me, own: s.Memory(me), parts: make([][]byte, len(members)), views: make([][]byte, len(members))}, nil
}

// begin prepares for the next operation.
func (s *sharing) begin() {
	s.said, s.met, s.done, s.at = false, false, false, [3]int{}
	s.waits.least = 0
}

// wait waits for a word of a rank of the memory.
func (x *exchange) waitShared(rank, word int, least uint64) error {
	s := x.shared
	if s.Look(rank, word, least) >= least {
		return nil
	}
	if s.hasty {
		return errLater
	}
	s.waits.rank, s.waits.word, s.waits.least = rank, word, least
	if err := s.Await(x.ctx, rank, word, least); err != nil {
		name := x.name(s.members[rank])
		return &RankError{name, fmt.Errorf("share memory with rank %d: %w", name, err)}
	}
	s.waits.least = 0
	return nil
}

// lane is where the current call is.
func (x *exchange) lane() int { return int(x.call.Seq % lanes) }

// announce shows the current call to the ranks of the host, with what belongs to it: a message of at most tiny bytes, or two places.
func (x *exchange) announce(message []byte, places [2]int) error {
	s := x.shared
	if s.said {
		return nil
	}
	if before := x.call.Seq - lanes + 1; x.call.Seq >= lanes {
		for r := range s.members {
			if err := x.waitShared(r, int(before%lanes)*lineSize/8, before); err != nil {
				return err
			}
		}
	}
	lane := x.lane()
	line := s.own[lane*lineSize : (lane+1)*lineSize]
	shown := s.own[printsOffset+lane*printSize : printsOffset+(lane+1)*printSize]
	fingerprint{call: x.call}.encode(shown)
	binary.LittleEndian.PutUint64(line[8:], fold64(shown))
	switch {
	case message == nil:
		binary.LittleEndian.PutUint64(line[inlineOffset:], uint64(places[0]))
		binary.LittleEndian.PutUint64(line[inlineOffset+8:], uint64(places[1]))
	case len(message) <= inlineRoom:
		copy(line[inlineOffset:], message)
	default:
		copy(s.own[tinyOffset+lane*tiny:], message)
	}
	s.Post(lane*lineSize/8, x.call.Seq)
	s.said = true
	return nil
}

// meet waits until a rank has called what this one has.
func (x *exchange) meet(rank int) error {
	s := x.shared
	lane := x.lane()
	if err := x.waitShared(rank, lane*lineSize/8, x.call.Seq); err != nil {
		return err
	}
	memory := s.Memory(rank)
	if binary.LittleEndian.Uint64(memory[lane*lineSize+8:]) == binary.LittleEndian.Uint64(s.own[lane*lineSize+8:]) {
		return nil
	}
	return x.differs(rank)
}

// differs is the error of a rank that has shown another call.
func (x *exchange) differs(rank int) error {
	s := x.shared
	lane := x.lane()
	peer := s.members[rank]
	f, err := decode(s.Memory(rank)[printsOffset+lane*printSize : printsOffset+(lane+1)*printSize])
	if err != nil || f.call == x.call {
		return &RankError{x.name(peer), fmt.Errorf("rank %d shows a call that is none: %w: %w", x.name(peer), errors.Join(err), ErrMismatch)}
	}
	x.edges[peer].last, x.edges[peer].known = f.call, true
	return x.mismatch(peer, f, 0)
}

// meetAll waits until all ranks of the host have called what this one has.
func (x *exchange) meetAll() error {
	s := x.shared
	if s.met {
		return nil
	}
	for r := range s.members {
		if r != s.me {
			if err := x.meet(r); err != nil {
				return err
			}
		}
	}
	s.met = true
	x.progress.Add(1)
	return nil
}

// shown is the tiny message of a rank in the current call, of n bytes.
func (x *exchange) shown(rank, n int) []byte {
	memory, lane := x.shared.Memory(rank), x.lane()
	if n <= inlineRoom {
		at := lane*lineSize + inlineOffset
		return memory[at : at+n : at+n]
	}
	at := tinyOffset + lane*tiny
	return memory[at : at+n : at+n]
}

// fold64 is a digest of a fingerprint, which equal calls have alike.
func fold64(b []byte) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for i := 0; i+8 <= len(b); i += 8 {
		h = (h ^ binary.LittleEndian.Uint64(b[i:])) * 0xff51afd7ed558ccd
		h ^= h >> 32
	}
	return h
}

// judgeShared looks for a call that a rank of the host has shown in place of the current one.
func (x *exchange) judgeShared() error {
	s := x.shared
	if s == nil || !s.said {
		return nil
	}
	for r := range s.members {
		if word := x.lane() * lineSize / 8; r != s.me && s.Look(r, word, 0) >= x.call.Seq {
			if err := x.meet(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// recall notes the last calls that ranks of the host have shown.
func (x *exchange) recall() {
	if x.shared == nil {
		return
	}
	for r, member := range x.shared.members {
		for lane := range lanes {
			at := printsOffset + lane*printSize
			f, err := decode(x.shared.Memory(r)[at : at+printSize])
			if e := &x.edges[member]; err == nil && r != x.shared.me && (!e.known || f.call.Seq > e.last.Seq) {
				e.last, e.known = f.call, true
			}
		}
	}
}

// awaited adds the ranks of the host that the current operation waits for.
func (s *sharing) awaited(ranks []int) []int {
	if s == nil || s.waits.least == 0 {
		return ranks
	}
	for r, member := range s.members {
		if r != s.me && s.Look(r, s.waits.word, 0) < s.waits.least {
			ranks = append(ranks, member)
		}
	}
	return ranks
}

// Alloc returns n bytes of memory that the ranks of this host read in place: what is sent from or received into it is copied less often. Without such
// memory it is the Comm's own, if it has any, or the heap's. It lives as long as the Shared or the Comm of the Config and cannot be given back. Ranks need not
// allocate alike. Any number of goroutines may call it.
func (g *Group) Alloc(n int) (p2p.Buffer, error) {
	if g.all.shared != nil {
		b, err := g.all.shared.Alloc(n)
		if err != nil {
			return p2p.Buffer{}, fmt.Errorf("allocate for rank %d: %w", g.cfg.Ranks[g.Rank()], err)
		}
		return p2p.Bytes(b), nil
	}
	if a, ok := g.cfg.Comm.(p2p.Allocator); ok {
		return a.Alloc(n)
	}
	return p2p.Bytes(make([]byte, n)), nil
}
