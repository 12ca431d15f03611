package collective

// ahead is how many receives a pipeline keeps posted.
const ahead = 2

// ringReduceScatter leaves part me of the reduction of every src in out, which may be that part of src. Part i starts at rank i+1 and
// goes once around; in each of p-1 steps a rank adds its own to a part and hands it on, piece by piece.
// Cost: (p-1) alpha + (p-1)/p n beta + (p-1)/p n gamma.
func ringReduceScatter(t team, v vector, src, out []byte, parts cut) error {
	p := t.size()
	k := pieces(parts.largest(), v.piece)
	total := (p - 1) * k
	for i := range k {
		t.send(t.at(1), piece(parts.part(src, t.at(-1)), v.width, i, k))
	}
	// A piece that came in leaves again a whole step later in the order of messages, so slots for a step are in use, and some for what comes.
	slots := make([]slot, min(total, k+ahead+1))
	if p == 2 {
		slots = slots[:min(total, ahead+1)]
	}
	for i := range slots {
		slots[i].buf = t.scratch.take(v.piece)
	}
	own := func(i int) []byte { return piece(parts.part(src, t.at(-2-i/k)), v.width, i%k, k) }
	begin := func(i int) error {
		s := &slots[i%len(slots)]
		if err := t.wait(s.sent); err != nil {
			return err
		}
		s.came = t.recv(t.at(-1), s.buf[:len(own(i))])
		return nil
	}
	for i := range min(ahead, total) {
		if err := begin(i); err != nil {
			return err
		}
	}
	for i := range total {
		s, mine := &slots[i%len(slots)], own(i)
		if err := t.wait(s.came); err != nil {
			return err
		}
		partial := s.buf[:len(mine)]
		if i/k < p-2 {
			v.into(partial, mine)
			s.sent = t.send(t.at(1), partial)
		} else {
			dst := piece(out, v.width, i%k, k)
			place(dst, mine)
			v.into(dst, partial)
		}
		if i+ahead < total {
			if err := begin(i + ahead); err != nil {
				return err
			}
		}
	}
	return t.flush()
}

// slot is memory for a piece under way: it comes in and goes on.
type slot struct {
	buf  []byte
	came *message
	sent *message
}

// ringAllGather completes data, of which each rank has its part: every part goes once around.
// Cost: (p-1) alpha + (p-1)/p n beta.
func ringAllGather(t team, v vector, data []byte, parts cut) error {
	p := t.size()
	k := pieces(parts.largest(), v.piece)
	total := (p - 1) * k
	for i := range k {
		t.send(t.at(1), piece(parts.part(data, t.me), v.width, i, k))
	}
	at := func(i int) []byte { return piece(parts.part(data, t.at(-1-i/k)), v.width, i%k, k) }
	came := make([]*message, total)
	for i := range total + ahead {
		if i < total {
			came[i] = t.recv(t.at(-1), at(i))
		}
		j := i - ahead
		if j < 0 {
			continue
		}
		if err := t.wait(came[j]); err != nil {
			return err
		}
		if j/k < p-2 {
			t.send(t.at(1), at(j))
		}
	}
	return t.flush()
}

// ringBroadcast passes data of root along the ring, piece by piece.
// Cost: (p-2+k) (alpha + n/k beta) with k pieces.
func ringBroadcast(t team, v vector, data []byte, root int) error {
	k := pieces(len(data), v.piece)
	last := t.at(1) == root
	came := make([]*message, k)
	for i := range k + ahead {
		if i < k && t.me != root {
			came[i] = t.recv(t.at(-1), piece(data, v.width, i, k))
		}
		j := i - ahead
		if j < 0 {
			continue
		}
		if err := t.wait(came[j]); err != nil {
			return err
		}
		if !last {
			t.send(t.at(1), piece(data, v.width, j, k))
		}
	}
	return t.flush()
}
