package collective

import "slices"

// treeReduce leaves the reduction of every src in out at root, along a binomial tree. out is scratch elsewhere, and may be src.
// Cost: ceil(log2 p) (alpha + n beta + n gamma).
func treeReduce(t team, v vector, src, out []byte, root int) error {
	p, seat := t.size(), t.at(-root)
	place(out, src)
	in := t.scratch.take(len(out))
	for bit := 1; bit < p; bit *= 2 {
		if seat&bit != 0 {
			return t.wait(t.send((seat-bit+root)%p, out))
		}
		if seat+bit >= p {
			continue
		}
		if err := t.wait(t.recv((seat+bit+root)%p, in)); err != nil {
			return err
		}
		v.into(out, in)
	}
	return nil
}

// starReduce does as treeReduce, but root gets every src and folds them in ascending order of the ranks of the Comm.
// Cost: alpha + (p-1) n (beta + gamma).
func starReduce(t team, v vector, src, out []byte, root int) error {
	if t.me != root {
		return t.wait(t.send(root, src))
	}
	contributions := make([][]byte, t.size())
	for at, from := range t.ascending() {
		contributions[at] = src
		if from != root {
			contributions[at] = t.scratch.take(len(src))
			t.recv(from, contributions[at])
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	v.fold(out, contributions)
	return nil
}

// treeBroadcast copies data of root to every rank along a binomial tree.
// Cost: ceil(log2 p) (alpha + n beta).
func treeBroadcast(t team, data []byte, root int) error {
	p, seat := t.size(), t.at(-root)
	bit := 1
	for ; bit < p; bit *= 2 {
		if seat&bit != 0 {
			if err := t.wait(t.recv((seat-bit+root)%p, data)); err != nil {
				return err
			}
			break
		}
	}
	for bit /= 2; bit > 0; bit /= 2 {
		if seat+bit < p {
			t.send((seat+bit+root)%p, data)
		}
	}
	return t.flush()
}

// disseminate returns when every rank has called it: in round k each tells the one 2^k further what it has heard of.
// (Hensgen, Finkel and Manber, 1988.) Cost: ceil(log2 p) alpha.
func disseminate(t team) error {
	for bit := 1; bit < t.size(); bit *= 2 {
		came := t.recv(t.at(-bit), nil)
		t.send(t.at(bit), nil)
		if err := t.wait(came); err != nil {
			return err
		}
	}
	return t.flush()
}

// ascending is the members in the order of the ranks of the Comm.
func (t team) ascending() []int {
	order := make([]int, t.size())
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return t.ranks[a] - t.ranks[b] })
	return order
}
