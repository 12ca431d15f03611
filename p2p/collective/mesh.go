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

// oneShot is the most bytes that all others together send a rank in meshAllReduce's single step.
const oneShot = 16 << 10

// small says whether an AllReduce of n bytes between p ranks is done in a single step.
func small(n, p int) bool { return n*(p-1) <= oneShot }

// meshAllReduce leaves the reduction of every src in dst, which may be src: every rank gets all of every other's, and folds as meshReduceScatter
// does, for messages that are cheaper sent whole than twice.
// Cost: alpha + (p-1) n (beta + gamma).
func meshAllReduce(t team, v vector, src, dst []byte) error {
	contributions := make([][]byte, t.size())
	for at, from := range t.ascending() {
		contributions[at] = src
		if from != t.me {
			contributions[at] = t.scratch.take(len(src))
			t.recv(from, contributions[at])
			t.send(from, src)
		}
	}
	if err := t.flush(); err != nil { // dst may be what is sent
		return err
	}
	v.fold(dst, contributions)
	v.finish(dst, v.over)
	return nil
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
