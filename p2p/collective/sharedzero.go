package collective

import (
	"encoding/binary"
	"fmt"
)

// place is where b lies in this rank's shared memory, plus 1; 0: it does not.
func (x *exchange) place(b []byte) int {
	if x.call.Algorithm.Level0 != Auto {
		return 0 // a call can show its places once, and has several phases
	}
	if at, ok := x.shared.Offset(b); ok {
		return at + 1
	}
	return 0
}

// agree shows this rank's two places and says whether all ranks have some where this one has.
func (x *exchange) agree(from, to int) (bool, error) {
	if err := x.announce(nil, [2]int{from, to}); err != nil {
		return false, err
	}
	if err := x.meetAll(); err != nil {
		return false, err
	}
	for r := range x.shared.members {
		if a, b := x.placesOf(r); (a == 0) != (from == 0) || (b == 0) != (to == 0) {
			return false, nil
		}
	}
	return true, nil
}

// placesOf are the places of a rank.
func (x *exchange) placesOf(rank int) (from, to uint64) {
	b := x.shared.Memory(rank)[x.lane()*lineSize+inlineOffset:]
	return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
}

// lies is n bytes of a rank's memory at a place that it has named.
func (x *exchange) lies(rank int, at uint64, n int) ([]byte, error) {
	memory := x.shared.Memory(rank)
	if at == 0 || at-1 > uint64(len(memory)) || uint64(n) > uint64(len(memory))-(at-1) {
		name := x.name(x.shared.members[rank])
		return nil, &RankError{name, fmt.Errorf("rank %d names %d bytes at %d of its shared memory: %w", name, n, at, ErrMismatch)}
	}
	return memory[at-1 : at-1+uint64(n)], nil
}

// apart does this rank's part of a zero-copy form. If its own buffer is exposed it waits until all others have done theirs, which leaves them alone with
// theirs.
func (x *exchange) apart(exposed bool, do func() error) error {
	s := x.shared
	a := s.stageA()
	if !s.done {
		if err := do(); err != nil {
			return err
		}
		s.done = true
		s.Post(a.shown, a.before+1)
		s.Post(a.taken, a.before+1)
		x.progress.Add(1)
	}
	if err := x.meetAll(); err != nil {
		return err
	}
	if exposed {
		if err := x.want(want{NoRoot, a.taken, a.before + 1}); err != nil {
			return err
		}
	}
	s.rounds[0]++
	return nil
}

// zeroAllReduce reduces a slice of all ranks' buffers and writes it to all of them.
func zeroAllReduce(t team, v vector, dst []byte) error {
	s, p := t.shared, t.size()
	return t.apart(true, func() error {
		to := make([][]byte, p)
		for r := range p {
			a, b := t.placesOf(r)
			in, err := t.lies(r, a, len(dst))
			if err != nil {
				return err
			}
			out, err := t.lies(r, b, len(dst))
			if err != nil {
				return err
			}
			s.parts[r], to[r] = piece(in, v.width, s.me, p), piece(out, v.width, s.me, p)
		}
		n := len(to[s.me])
		for lo := 0; lo < n; lo += foldBlock {
			hi := min(lo+foldBlock, n)
			out := to[s.me][lo:hi]
			t.foldSpan(v, out, lo, hi)
			v.finish(out, v.over)
			for r := range p {
				if r != s.me {
					copy(to[r][lo:hi], out)
				}
			}
		}
		return nil
	})
}

// lying are n bytes of every rank at the places that it has named for what it sends.
func (t team) lying(n int) ([][]byte, error) {
	from := make([][]byte, t.size())
	for r := range from {
		var err error
		at, _ := t.placesOf(r)
		if from[r], err = t.lies(r, at, n); err != nil {
			return nil, err
		}
	}
	return from, nil
}

// zeroReduceScatter reduces a part straight from all ranks' buffers.
func zeroReduceScatter(t team, v vector, src, out []byte, parts cut) error {
	s := t.shared
	return t.apart(true, func() error {
		from, err := t.lying(len(src))
		if err != nil {
			return err
		}
		for r := range from {
			s.parts[r] = parts.part(from[r], s.me)
		}
		t.fold(v, out)
		return nil
	})
}

// zeroAllGather copies the parts straight from their owners' buffers.
func zeroAllGather(t team, data []byte, parts cut) error {
	return t.apart(true, func() error {
		for r := range t.size() {
			if r == t.shared.me {
				continue
			}
			dst := parts.part(data, r)
			at, _ := t.placesOf(r)
			from, err := t.lies(r, at, len(dst))
			if err != nil {
				return err
			}
			copy(dst, from)
		}
		return nil
	})
}

// zeroAlltoAll copies the parts straight from their senders' buffers.
func zeroAlltoAll(t team, src, dst []byte, parts cut) error {
	return t.apart(true, func() error {
		from, err := t.lying(len(src))
		if err != nil {
			return err
		}
		for r := range from {
			copy(parts.part(dst, r), parts.part(from[r], t.shared.me))
		}
		return nil
	})
}

// offers shows where data lies at root, and says whether it is to be read there.
func (x *exchange) offers(data []byte, root int) (bool, error) {
	s := x.shared
	at := 0
	if s.me == root {
		at = x.place(data)
	}
	if err := x.announce(nil, [2]int{at, 0}); err != nil {
		return false, err
	}
	if s.me != root {
		if err := x.meet(root); err != nil {
			return false, err
		}
	}
	from, _ := x.placesOf(root)
	return from != 0, nil
}

// zeroBroadcast copies data straight from root's buffer.
func zeroBroadcast(t team, data []byte, root int) error {
	return t.apart(t.shared.me == root, func() error {
		if t.shared.me == root {
			return nil
		}
		at, _ := t.placesOf(root)
		from, err := t.lies(root, at, len(data))
		if err == nil {
			copy(data, from)
		}
		return err
	})
}
