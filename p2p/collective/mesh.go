package collective

// meshReduceScatter leaves part me of the reduction of every src in out, which may be that part of src. Every rank sends part i to rank i, which
// folds what it gets in ascending order of the ranks of the Comm: it is the reduction in rank order too.
// Cost: alpha + n/p beta with a link to every peer, (p-1)/p n beta over one, and (p-1)/p n gamma.
func meshReduceScatter(t team, v vector, src, out []byte, parts cut) error {
	p := t.size()
	order := t.ascending()
	k := pieces(parts.largest(), v.piece)
	depth := min(k, ahead)
	bufs := make([][]byte, depth*p)
	came := make([]*message, depth*p)
	for i := range bufs {
		if i%p != t.me {
			bufs[i] = t.scratch.take(v.piece)
		}
	}
	begin := func(i int) {
		n := len(piece(out, v.width, i, k))
		for d := 1; d < p; d++ {
			from := t.at(-d)
			at := i%depth*p + from
			came[at] = t.recv(from, bufs[at][:n])
		}
	}
	for i := range depth {
		begin(i)
	}
	for i := range k {
		for d := 1; d < p; d++ {
			t.send(t.at(d), piece(parts.part(src, t.at(d)), v.width, i, k))
		}
	}
	contributions := make([][]byte, p)
	for i := range k {
		dst := piece(out, v.width, i, k)
		for at, from := range order {
			if from == t.me {
				contributions[at] = piece(parts.part(src, t.me), v.width, i, k)
				continue
			}
			if err := t.wait(came[i%depth*p+from]); err != nil {
				return err
			}
			contributions[at] = bufs[i%depth*p+from][:len(dst)]
		}
		v.fold(dst, contributions)
		if i+depth < k {
			begin(i + depth)
		}
	}
	return t.flush()
}

// meshReduceAll leaves the reduction of every src in dst, which may be src, as meshReduceScatter and meshAllGather one after the other do, but each piece goes to
// all others as soon as it is reduced, so that the wires are never idle.
// Cost: 2 alpha + 2 n/p beta with a link to every peer, 2 (p-1)/p n beta over one, and (p-1)/p n gamma.
func meshReduceAll(t team, v vector, src, dst []byte, parts cut) error {
	m := newMeshing(t, v, src, dst, parts)
	for i := range m.depth {
		m.begin(i)
	}
	for i := range m.k {
		for d := 1; d < t.size(); d++ {
			to := t.at(d)
			m.sent[i*t.size()+to] = t.send(to, piece(parts.part(src, to), v.width, i, m.k))
		}
	}
	for i := range m.k {
		if err := m.reduce(i); err != nil {
			return err
		}
		if i+m.depth < m.k {
			m.begin(i + m.depth)
		} else if err := m.gather(i + m.depth - m.k); err != nil {
			return err
		}
	}
	for i := m.depth; i < m.k; i++ {
		if err := m.gather(i); err != nil {
			return err
		}
	}
	return t.flush()
}

// meshing is a meshReduceAll under way at one rank.
type meshing struct {
	team
	v        vector
	src, dst []byte
	parts    cut
	k, depth int        // pieces of a part, and how many are awaited at a time
	order    []int      // of the fold
	bufs     [][]byte   // for the contributions of others to a piece, by its number modulo depth and member
	came     []*message // like bufs
	sent     []*message // own contributions, by piece and member
	in       [][]byte   // to fold
}

func newMeshing(t team, v vector, src, dst []byte, parts cut) *meshing {
	p := t.size()
	m := &meshing{team: t, v: v, src: src, dst: dst, parts: parts, k: pieces(parts.largest(), v.piece), order: t.ascending(), in: make([][]byte, p)}
	m.depth = min(m.k, ahead)
	m.bufs, m.came, m.sent = make([][]byte, m.depth*p), make([]*message, m.depth*p), make([]*message, m.k*p)
	for i := range m.bufs {
		if i%p != t.me {
			m.bufs[i] = t.scratch.take(v.piece)
		}
	}
	return m
}

// part is piece i of a member's part of b.
func (m *meshing) part(b []byte, member, i int) []byte {
	return piece(m.parts.part(b, member), m.v.width, i, m.k)
}

// begin lets the contributions of all others to piece i of this rank's part come.
func (m *meshing) begin(i int) {
	n := len(m.part(m.dst, m.me, i))
	for d := 1; d < m.size(); d++ {
		from := m.at(-d)
		at := i%m.depth*m.size() + from
		m.came[at] = m.recv(from, m.bufs[at][:n])
	}
}

// reduce folds piece i of this rank's part, and sends it to all others.
func (m *meshing) reduce(i int) error {
	out := m.part(m.dst, m.me, i)
	for at, from := range m.order {
		if from == m.me {
			m.in[at] = m.part(m.src, from, i)
			continue
		}
		slot := i%m.depth*m.size() + from
		if err := m.wait(m.came[slot]); err != nil {
			return err
		}
		m.in[at] = m.bufs[slot][:len(out)]
	}
	m.v.fold(out, m.in)
	m.v.finish(out, m.v.over)
	for d := 1; d < m.size(); d++ {
		m.send(m.at(d), out)
	}
	return nil
}

// gather lets piece i of the others' parts come, to where this rank's contributions may have been.
func (m *meshing) gather(i int) error {
	for d := 1; d < m.size(); d++ {
		from := m.at(-d)
		if err := m.wait(m.sent[i*m.size()+from]); err != nil {
			return err
		}
		m.recv(from, m.part(m.dst, from, i))
	}
	return nil
}

const (
	// oneShot is the most bytes that all others together send a rank in meshAllReduce's single step, where there are more than two.
	oneShot = 16 << 10
	// farAhead is how many receives meshAllReduce keeps posted. More find nothing to do, and leave the caches.
	farAhead = 8
)

// small says whether an AllReduce of n bytes between p ranks is done in a single step. A pair always does: it exchanges no more bytes so than in two steps,
// and no piece waits for what another has become; that it folds twice as many costs less, over tcp a quarter less from 1 MiB to 64 MiB.
func small(n, p int) bool { return n*(p-1) <= oneShot || p == 2 }

// meshAllReduce leaves the reduction of every src in dst, which may be src: every rank gets all of every other's, and folds as meshReduceScatter
// does, for messages that are cheaper sent whole than twice. What has come is folded while the next pieces are on the wire.
// Cost: alpha + (p-1) n beta and the fold of the last piece, or (p-1) n gamma where that is more.
func meshAllReduce(t team, v vector, src, dst []byte) error {
	k, p := pieces(len(src), v.piece), t.size()
	window := min(k, farAhead)
	order, bufs := t.ascending(), make([][]byte, p)
	for at, from := range order {
		if from != t.me {
			bufs[at] = t.scratch.take(window * v.piece)
		}
	}
	came, sent := make([]*message, window*p), make([]*message, k*p)
	slot := func(at, i int) []byte {
		return bufs[at][i%window*v.piece:][:len(piece(src, v.width, i, k))]
	}
	begin := func(i int) {
		for at, from := range order {
			if from != t.me {
				came[i%window*p+at] = t.recv(from, slot(at, i))
			}
		}
	}
	for i := range window {
		begin(i)
	}
	for i := range k {
		for d := 1; d < p; d++ {
			sent[i*p+t.at(d)] = t.send(t.at(d), piece(src, v.width, i, k))
		}
	}
	in := make([][]byte, p)
	for i := range k {
		if err := t.wait(came[i%window*p:][:p]...); err != nil {
			return err
		}
		if err := t.wait(sent[i*p:][:p]...); err != nil { // dst may be what is sent
			return err
		}
		for at, from := range order {
			if in[at] = piece(src, v.width, i, k); from != t.me {
				in[at] = slot(at, i)
			}
		}
		out := piece(dst, v.width, i, k)
		v.fold(out, in)
		v.finish(out, v.over)
		if i+window < k {
			begin(i + window)
		}
	}
	return t.flush()
}

// meshAllGather completes data, of which each rank has its part: every rank sends its own to every other.
// Cost: alpha + n/p beta with a link to every peer, (p-1)/p n beta over one.
func meshAllGather(t team, data []byte, parts cut) error {
	for d := 1; d < t.size(); d++ {
		t.recv(t.at(-d), parts.part(data, t.at(-d)))
		t.send(t.at(d), parts.part(data, t.me))
	}
	return t.flush()
}

// meshBroadcast sends part i of root's data to rank i, which hands it to all others; root's own part goes to all.
// Cost: 2 alpha + 2 n/p beta with a link to every peer.
func meshBroadcast(t team, v vector, data []byte, root int) error {
	parts := even(len(data)/v.width, v.width, t.size())
	if t.me == root {
		for d := 1; d < t.size(); d++ {
			t.send(t.at(d), parts.part(data, t.at(d)))
		}
		for d := 1; d < t.size(); d++ {
			t.send(t.at(d), parts.part(data, root))
		}
		return t.flush()
	}
	mine := t.recv(root, parts.part(data, t.me))
	t.recv(root, parts.part(data, root))
	for d := 1; d < t.size(); d++ {
		if from := t.at(-d); from != root {
			t.recv(from, parts.part(data, from))
		}
	}
	if err := t.wait(mine); err != nil {
		return err
	}
	for d := 1; d < t.size(); d++ {
		if to := t.at(d); to != root {
			t.send(to, parts.part(data, t.me))
		}
	}
	return t.flush()
}

// meshScatter sends part i of root's src to out at rank i.
func meshScatter(t team, src, out []byte, parts cut, root int) error {
	if t.me != root {
		return t.wait(t.recv(root, out))
	}
	for d := 1; d < t.size(); d++ {
		t.send(t.at(d), parts.part(src, t.at(d)))
	}
	return t.flush()
}

// meshGather sends src of rank i to part i of out at root; root's own part is its own affair.
func meshGather(t team, src, out []byte, parts cut, root int) error {
	if t.me != root {
		return t.wait(t.send(root, src))
	}
	for d := 1; d < t.size(); d++ {
		t.recv(t.at(-d), parts.part(out, t.at(-d)))
	}
	return t.flush()
}

// meshAlltoAll sends part i of src to rank i, which puts it at the part of the sender, all at once.
// Cost: alpha + n/p beta with a link to every peer.
func meshAlltoAll(t team, src, dst []byte, out, in cut) error {
	for d := 1; d < t.size(); d++ {
		t.recv(t.at(-d), in.part(dst, t.at(-d)))
		t.send(t.at(d), out.part(src, t.at(d)))
	}
	return t.flush()
}

// pairwiseAlltoAll does as meshAlltoAll with one partner to send to and one to receive from at a time, so that nobody is flooded.
// Cost: (p-1) alpha + (p-1)/p n beta.
func pairwiseAlltoAll(t team, src, dst []byte, out, in cut) error {
	for d := 1; d < t.size(); d++ {
		came := t.recv(t.at(-d), in.part(dst, t.at(-d)))
		went := t.send(t.at(d), out.part(src, t.at(d)))
		if err := t.wait(came, went); err != nil {
			return err
		}
	}
	return nil
}
