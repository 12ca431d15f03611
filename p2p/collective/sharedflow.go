package collective

// flow is an operation on shared memory in pieces, of one stage or two. In stage A every rank shows pieces, which others take or reduce; in stage B it shows
// what it has reduced, which others take. A rank goes on with whatever it can, the oldest first, and waits only when there is nothing.
type flow struct {
	pieces int
	from   int                      // the only rank that shows pieces in the last stage, by rank of the memory; NoRoot: all do
	show   func(i int, slot []byte) // puts piece i of this rank into a slot of stage A; nil: it has nothing to show
	reduce func(i int, slot []byte) // reduces piece i of all into a slot of stage B; nil: there is one stage
	take   func(i int)              // takes piece i of the last stage from all; nil: it takes nothing
}

// stage is the words and slots of one stage, and how many pieces it has had before the current operation.
type stage struct {
	shown, taken int // words
	slots        int // offset of the first
	before       uint64
}

func (s *sharing) stageA() stage {
	return stage{stagesWord + shownA, stagesWord + takenA, stageOffset, s.rounds[0]}
}

func (s *sharing) stageB() stage {
	return stage{stagesWord + shownB, stagesWord + takenB, stageOffset + depth*sharedPiece, s.rounds[1]}
}

// slot is where a rank shows piece i of the current operation.
func (s *sharing) slot(st stage, rank, i int) []byte {
	at := st.slots + int((st.before+uint64(i))%depth)*sharedPiece
	return s.Memory(rank)[at : at+sharedPiece : at+sharedPiece]
}

// want is what a word must be at ranks other than this one.
type want struct {
	only  int // rank of the memory, or NoRoot: all
	word  int
	least uint64
}

// shows wants piece i of a stage to be shown.
func (st stage) shows(only, i int) want { return want{only, st.shown, st.before + uint64(i) + 1} }

// frees wants the slot of piece i of a stage to be free: what was in it has been taken by all.
func (st stage) frees(i int) want {
	n := st.before + uint64(i) + 1
	return want{NoRoot, st.taken, max(n, depth) - depth}
}

// behind is the first rank that has not got so far, or -1.
func (s *sharing) behind(w want) int {
	if w.only != NoRoot {
		if w.only != s.me && s.Look(w.only, w.word, 0) < w.least {
			return w.only
		}
		return -1
	}
	for r := range s.members {
		if r != s.me && s.Look(r, w.word, 0) < w.least {
			return r
		}
	}
	return -1
}

// wait waits for the rank that is behind.
func (x *exchange) want(w want) error {
	for {
		r := x.shared.behind(w)
		if r < 0 {
			return nil
		}
		if err := x.waitShared(r, w.word, w.least); err != nil {
			return err
		}
	}
}

// run carries a flow out; after errLater it goes on where it was.
func (x *exchange) run(f flow) error {
	s := x.shared
	if err := x.announce(nil, [2]int{}); err != nil {
		return err
	}
	a, last := s.stageA(), s.stageA()
	if f.reduce != nil {
		last = s.stageB()
	}
	if f.show == nil {
		s.at[0] = f.pieces
	}
	if f.take == nil && s.at[2] == 0 {
		s.at[2] = f.pieces
		s.Post(last.taken, last.before+uint64(f.pieces))
	}
	for s.at[0] < f.pieces || s.at[2] < f.pieces || f.reduce != nil && s.at[1] < f.pieces {
		if err := x.step(f, a, last); err != nil {
			return err
		}
	}
	if err := x.meetAll(); err != nil { // who only shows has met nobody yet
		return err
	}
	if f.show == nil {
		s.Post(a.shown, a.before+uint64(f.pieces))
	}
	s.rounds[0] += uint64(f.pieces)
	if f.reduce != nil {
		s.rounds[1] += uint64(f.pieces)
	}
	s.at = [3]int{}
	return nil
}

// step does the oldest thing that can be done, or waits for what the oldest needs.
func (x *exchange) step(f flow, a, last stage) error {
	s := x.shared
	first := want{least: 0}
	can := func(w want) bool {
		if s.behind(w) < 0 {
			return true
		}
		if first.least == 0 {
			first = w
		}
		return false
	}
	used, ready := s.at[1], s.at[1] // pieces of stage A that this rank needs no more; pieces of the last stage that it has shown
	if f.reduce == nil {
		used, ready = s.at[2], s.at[0]
	}
	switch {
	case s.at[2] < ready && can(last.shows(f.from, s.at[2])):
		return x.takes(f, last)
	case f.reduce != nil && s.at[1] < s.at[0] && can(a.shows(NoRoot, s.at[1])) && can(last.frees(s.at[1])):
		return x.reduces(f, a, last)
	case s.at[0] < f.pieces && s.at[0] < used+depth && can(a.frees(s.at[0])):
		f.show(s.at[0], s.slot(a, s.me, s.at[0]))
		s.at[0]++
		s.Post(a.shown, a.before+uint64(s.at[0]))
		return nil
	default:
		return x.want(first)
	}
}

func (x *exchange) takes(f flow, last stage) error {
	s := x.shared
	if f.from == NoRoot || f.reduce != nil {
		if err := x.meetAll(); err != nil {
			return err
		}
	} else if err := x.meet(f.from); err != nil {
		return err
	}
	f.take(s.at[2])
	s.at[2]++
	s.Post(last.taken, last.before+uint64(s.at[2]))
	x.progress.Add(1)
	return nil
}

func (x *exchange) reduces(f flow, a, last stage) error {
	if err := x.meetAll(); err != nil {
		return err
	}
	s := x.shared
	f.reduce(s.at[1], s.slot(last, s.me, s.at[1]))
	s.at[1]++
	s.Post(a.taken, a.before+uint64(s.at[1]))
	s.Post(last.shown, last.before+uint64(s.at[1]))
	x.progress.Add(1)
	return nil
}
